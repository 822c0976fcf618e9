"""What mkdocs does to the pages under docs/: references from the code, equations, links.

Pages read well as they stand, too: equations are written as GitHub reads them, and links to files
of the repository work there. On the site such files are named, since only docs/ is part of it.
"""

import contextlib
import importlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

import tyro
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

import pdnas
from pdnas.cli import COMMANDS, CONFIG

ROOT = Path(__file__).resolve().parents[1]

TITLES = {
    "positional arguments": "argument",
    "options": "flag",
    "settings options": "the strategy",
    "changes options": "the recipe",
    "task options": "the task",
    "device options": "the device",
    "output options": "output",
}
"""What a group of flags is called in a table; others keep the name that their help has."""

EQUATION = re.compile(r"^```math\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r":(\w+):<code[^>]*>([^<]+)</code>")
SYMBOL = re.compile(r"\$`([^`]+)`\$")
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#]+)(?:#[^)]*)?\)")
REMOTE = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>|@import[^;]*//"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what is made from the code, and make equations and links fit for a site."""
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", command_reference())
    if "<!-- python -->" in markdown:
        markdown = markdown.replace("<!-- python -->", python_reference())
    return name_outside(typeset(markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Roles in docstrings: mathematics as MathML, names as code."""

    def put(found: re.Match[str]) -> str:
        role, text = found[1], unescape(found[2])
        return mathml(text) if role == "math" else f"<code>{escape(text.strip('~'))}</code>"

    return ROLE.sub(put, html)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Refuse a page that would make a browser ask another server for something."""
    if remote := REMOTE.search(output):
        raise PluginError(f"{page.file.src_path} loads something from elsewhere: {remote[0]}")
    return output


def typeset(markdown: str) -> str:
    """Equations as MathML, which browsers show without a script."""

    def block(found: re.Match[str]) -> str:
        return f"<div>{mathml(found[1], display='block')}</div>"

    def symbol(found: re.Match[str]) -> str:
        # A line that begins with <math> would end its paragraph.
        return f"<span>{mathml(found[1])}</span>"

    return SYMBOL.sub(symbol, EQUATION.sub(block, markdown))


def mathml(tex: str, display: str = "inline") -> str:
    """An equation as MathML; one that the converter does not know would stand there as it is."""
    made: str = convert(tex, display=display)
    if "\\" in made:
        raise PluginError(f"The equation {tex} has a command that cannot be shown; use another.")
    return made


def name_outside(markdown: str) -> str:
    """Links that lead out of docs/ as the names of the files; each must be there."""

    def name(found: re.Match[str]) -> str:
        text, path = found[1], found[2]
        if not (ROOT / path).exists():
            raise PluginError(f"There is no {path} in the repository, where a link leads.")
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return OUTSIDE.sub(name, markdown)


@dataclass(frozen=True)
class Flag:
    """A line of a command's help."""

    name: str
    about: str
    default: str


@dataclass(frozen=True)
class Help:
    """A command's help: what it does, and its flags in groups."""

    usage: str
    about: str
    groups: dict[str, list[Flag]]


def command_reference() -> str:
    """All commands and their flags as Markdown."""
    return "\n\n".join(_section(name, read_help(name)) for name in COMMANDS)


def python_reference() -> str:
    """A heading for every public name, under which mkdocstrings puts its documentation."""
    names = sorted(set(pdnas.__all__) - {"__version__"}, key=str.lower)
    return "\n\n".join(f"::: {_home(name)}" for name in names)


def _home(name: str) -> str:
    """Where a public name is defined; ``pdnas.search`` is a package as well as a function."""
    thing = getattr(importlib.import_module(pdnas._HOMES[name]), name)
    return f"{thing.__module__}.{thing.__qualname__}"


def read_help(name: str) -> Help:
    """The help of a command, taken apart."""
    return parse_help(_printed_help(name))


def parse_help(text: str) -> Help:
    """Take a help text in tyro's frames apart."""
    head, *boxes = re.split(r"^╭─ ", text, flags=re.MULTILINE)
    usage, _, about = head.strip().partition("\n\n")
    groups = {}
    for box in boxes:
        title, *lines = box.splitlines()
        rows = [line.strip("│").rstrip() for line in lines if line.startswith("│")]
        groups[title.rstrip("─╮ ")] = list(_flags(rows))
    return Help(" ".join(usage.removeprefix("usage: ").split()), about.strip(), groups)


def _printed_help(name: str) -> str:
    command = importlib.import_module(f"pdnas.cli.{name}").Command
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # tyro draws frames for UTF-8 only
    with _columns(110), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        tyro.cli(command, args=["--help"], prog=f"pdnas {name}", config=CONFIG)
    out.seek(0)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.read())


@contextlib.contextmanager
def _columns(width: int) -> Iterator[None]:
    """A terminal so wide; on wider ones tyro sets frames side by side."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _flags(rows: list[str]) -> Iterator[Flag]:
    """Rows begin at the left edge, what is indented deeply goes on with the one before."""
    joined: list[str] = []
    for row in rows:
        if not row.strip(" ─"):
            joined = []  # above the rule stands what the group is about
        elif row.startswith("   "):
            joined[-1] += f"  {row.strip()}"
        else:
            joined.append(row.strip())
    for row in joined:
        name, _, about = row.partition("  ")
        about = " ".join(about.split())
        found = re.fullmatch(r"(.*?)\s*\((?:default: ?(.*)|(required))\)", about, re.DOTALL)
        yield Flag(name, *((found[1], found[2] or found[3] or "") if found else (about, "")))


def _section(name: str, described: Help) -> str:
    lines = [f"## pdnas {name}", described.about, f"```text\n{described.usage}\n```"]
    for title, flags in described.groups.items():
        rows = [flag for flag in flags if "--help" not in flag.name]
        if not rows:
            continue
        table = [f"| {TITLES.get(title, title)} | what it says | default |", "|---|---|---|"]
        table += [f"| `{_cell(f.name)}` | {_cell(f.about)} | {_default(f)} |" for f in rows]
        lines.append("\n".join(table))
    return "\n\n".join(lines)


def _default(flag: Flag) -> str:
    return "off" if flag.default == "False" else _cell(flag.default)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
