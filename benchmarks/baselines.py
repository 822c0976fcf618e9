"""The baselines on the public splits of the citation graphs, ten seeds each.

    PDNAS_DATA=/path/to/data python benchmarks/baselines.py

writes ``benchmarks/results/baselines.json`` and, beside it, the table of the README as Markdown.
"""

import argparse
import json
import warnings
from pathlib import Path

import torch

warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)

from pdnas.models.baselines import BASELINES  # noqa: E402
from pdnas.runs import Result, environment  # noqa: E402
from pdnas.tasks import load_task  # noqa: E402
from pdnas.training import RECIPES, train  # noqa: E402
from pdnas.training.device import find_device  # noqa: E402

TASKS = ("cora", "citeseer", "pubmed")
SCRIPT = "benchmarks/baselines.py"
RESULTS = Path(__file__).parent / "results"


def table(results: dict[str, dict[str, Result]]) -> str:
    """One row per network, one column per task."""
    lines = ["| network | " + " | ".join(TASKS) + " |", "|---" * (len(TASKS) + 1) + "|"]
    for name, by_task in results.items():
        cells = [f"{by_task[task].test} ({by_task[task].parameters:,})" for task in TASKS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train every baseline on every task and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--seeds", type=int, default=10, help="trainings per network and task")
    parser.add_argument("--data-root", help="where the data sets are; default: PDNAS_DATA")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "baselines.json")
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    torch.set_num_threads(1)
    tasks = {name: load_task(name, data_root=arguments.data_root) for name in TASKS}
    results: dict[str, dict[str, Result]] = {name: {} for name in BASELINES}
    for name, baseline in ((name, BASELINES[name]) for name in BASELINES):
        for task in TASKS:
            result = train(
                baseline.architecture,
                tasks[task],
                hidden=baseline.hidden,
                recipe=RECIPES[name],
                seeds=arguments.seeds,
                device=device,
            )
            results[name][task] = result
            print(f"{name}: {result.summary()}", flush=True)
    record = {
        "command": f"python {SCRIPT} --device {device.type} --seeds {arguments.seeds}",
        "environment": environment(device, threads=1),
        "results": {
            name: {task: result.model_dump(mode="json") for task, result in by_task.items()}
            for name, by_task in results.items()
        },
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    arguments.output.with_suffix(".md").write_text(table(results), encoding="utf-8")
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
