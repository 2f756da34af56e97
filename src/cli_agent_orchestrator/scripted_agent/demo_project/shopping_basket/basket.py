"""The basket."""

from shopping_basket.pricing import price_of


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
