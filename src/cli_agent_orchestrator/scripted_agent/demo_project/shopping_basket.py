"""The basket, and what it costs in cents."""

DISCOUNT_FROM = 10
DISCOUNT_PERCENT = 10


def price_of(unit_price: int, quantity: int) -> int:
    """Return the price of so many pieces; ten or more are 10 % cheaper."""
    price = unit_price * quantity
    if quantity > DISCOUNT_FROM:
        return price * (100 - DISCOUNT_PERCENT) // 100
    return price


class Basket:
    """Articles and how many of each."""

    def __init__(self) -> None:
        self._unit_prices: dict[str, int] = {}
        self._quantities: dict[str, int] = {}

    def add(self, article: str, unit_price: int, quantity: int = 1) -> None:
        """Put pieces of an article into the basket."""
        self._unit_prices[article] = unit_price
        self._quantities[article] = quantity

    def total(self) -> int:
        """Return what everything costs."""
        return sum(
            price_of(self._unit_prices[article], quantity)
            for article, quantity in self._quantities.items()
        )
