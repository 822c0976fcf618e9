"""Whoever watches a job, and may end its searches."""

from collections.abc import Callable, Sequence

from pdnas.job import Cell, Plan
from pdnas.runs import Result, Trial
from pdnas.search import Problem, Search, SearchEpoch
from pdnas.training.fit import Epoch


class Watcher:
    """Whoever wants to see a job at work, or to end its searches, overrides some of these.

    Examples:
        >>> class Trials(pdnas.Watcher):
        ...     def tried(self, trial):
        ...         trials.append(trial.val)
        >>> trials = []
        >>> found = pdnas.search("citeseer", callback=Trials(), budget_seconds=60)
        >>> len(trials) > 0
        True
    """

    def planned(self, plan: Plan, problems: Sequence[Problem]) -> None:
        """The costs are estimated and the job begins."""

    def searched(self, search: Search, epoch: SearchEpoch) -> None:
        """A search of the grid has done an epoch."""

    def is_enough(self, search: Search, epoch: SearchEpoch) -> bool:  # noqa: ARG002
        """Whether that search is to end after this epoch; the job goes on with its candidates."""
        return False

    def rating(self, search: Search) -> None:
        """A search of the grid is over and looks at its candidates."""

    def found(self, cell: Cell) -> None:
        """A search of the grid, which another process did, is over."""

    def trained(self, what: str, epoch: Epoch) -> None:
        """A training has done an epoch."""

    def tried(self, trial: Trial) -> None:
        """A candidate was trained to the end, or for as long as it kept up."""

    def tuned(self, trial: int, wanted: int) -> None:
        """A recipe is tried, the so-manieth of that many."""

    def noted(self, sentence: str) -> None:
        """Something happened that the user should know."""

    def ended(self, result: Result) -> None:
        """The job is done, and this came out."""


class Watchers(Watcher):
    """Several watchers as one; a search ends as soon as one of them has seen enough.

    Args:
        members: Told in this order.
    """

    def __init__(self, *members: Watcher) -> None:
        self._members = members

    def planned(self, plan: Plan, problems: Sequence[Problem]) -> None:
        for member in self._members:
            member.planned(plan, problems)

    def searched(self, search: Search, epoch: SearchEpoch) -> None:
        for member in self._members:
            member.searched(search, epoch)

    def is_enough(self, search: Search, epoch: SearchEpoch) -> bool:
        answers = [member.is_enough(search, epoch) for member in self._members]  # all are asked
        return any(answers)

    def rating(self, search: Search) -> None:
        for member in self._members:
            member.rating(search)

    def found(self, cell: Cell) -> None:
        for member in self._members:
            member.found(cell)

    def trained(self, what: str, epoch: Epoch) -> None:
        for member in self._members:
            member.trained(what, epoch)

    def tried(self, trial: Trial) -> None:
        for member in self._members:
            member.tried(trial)

    def tuned(self, trial: int, wanted: int) -> None:
        for member in self._members:
            member.tuned(trial, wanted)

    def noted(self, sentence: str) -> None:
        for member in self._members:
            member.noted(sentence)

    def ended(self, result: Result) -> None:
        for member in self._members:
            member.ended(result)


class Callback(Watcher):
    """A function as a watcher.

    Args:
        function: Told of every epoch of a search; if it says true, that search ends there.
    """

    def __init__(self, function: Callable[[SearchEpoch], bool | None]) -> None:
        self._function = function

    def is_enough(self, search: Search, epoch: SearchEpoch) -> bool:  # noqa: ARG002
        return bool(self._function(epoch))
