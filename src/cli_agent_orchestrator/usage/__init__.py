"""How much agents have used, from their own records; all of it pure.

Prices and limits will have their place here, beside the tokens.
"""
