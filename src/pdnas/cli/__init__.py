"""The command line: a table of commands, one file each, and what happens when one fails."""

import contextlib
import errno
import importlib
import io
import itertools
import logging
import os
import re
import resource
import sys
import time
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import tyro

from pdnas import __version__
from pdnas.errors import PdnasError
from pdnas.registry import unknown

CONFIG = (tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
"""How flags are made of fields: no prefixes, no ``None`` to type, no ``--no-`` twins."""

COMMANDS = {
    "search": "find the network that fits a graph, and train it",
    "tune": "tune a network's shape and recipe for a graph",
    "train": "train one architecture over seeds",
    "compare": "strategies and baselines side by side on one split, one budget",
    "reproduce": "a table of the paper, ours beside theirs",
    "predict": "the class of every node, by a trained run",
    "report": "the page of a run, or of several side by side",
    "resume": "go on where a run stopped",
    "export": "a run's network as a file that needs no pdnas",
    "tasks": "what there is to train on",
    "space": "what there is to search in",
}
"""Each command and its line of help; ``pdnas.cli.NAME`` holds it as ``Command``."""

TOGETHER = ("search", "train", "resume")
"""The commands that several processes can share, started by torchrun."""


PLACES = ("PDNAS_DATA", "PDNAS_CACHE")
"""Environment variables that name folders."""

UNMAPPED = "failed to map segment"
"""What is said of a library for which there is no memory."""

LEAST = 1 << 30
"""Bytes of address space below which libraries cannot be loaded, and some of them try for ever."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk without space, and of a quota that is used up."""

STARTED: ContextVar[float] = ContextVar("started")
"""When the command began, by ``time.monotonic``: budgets count from here."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 0, 2 for bad input, 130 for Ctrl-C.

    Args:
        arguments: What follows ``pdnas``; by default what the shell gave.
    """
    STARTED.set(time.monotonic())
    code = _exit_code(sys.argv[1:] if arguments is None else list(arguments))
    if code and _is_started_together():
        from pdnas.training.parallel import leave

        leave(code)
    return code


def _exit_code(arguments: Sequence[str]) -> int:
    """Run a command and say why it failed, if it did."""
    _open_streams()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of homes without its folder
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets its table
    try:
        _check_surroundings(arguments)
        code = _dispatch(arguments)
        sys.stdout.flush()
    except PdnasError as error:
        _complain(" ".join(str(error).split()))
        return 2
    except KeyboardInterrupt as stop:
        if not _is_helper():
            print(f"pdnas: {str(stop) or 'stopped.'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _silence()  # the reader of our output is gone
        return 0
    except OSError as error:
        if error.errno not in FULL:
            raise
        _silence()
        _complain("There is no space left to write to; free some, and go on with pdnas resume.")
        return 2
    except (MemoryError, ImportError, SystemError) as error:
        if not _is_lack_of_memory(error):
            raise
        _complain(
            "There is too little memory; end other programs, raise a limit (ulimit -v), or give "
            "less to do at once."
        )
        return 2
    return code


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether there was too little: libraries that are loaded under a limit fail in many ways."""
    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return isinstance(error, MemoryError) or UNMAPPED in str(error) or is_limited


def _open_streams() -> None:
    """Give what is closed somewhere to write: else files that are opened take its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # the lowest number that is free is this one
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115, PTH123


def _check_surroundings(arguments: Sequence[str]) -> None:
    """Refuse too little memory, a folder that is gone, and names that cannot be written down."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST:
        raise PdnasError(
            f"There is too little memory: the limit (ulimit -v) is {limit >> 20} MiB, and pdnas "
            f"needs {LEAST >> 20} MiB to begin; raise it."
        )
    try:
        here = str(Path.cwd())
    except FileNotFoundError:
        raise PdnasError(
            "The folder that this was started in is gone; change to another one."
        ) from None
    for text in (here, *arguments, *(os.environ.get(name, "") for name in PLACES)):
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            raise PdnasError(
                f"'{os.fsencode(text).decode(errors='replace')}' has letters that this locale "
                f"({sys.getfilesystemencoding()}) does not know; set PYTHONUTF8=1 or "
                "LC_ALL=C.UTF-8, or use names in UTF-8."
            )


def _silence() -> None:
    """Print nothing more, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if arguments[0] == "--version":
        print(f"pdnas {__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        raise unknown("command", arguments[0], COMMANDS)
    if _is_started_together():
        _check_together(arguments[0])
    code: int = _parse(arguments[0], arguments[1:]).run()
    return code


def _is_started_together() -> bool:
    """Whether torchrun started several processes; torch, which tells, takes a while to import."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def _is_helper() -> bool:
    """Whether this is one of several processes, and not the first."""
    return _is_started_together() and os.environ.get("RANK", "0") != "0"


def _complain(sentence: str) -> None:
    """Say what is wrong; of several processes one does."""

    def say(sentence: str) -> None:
        print(f"pdnas: {sentence}", file=sys.stderr, flush=True)

    if not _is_started_together():
        say(sentence)
        return
    from pdnas.training.parallel import say_once

    say_once(sentence, say)


def _check_together(command: str) -> None:
    """Refuse what several processes cannot share."""
    from pdnas.training.parallel import launched

    if launched() == 1 or command in TOGETHER:
        return
    remedy = "start it without torchrun"
    if command in ("tune", "compare", "reproduce"):
        remedy += ", and give --workers, which shares out whole trainings"
    raise PdnasError(
        f"pdnas {command} was started by torchrun, but several processes can only share "
        f"{', '.join(TOGETHER[:-1])} and {TOGETHER[-1]}; {remedy}."
    )


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {about}" for name, about in COMMANDS.items()]
    return "\n".join(
        [
            "pdnas finds the graph neural network that fits a graph.",
            "",
            "usage: pdnas COMMAND ...",
            "",
            *lines,
            "",
            "pdnas COMMAND --help tells the flags of a command, pdnas --version the version.",
        ]
    )


def _parse(name: str, arguments: Sequence[str]) -> Any:
    """The command with its flags; a wrong flag becomes one sentence."""
    module = importlib.import_module(f"pdnas.cli.{name}")
    prog, complaint = f"pdnas {name}", io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(module.Command, args=arguments, prog=prog, config=CONFIG)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise PdnasError(f"{_first_statement(complaint.getvalue())}; see {prog} --help.") from None


def _first_statement(box: str) -> str:
    """What a framed message says between its title and its first rule, in plain words.

    Of a list of choices only those that can be typed are kept, in order; the flag that tyro holds
    for the one meant is named.
    """
    plain = re.sub(r"\x1b\[[0-9;]*m", "", box)
    lines = [line.strip("│| ") for line in plain.strip().splitlines()[1:]]
    rule = re.compile(r"[─╰╯-]+").fullmatch
    body = itertools.dropwhile(rule, lines)
    text = " ".join(itertools.takewhile(lambda line: not rule(line), body))
    text = text.partition(" Got errors:")[0].strip(" .")
    text = re.sub(r"no type matching (\S+) could be .* from \[(.*)\]", r"\2 is not \1", text)
    text = re.sub(r"one of \((.*)\)", lambda found: f"one of {_choices(found[1])}", text)
    meant = re.search(r"Perhaps you meant:\s+(--[\w-]+)", " ".join(lines))
    return f"{text}; did you mean {meant[1]}" if meant else text


def _choices(listed: str) -> str:
    return ", ".join(sorted(set(listed.split(", ")) - {"'None'"}))
