"""Text of users inside source code: it stays text, whatever it says."""

import re
import textwrap
from collections.abc import Sequence

LINE = 88
"""The length of lines that formatters of Python agree on."""


def literal(text: str) -> str:
    """A string literal as a formatter would leave it: in the quotes that need fewer escapes."""
    quote = '"' if text.count('"') <= text.count("'") else "'"
    signs = (sign if sign in "'\"" else repr(sign)[1:-1] for sign in text)
    return quote + "".join(f"\\{sign}" if sign == quote else sign for sign in signs) + quote


def constant(name: str, values: Sequence[str]) -> list[str]:
    """The lines of a tuple of texts under a name."""
    if len(values) > 2 and list(values) == [str(number) for number in range(len(values))]:
        return [f"{name} = tuple(str(number) for number in range({len(values)}))"]
    literals = [literal(value) for value in values]
    line = f"{name} = ({', '.join(literals)}{',' * (len(literals) == 1)})"
    if len(line) <= LINE:
        return [line]
    return [f"{name} = (", *(entry for value in values for entry in _entry(value)), ")"]


def numbers(name: str, values: Sequence[float]) -> list[str]:
    """The lines of a tuple of numbers under a name."""
    literals = [repr(value).replace("e+", "e") for value in values]
    line = f"{name} = ({', '.join(literals)}{',' * (len(literals) == 1)})"
    if len(line) <= LINE:
        return [line]
    return [f"{name} = (", *(f"    {value}," for value in literals), ")"]


def _entry(value: str) -> list[str]:
    """A text as an entry of a tuple, over several lines where it is long."""
    line = f"    {literal(value)},"
    if len(line) <= LINE:
        return [line]
    # An escaped character is ten long at most, and a part must not end inside of it.
    size = max(1, (LINE - 12) * len(value) // len(repr(value)) // 2)
    parts = [value[start : start + size] for start in range(0, len(value), size)]
    return ["    (", *(f"        {literal(part)}" for part in parts), "    ),"]


def prose(text: str) -> str:
    """Text for a docstring: in one line, without what could end it or be an escape."""
    shown = "".join(sign if sign.isprintable() else " " for sign in text)
    return re.sub(r"\s+", " ", shown).replace("\\", "/").replace('"', "'").strip()


def paragraph(text: str, indent: str = "") -> list[str]:
    """Lines of a docstring."""
    return textwrap.wrap(
        text, LINE - 4, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def docstring(text: str, indent: int) -> str:
    """A docstring of one paragraph, in one line where it fits; its first line is not indented."""
    line = f'"""{text}"""'
    if indent + len(line) <= LINE:
        return line
    lines = textwrap.wrap(text, LINE - indent - 3)
    return f"\n{' ' * indent}".join([f'"""{lines[0]}', *lines[1:], '"""'])
