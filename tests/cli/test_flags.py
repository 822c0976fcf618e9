import re

import pytest

from pdnas.cli.flags import DeviceFlags, RecipeChanges, TaskFlags
from pdnas.errors import PdnasError
from pdnas.training.recipe import Recipe


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        (None, ()),
        ("3", (3,)),
        ("0..9", tuple(range(10))),
        ("4..4", (4,)),
        ("0,2,5", (0, 2, 5)),
        ("5,0", (5, 0)),
        ("007", (7,)),
    ],
)
def test_split_seeds_are_a_number_a_span_or_a_list(
    text: str | None, seeds: tuple[int, ...]
) -> None:
    assert TaskFlags(split_seeds=text).chosen_splits() == seeds


@pytest.mark.parametrize(
    "text", ["", "a", "-1", "1.5", "9..0", "0..", "..3", "0...3", "1,", ",1", "1,,2", "1,1", "0 1"]
)
def test_other_split_seeds_are_one_sentence(text: str) -> None:
    expected = re.escape(f"The split seeds '{text}' cannot be read; write one number, a span")
    with pytest.raises(PdnasError, match=expected):
        TaskFlags(split_seeds=text).chosen_splits()


def test_there_is_a_flag_for_every_field_of_a_recipe() -> None:
    changes = vars(RecipeChanges())
    assert changes.keys() == Recipe.model_fields.keys()
    assert set(changes.values()) == {None}


def test_the_task_is_loaded_on_the_first_of_the_splits() -> None:
    task = TaskFlags(split="random", split_seeds="4,1").load()
    assert (task.name, task.split.name, task.split.seed) == ("citeseer", "random", 4)


@pytest.mark.parametrize("threads", [0, -1])
def test_no_thread_at_all_is_one_sentence(threads: int) -> None:
    with pytest.raises(PdnasError, match=f"number of threads is {threads}; give 1 to 1024"):
        DeviceFlags(threads=threads).apply()
