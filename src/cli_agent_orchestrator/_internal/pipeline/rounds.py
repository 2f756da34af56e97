"""How many rounds are proposed for a run that has failed; light, as lists of runs say it too."""


def twice_as_many(rounds: int) -> int:
    """Return how many rounds are proposed for a run that has had so many in vain."""
    return 2 * max(rounds, 1)
