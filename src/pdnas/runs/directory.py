"""The run directory: what a run leaves behind, written so that nothing is ever half there."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from filelock import FileLock, Timeout
from pydantic import (
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
)
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from pdnas.errors import PdnasError, RunError, UnknownNameError, first_complaint, shown
from pdnas.files import check_path, write_whole
from pdnas.runs.predictions import Predictions
from pdnas.runs.record import Record
from pdnas.runs.result import Result

SETTINGS = "settings.json"
ENVIRONMENT = "environment.json"
HISTORY = "history.jsonl"
ARCHITECTURE = "architecture.json"
WEIGHTS = "model.safetensors"
PREDICTIONS = "predictions.safetensors"
RESULT = "result.json"
FOLDER = Path("checkpoint")
CHECKPOINT = FOLDER / "trainings.json"
CHECKPOINT_WEIGHTS = FOLDER / WEIGHTS
PIPELINE = FOLDER / "pipeline.json"
JOURNAL = Path("study.journal")
RECIPE = "recipe.toml"
LOCK = ".lock"
SEARCH_STATE = FOLDER / "search.safetensors"

PATIENCE = 0.5
"""Seconds to wait for a lock: whoever looks at a run holds it for a moment."""


R = TypeVar("R", bound=Record)

_NAMES = TypeAdapter(tuple[str, ...])


class AnySettings(Record):
    """Which command a run is of; the rest of its settings is that command's own."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    command: Literal["train", "search", "tune", "compare", "reproduce"]


