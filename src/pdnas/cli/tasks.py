"""``pdnas tasks``: what there is to train on."""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pdnas.cli.display import print_table
from pdnas.tasks.source import FORMATS, NAMED, SCHEMES


@dataclass(frozen=True)
class Command:
    """List the tasks that have a name, and the other ways to name one."""

    json: bool = False
    """print one line of JSON instead of a table"""

    def run(self) -> int:
        """Print the list."""
        tasks = {name: NAMED[name].about for name in NAMED}
        tasks |= {f"{scheme}:...": _about(SCHEMES[scheme]) for scheme in SCHEMES}
        tasks |= {_path(form): _about(FORMATS[form]) for form in FORMATS}
        if self.json:
            print(json.dumps({"tasks": tasks}))
        else:
            print_table([["task", "what it is"], *([name, about] for name, about in tasks.items())])
        return 0


def _path(form: str) -> str:
    return "a folder" if form == "folder" else f"PATH{form}"


def _about(reader: Callable[..., Any]) -> str:
    """The first sentence of a reader's documentation."""
    return (inspect.getdoc(reader) or "").split("\n\n")[0].replace("\n", " ")
