"""Watchers are told of a job together, and any of them can end a search."""

from tests.pipeline.conftest import Events, lean

from pdnas.pipeline import search
from pdnas.runs import Result
from pdnas.tasks import GraphTask
from pdnas.watcher import Callback, Watchers


def test_watchers_are_all_told_and_any_of_them_can_end_a_search(tiny_task: GraphTask) -> None:
    class Finish(Events):
        def ended(self, result: Result) -> None:
            self._add(f"finished on {result.task}")

    first, last = Finish(), Finish()
    watcher = Watchers(
        Callback(lambda epoch: epoch.epoch == 1), first, last, Callback(lambda _: None)
    )
    search(tiny_task, lean(), watcher=watcher)
    assert first.seen == last.seen
    assert [event for event in first.seen if event.startswith("search")] == [
        "search 2x4 epoch 0",
        "search 2x4 epoch 1",
    ]
    assert first.seen[0] == "planned"
    assert first.seen[-1] == "finished on tiny"
