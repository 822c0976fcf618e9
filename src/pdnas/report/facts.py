"""What a run rests on: its settings, its environment and the fingerprint of its split."""

from collections.abc import Iterator, Mapping
from typing import Any

from pdnas.report.parts import Section, Table
from pdnas.report.reading import Run

HIDDEN_KEYS = ("data_root",)
"""Settings that say where a machine keeps its data, and nothing of the run."""

ENTRIES = {
    "pdnas": "version of pdnas",
    "python": "version of Python",
    "system": "operating system",
    "device_name": "name of the device",
    "threads": "CPU threads",
}
"""What the environment's entries are called."""


def read_facts(run: Run) -> Section:
    """Tables of all that decides the run's figures."""
    tables = []
    if run.result is not None:
        split = run.result.split
        rows = [("split", split.name), ("sha256 of the split", split.sha256)]
        rows += [("split seeds", ", ".join(map(str, split.seeds)))] if split.seeds else []
        rows += [("seeds", ", ".join(map(str, run.result.seeds)))]
        rows += [("best epochs", ", ".join(map(str, run.result.epochs)))]
        rows += [("version of pdnas", run.result.version)]
        tables.append(Table("Split and seeds", ("what", "value"), tuple(rows)))
    settings = tuple(flat(run.settings))
    tables.append(Table("Settings, as settings.json names them", ("setting", "value"), settings))
    if run.environment:
        rows = [(in_words(key), value) for key, value in flat(run.environment)]
        tables.append(Table("Environment", ("what", "value"), tuple(rows)))
    return Section(name="settings", title="Settings and environment", tables=tuple(tables))


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested values as rows: the way to each of them, and what it is."""
    for key, value in values.items():
        if key in HIDDEN_KEYS:
            continue
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
            yield from flat({str(place): one for place, one in enumerate(value)}, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _written(value)


def in_words(key: str) -> str:
    """What an entry of the environment is."""
    if key.startswith("packages."):
        return f"version of {key.removeprefix('packages.')}"
    return ENTRIES.get(key, key.replace("_", " "))


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_written(one) for one in value) or "none"
    return "default" if value is None else str(value)
