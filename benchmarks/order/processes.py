"""Made-up processes."""

NAMES: list[str] = []


def case(name, seed):
    raise NotImplementedError
