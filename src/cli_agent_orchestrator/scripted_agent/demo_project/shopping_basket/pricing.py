"""What a number of pieces costs, in cents."""

DISCOUNT_FROM = 10
DISCOUNT_PERCENT = 10


def price_of(unit_price: int, quantity: int) -> int:
    """Return the price of so many pieces; ten or more are 10 % cheaper."""
    price = unit_price * quantity
    if quantity > DISCOUNT_FROM:
        return price * (100 - DISCOUNT_PERCENT) // 100
    return price
