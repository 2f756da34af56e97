"""What the basket promises."""

import unittest

from shopping_basket import Basket


class BasketTest(unittest.TestCase):
    def test_an_empty_basket_costs_nothing(self) -> None:
        self.check(Basket(), 0)

    def test_different_articles_add_up(self) -> None:
        basket = Basket()
        basket.add("tea", 350)
        basket.add("cup", 120, quantity=2)
        self.check(basket, 590)

    def test_the_same_article_added_twice_counts_twice(self) -> None:
        basket = Basket()
        basket.add("tea", 350)
        basket.add("tea", 350, quantity=2)
        self.check(basket, 1050)

    def test_nine_pieces_have_the_full_price(self) -> None:
        basket = Basket()
        basket.add("cup", 100, quantity=9)
        self.check(basket, 900)

    def test_ten_pieces_are_cheaper(self) -> None:
        basket = Basket()
        basket.add("cup", 100, quantity=10)
        self.check(basket, 900)

    def check(self, basket: Basket, expected: int) -> None:
        assert basket.total() == expected, f"costs {basket.total()}, expected {expected}"


if __name__ == "__main__":
    unittest.main()