class RunDirectory:
    """A folder with one run in it; every file is written whole or not at all.

    Args:
        path: The folder, which exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made = path

    @classmethod
    def create(cls, path: str | Path | None, label: str) -> "RunDirectory":
        """A new run directory.

        Args:
            path: Where; by default ``runs/LABEL-DATE-TIME``.
            label: What the run is about.
        """
        stamp = f"{datetime.now():%Y%m%d-%H%M%S-%f}"
        folder = Path(path) if path is not None else Path("runs") / f"{label}-{stamp}"
        check_path(folder, RunError)
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        try:
            folder.mkdir(parents=True)
            (folder / CHECKPOINT.parent).mkdir()
        except FileExistsError:
            if not folder.is_dir():
                raise RunError(
                    f"The run directory '{folder}' is a file; give another --run-dir."
                ) from None
            advice = f", or go on with it: pdnas resume {folder}"
            if not (folder / SETTINGS).is_file():
                advice = " that is not there yet; it holds no run"
            raise RunError(
                f"The run directory '{folder}' exists already; give another --run-dir{advice}."
            ) from None
        except OSError as error:
            raise RunError(
                f"The run directory '{folder}' cannot be made ({error.strerror}); give a "
                "--run-dir that you may write to."
            ) from None
        run = cls(folder)
        run._made = missing[-1]
        return run

    @classmethod
    def open(cls, path: str | Path) -> "RunDirectory":
        """An existing run directory."""
        check_path(path, RunError)
        if not (Path(path) / SETTINGS).is_file():
            raise RunError(
                f"'{path}' is not a run directory: it has no {SETTINGS}; give the path that a "
                "command printed after 'run:'."
            )
        return cls(Path(path))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out while a run is worked on; one that dies lets go of it."""
        lock = FileLock(self.path / LOCK, timeout=PATIENCE)
        try:
            lock.acquire()
        except Timeout:
            raise RunError(
                f"The run '{self.path}' is worked on by another process; wait for it, or give "
                "another directory."
            ) from None
        except OSError as error:
            raise self._cannot_write(LOCK, error) from None
        try:
            yield
        finally:
            lock.release()

    def discard(self) -> None:
        """Delete the run, of which nothing was computed yet, and the folders made for it alone."""
        shutil.rmtree(self.path)
        for place in self.path.parents:
            if not place.is_relative_to(self._made) or any(place.iterdir()):
                break
            place.rmdir()

    def write_json(self, name: str | Path, value: BaseModel | Mapping[str, Any]) -> None:
        """Write a value; non-finite numbers are an error."""
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        text = json.dumps(plain, indent=2, allow_nan=False) + "\n"
        self._write(name, text.encode())

    def has(self, name: str | Path) -> bool:
        return (self.path / name).is_file()

    def read_record(self, name: str | Path, kind: type[R]) -> R:
        """Read a record that :meth:`write_json` wrote."""
        path = self.path / name
        try:
            return kind.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise RunError(
                f"The run '{self.path}' has no {name}; finish it with: pdnas resume {self.path}."
            ) from None
        except OSError as error:
            raise RunError(
                f"'{path}' cannot be read ({error.strerror}); check its permissions."
            ) from None
        except ValidationError as error:
            raise RunError(
                f"'{path}' is damaged, or of another version of pdnas: "
                f"{first_complaint(error).rstrip('.')}; run again."
            ) from None
        except UnknownNameError as error:
            raise RunError(
                f"'{path}' has a name that is not registered here; if it is of your own, import "
                f"the module that registers it first ({str(error).rstrip('.')})."
            ) from None
        except PdnasError as error:
            raise RunError(f"'{path}' is damaged: {error}") from None

    def write_weights(self, name: str | Path, weights: Mapping[str, Tensor]) -> None:
        """Write the weights of a network."""
        plain = {key: weight.detach().cpu().contiguous() for key, weight in weights.items()}
        self._write(name, save(plain))

    def read_weights(self, name: str | Path) -> dict[str, Tensor]:
        """Read what :meth:`write_weights` wrote; no code is run by it."""
        path = self.path / name
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            reason = shown(" ".join(str(error).split()).rstrip("."), 200)
            remedy = f"have them written again with: pdnas resume {self.path}"
            if name != WEIGHTS:  # what resume goes on from
                remedy = "start the run again in another directory"
            raise RunError(f"The weights '{path}' cannot be read ({reason}); {remedy}.") from None

    def write_predictions(self, predictions: Predictions) -> None:
        """Write what the trained network says of the graphs that it was trained on."""
        ids = json.dumps(predictions.node_ids).encode()
        tensors = {
            "logits": predictions.logits.float(),
            "labels": predictions.labels.long(),
            "part": predictions.part.to(torch.uint8),
            "graph": predictions.graph.long(),
            "node_ids": torch.frombuffer(bytearray(ids), dtype=torch.uint8),
        }
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        self._write(PREDICTIONS, save(plain))

    def read_predictions(self, result: Result | None = None) -> Predictions:
        """Read what :meth:`write_predictions` wrote.

        Args:
            result: What they must fit; none: they are taken as they are.
        """
        path = self.path / PREDICTIONS
        if not path.is_file():
            raise RunError(
                f"The run '{self.path}' holds no predictions: it is not finished, or of an early "
                "version; finish it with pdnas resume, or give the data to pdnas predict."
            )
        try:
            tensors = load_file(path)
            ids = json.loads(tensors.pop("node_ids").numpy().tobytes())
            found = Predictions(**tensors, node_ids=_NAMES.validate_python(ids, strict=False))
            if result is not None:
                found.check(result)
        except (
            *(OSError, SafetensorError, RunError, RecursionError),
            *(KeyError, IndexError, TypeError, ValueError),
        ) as error:
            reason = shown(" ".join(str(error).split()).rstrip("."), 300)
            raise RunError(
                f"The predictions '{path}' cannot be read ({reason}); give the data to pdnas "
                "predict, or run again."
            ) from None
        return found

    def write_state(self, name: Path, tensors: Mapping[str, Tensor], about: BaseModel) -> None:
        """Write the state of something that goes on; the state before it is kept beside it.

        Args:
            name: Of the file.
            tensors: The state.
            about: What belongs to it.
        """
        plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        path, before = self.path / name, self.path / _before(name)
        try:
            if path.exists():
                path.replace(before)
        except OSError as error:
            raise self._cannot_write(name, error) from None
        self._write(name, save(plain, {"about": about.model_dump_json()}))

    def read_states(self, name: Path, kind: type[R]) -> Iterator[tuple[dict[str, Tensor], R] | str]:
        """What :meth:`write_state` wrote, the latest first; a sentence for a damaged one."""
        for path in (self.path / name, self.path / _before(name)):
            if not path.exists():
                continue
            try:
                with safe_open(path, framework="pt") as file:
                    note = (file.metadata() or {}).get("about", "{}")
                    about = kind.model_validate_json(note)
                    tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            except (OSError, SafetensorError, ValidationError) as error:
                reason = shown(" ".join(str(error).split()).rstrip("."), 200)
                if isinstance(error, ValidationError):
                    reason = first_complaint(error)
                if not isinstance(error, OSError):
                    path.unlink()  # it must not take the place of the state before it
                yield f"The checkpoint '{path}' is damaged and is not used: {reason}."
            else:
                yield tensors, about

    def remove(self, name: Path) -> None:
        """Delete a file, what :meth:`write_state` kept beside it, and drafts that were left."""
        for path in (self.path / name, self.path / _before(name)):
            path.unlink(missing_ok=True)
        for draft in (self.path / name).parent.glob(f".{name.name}.*"):
            draft.unlink(missing_ok=True)

    def append_history(self, lines: Sequence[Mapping[str, Any]], *, durable: bool = True) -> int:
        """Add lines to the history; its length in bytes afterwards.

        Args:
            lines: One dictionary each.
            durable: Wait until the disk has them.
        """
        text = "".join(
            json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in lines
        )
        try:
            with (self.path / HISTORY).open("ab") as file:
                file.write(text.encode())
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                return file.tell()
        except OSError as error:
            raise self._cannot_write(HISTORY, error) from None

    def cut_history(self, length: int) -> None:
        """Forget what was added to the history after it had that many bytes."""
        path = self.path / HISTORY
        there = path.stat().st_size if path.exists() else 0
        if there < length:
            raise RunError(
                f"'{path}' is damaged: it has {there} bytes of the {length} that were recorded; "
                "start the run again in another directory."
            )
        try:
            if there > length:
                os.truncate(path, length)
        except OSError as error:
            raise self._cannot_write(HISTORY, error) from None

    def result(self) -> Result:
        """The result of a finished run, with its network."""
        return self.read_record(RESULT, Result).with_weights(self.read_weights(WEIGHTS))

    def _write(self, name: str | Path, content: bytes) -> None:
        try:
            write_whole(self.path / name, content)
        except OSError as error:
            raise self._cannot_write(name, error) from None

    def other_data(self, how: str) -> RunError:
        """What is said of a run that cannot go on, since its data are no longer the same.

        Args:
            how: In what they differ.
        """
        return RunError(
            f"The run '{self.path}' was begun {how}: its data have changed; start a new run, or "
            "bring back the data."
        )

    def _cannot_write(self, name: str | Path, error: OSError) -> RunError:
        return RunError(
            f"'{self.path / name}' cannot be written ({error.strerror}); make room for it or "
            "check its permissions."
        )


def _before(name: Path) -> Path:
    """Where the state before the latest is kept."""
    return name.with_name(f"{name.stem}.previous{name.suffix}")


def load_run(path: str | Path) -> Result:
    """The result of a finished run, with its trained network.

    Examples:
        >>> trained = pdnas.train("gcn", "citeseer", recipe={"epochs": 5}, run_dir="run")
        >>> pdnas.load_run("run").test == trained.test
        True

    Args:
        path: The run directory.
    """
    return RunDirectory.open(path).result()
