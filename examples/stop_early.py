"""A callback that ends a search: here when validation has not risen for a while."""

import pdnas
from pdnas.search import SearchEpoch

PATIENCE = 15


class Patience:
    """Says that it is enough after so many epochs without a better validation.

    Args:
        epochs: How many.
    """

    def __init__(self, epochs: int) -> None:
        self.best, self.waited, self.epochs = 0.0, 0, epochs

    def __call__(self, epoch: SearchEpoch) -> bool:
        """Told every epoch of the search; true ends it, and the job goes on with what it found."""
        self.waited = 0 if epoch.val > self.best else self.waited + 1
        self.best = max(self.best, epoch.val)
        return self.waited >= self.epochs


def main() -> None:
    """Search with patience; whatever is true of an epoch will do, and a lambda too."""
    result = pdnas.search(
        "citeseer",
        callback=Patience(PATIENCE),
        hidden=8,
        recipe={"epochs": 20},
        candidates=2,
        designs="off",
        seeds=1,
        controls=(),
    )
    assert result.search is not None
    print(f"searched for {result.search.epochs} epochs")
    print(*result.search.warnings, sep="\n")
    print(result.summary())


if __name__ == "__main__":
    main()
