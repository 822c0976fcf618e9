"""Files: what they can be called, and how they are written."""

import errno
import os
from pathlib import Path

from pdnas.errors import PdnasError, shown


def check_path(path: str | Path, error: type[PdnasError] = PdnasError) -> None:
    """Refuse what no file can be called, whether or not there is one.

    Args:
        path: What someone gave, or what a file says.
        error: What to raise.
    """
    try:
        os.lstat(path)
    except ValueError:
        reason = "no file's name has a null byte, or signs that are no text"
    except OSError as problem:
        if problem.errno != errno.ENAMETOOLONG:
            return
        reason = "it is too long"
    else:
        return
    raise error(f"'{shown(path)}' cannot be a path: {reason}; correct it.")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there as a whole or, after an error, as it was before."""
    draft = path.parent / f".{path.name}.{os.getpid()}"
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
