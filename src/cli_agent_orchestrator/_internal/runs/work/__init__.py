"""The files that agents work on: kept after every turn, brought back, in a tree, delivered."""
