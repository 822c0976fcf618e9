"""Settings, environment and the split."""

import pytest

from pdnas.report.facts import flat, in_words, read_facts
from pdnas.report.reading import Run


def test_nested_values_become_rows() -> None:
    values = {"job": {"blocks": [2, 3], "tune": None}, "seed": 0, "data_root": "/home/me"}

    assert list(flat(values)) == [("job.blocks", "2, 3"), ("job.tune", "default"), ("seed", "0")]


def test_the_split_can_be_told_from_others(searched: Run) -> None:
    assert searched.result is not None
    tables = {
        table.caption: {row[0]: row[1] for row in table.rows}
        for table in read_facts(searched).tables
    }

    assert tables["Split and seeds"]["sha256 of the split"] == searched.result.split.sha256
    settings = tables["Settings, as settings.json names them"]
    assert settings["job.strategy.name"] == "pdnas"
    assert settings["job.space.bias"] == "yes"
    assert {"version of torch", "name of the device"} <= set(tables["Environment"])


def test_lists_of_values_become_rows_too() -> None:
    values = {"blocks": [{"heads": 1, "bias": False}, {"heads": 2}], "gates": []}

    assert list(flat(values)) == [
        ("blocks.0.heads", "1"),
        ("blocks.0.bias", "no"),
        ("blocks.1.heads", "2"),
        ("gates", "none"),
    ]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("packages.torch-geometric", "version of torch-geometric"),
        ("device_name", "name of the device"),
        ("of_a_later_version", "of a later version"),
    ],
)
def test_entries_of_the_environment_are_words(key: str, words: str) -> None:
    assert in_words(key) == words
