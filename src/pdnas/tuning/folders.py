"""Folders that work writes to: in place where they are shared, else packed and sent back."""

import io
import re
import shutil
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pdnas.errors import RunError


@dataclass(frozen=True)
class Folder:
    """A folder of whoever hands out the work, as it is told to whoever does it.

    Args:
        path: Where it lies there.
        token: A file beside it whose content is its own name: who sees it shares the folder.
        packed: What is in the folder already; none: nothing is.
    """

    path: Path
    token: Path
    packed: bytes | None

    @property
    def is_shared(self) -> bool:
        """Whether the folder is the same one here."""
        try:
            return self.token.read_text(encoding="utf-8") == self.token.name
        except OSError:
            return False

    @contextmanager
    def here(self) -> Iterator[Path]:
        """Where to write on this machine: the folder itself, or another one for a while."""
        if self.is_shared:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="pdnas-") as place:
            other = Path(place) / self.path.name
            if self.packed is not None:
                unpack(self.packed, other)
            yield other


class Folders:
    """The folders of whoever hands out the work, and the tokens beside them."""

    def __init__(self) -> None:
        self._tokens: dict[Path, Path] = {}

    def offer(self, path: Path) -> Folder:
        """A folder to be written to, which need not exist."""
        path = path.resolve()
        token = self._tokens.get(path.parent)
        if token is None:
            token = path.parent / f".pdnas-{uuid.uuid4().hex}"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                _clear(path.parent)
                token.write_text(token.name, encoding="utf-8")
            except OSError as error:
                with suppress(OSError):
                    token.unlink(missing_ok=True)
                raise _cannot_write(path.parent, error) from None
            self._tokens[path.parent] = token
        return Folder(path, token, pack(path) if path.is_dir() else None)

    def close(self) -> None:
        """Leave no token behind."""
        for token in self._tokens.values():
            token.unlink(missing_ok=True)
        self._tokens.clear()


def _clear(parent: Path) -> None:
    """Remove the tokens of drivers that were killed: whoever has locked the run is alone there."""
    for path in parent.glob(".pdnas-*"):
        if re.fullmatch(r"\.pdnas-[0-9a-f]{32}", path.name):
            path.unlink(missing_ok=True)


def pack(folder: Path) -> bytes:
    """All that is in a folder."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(folder, arcname=".")
    return content.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """Write a folder so that it is there as a whole or, after an error, as it was before."""
    arriving, before = (folder.with_name(f".{folder.name}.{what}") for what in ("new", "old"))
    try:
        for rest in (arriving, before):
            if rest.is_dir():
                shutil.rmtree(rest)
        arriving.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(arriving, filter="data")
        if folder.is_dir():
            folder.replace(before)
        arriving.replace(folder)
        shutil.rmtree(before, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(arriving, ignore_errors=True)
        raise _cannot_write(folder, error) from None


def _cannot_write(folder: Path, error: OSError) -> RunError:
    return RunError(
        f"'{folder}' cannot be written ({error.strerror}); make room for it or check its "
        "permissions."
    )
