"""Settings, environment and the split."""

from pdnas.report.facts import flat, read_facts
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
    assert tables["Settings"]["job.strategy.name"] == "pdnas"
    assert "packages.torch" in tables["Environment"]
