"""What the benchmarks over tasks, splits and seeds share: their settings, and many processes."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pdnas.tasks import GraphTask, load_task
from pdnas.training.device import find_device

SETTINGS = tuple(
    (task, split) for task in ("pubmed", "citeseer", "cora") for split in ("public", "random")
)
"""The task and the split of each column; the slowest first, so that none is waited for."""

Record = dict[str, Any]


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments that all of these benchmarks have, beside their own."""
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    parser.add_argument("--blocks", type=int, default=2, help="depth of the networks")
    parser.add_argument("--hidden", type=int, default=32, help="channels between blocks")
    parser.add_argument("--search-seeds", type=int, default=3, help="searches of each setting")
    parser.add_argument("--only", nargs="*", help="settings such as cora/public, not all of them")
    parser.add_argument("--data-root", help="where the data sets are; default: PDNAS_DATA")
    parser.add_argument("-o", "--output", type=Path, help="where to write instead")
    parser.add_argument("--unit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.settings = [
        (task, split)
        for task, split in SETTINGS
        if not arguments.only or f"{task}/{split}" in arguments.only
    ]
    return arguments


def load(arguments: argparse.Namespace) -> tuple[GraphTask, int, list[str]]:
    """The task, the seed and the rows of the unit that this process is for."""
    torch.set_num_threads(1)
    name, split, seed, rows = arguments.unit.split("/")
    task = load_task(
        name,
        split=split,
        split_seed=None if split == "public" else 0,
        data_root=arguments.data_root,
    )
    return task.to(find_device(arguments.device)), int(seed), rows.split("+")


def run_units(
    arguments: argparse.Namespace,
    units: list[str],
    write: Callable[[argparse.Namespace, list[Record]], None],
) -> list[Record]:
    """Every unit in a process of its own, some side by side; the records that they printed.

    Args:
        arguments: What this process was called with.
        units: ``TASK/SPLIT/SEED/ROWS`` each.
        write: Called with all records so far whenever a unit has ended.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    waiting, records = list(units), []
    running: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < arguments.workers:
                unit = waiting.pop(0)
                path = Path(folder) / f"{len(waiting)}.jsonl"
                command = [sys.executable, *sys.argv, "--unit", unit]
                with path.open("w") as file:
                    running[unit] = (subprocess.Popen(command, stdout=file), path)  # noqa: S603
            time.sleep(0.2)
            for unit, (process, path) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[unit]
                records += [json.loads(line) for line in path.read_text().splitlines()]
                state = "done" if process.returncode == 0 else f"failed ({process.returncode})"
                print(f"{unit}: {state}, {len(waiting) + len(running)} left", flush=True)
                write(arguments, records)
    return records
