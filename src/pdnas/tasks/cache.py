"""Folders that are made once from other data and then only read."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from platformdirs import user_cache_path

from pdnas.errors import TaskError

CACHE = "PDNAS_CACHE"
"""Environment variable that names the folder for downloads and for data in a form read faster."""


def cache_root() -> Path:
    """Where such folders lie: ``PDNAS_CACHE``, or the user's cache."""
    named = os.environ.get(CACHE)
    return Path(named) if named else user_cache_path("pdnas")


def fingerprint(files: Iterable[Path], base: Path, *marks: str) -> str:
    """A short key that changes with the files' names, sizes or times.

    Args:
        files: The files.
        base: Folder that their names are relative to, so that moving all of them changes nothing.
        marks: What else the key depends on.
    """
    digest = hashlib.sha256("\0".join(marks).encode())
    for file in sorted(files):
        status = file.stat()
        name = file.relative_to(base).as_posix()
        digest.update(f"\0{name}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, after filling it if it does not exist.

    It is filled under another name and then renamed, so a reader never meets half of it; of two
    processes that fill it at once, the second finds the first one's and drops its own.

    Args:
        folder: A folder in the cache.
        make: Fills a folder that it is given.
    """
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise TaskError(
            f"The cache '{folder.parent}' cannot be written ({error.strerror}); "
            f"set {CACHE} to a folder that can."
        ) from error
    try:
        make(draft)
        draft.chmod(0o755)  # temporary folders are for their maker alone
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder
