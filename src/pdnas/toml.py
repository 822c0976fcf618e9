"""TOML files that users write: recipes and spaces."""

import tomllib
from pathlib import Path
from typing import Any

from pdnas.errors import PdnasError, shown
from pdnas.files import check_path


def read_toml(path: str | Path, what: str, example: str, error: type[PdnasError]) -> dict[str, Any]:
    """The values of a file, or a sentence that says why there are none.

    Args:
        path: The file.
        what: What it holds, for the sentence.
        example: A line that would be right.
        error: What to raise.
    """
    check_path(path, error)
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise error(
            f"The {what} '{path}' cannot be read ({problem.strerror}); check the path."
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as problem:
        raise error(
            f"The {what} '{path}' is not valid TOML: {shown(problem)}; correct it, for "
            f"example: {example}."
        ) from None
