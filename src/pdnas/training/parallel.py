"""Several processes, one for each GPU, that train one network together; torchrun starts them.

The only place that knows :mod:`torch.distributed`. Each process, a rank, has the whole graph and
all weights. A step's batch is dealt out, gradients are averaged, and whatever decides how things go
on is what rank 0 says. Without torchrun there is one rank, and nothing here does anything.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from pdnas.errors import DeviceError, ParallelError, PdnasError
from pdnas.training.device import find_device

T = TypeVar("T")

FAILED = "pdnas/failed"
"""Where rank 0 leaves its last sentence."""

PATIENCE = timedelta(seconds=5)
"""How long others wait for it."""

NEEDED = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells beside the number of processes."""

ENDED = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""How gloo says that another process is gone."""


_left: list[Any] = []
"""Groups that were left in the middle of something, which must not be freed, see :func:`leave`."""


def launched() -> int:
    """How many processes were started together, as torchrun says; 1 without it."""
    given = os.environ.get("WORLD_SIZE", "1")
    if not given.isdecimal() or given == "0":
        raise ParallelError(
            f"WORLD_SIZE is '{given}' in the environment; start several processes with torchrun, "
            "or unset it."
        )
    missing = [name for name in NEEDED if name not in os.environ]
    if int(given) > 1 and missing:
        raise ParallelError(
            f"WORLD_SIZE is {given} in the environment, but {missing[0]} is not set; start several "
            "processes with torchrun, or unset WORLD_SIZE."
        )
    return int(given)


def world() -> int:
    """How many processes work together now: 1 outside of a :func:`group`."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """The number of this one, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_first() -> bool:
    """Whether this is the process that writes and speaks."""
    return rank() == 0


@contextmanager
def group(name: str) -> Iterator[torch.device]:
    """Work together with the other processes inside; the device of this one.

    When one of them fails, the others do so too, at the next thing that they do together.

    Args:
        name: Of the device, see :func:`~pdnas.training.device.find_device`; of several GPUs
            each process takes its own.
    """
    if launched() == 1:
        yield find_device(name)
        return
    device = _own_device(name)
    # Numbers on the CPU travel by gloo in either case: nobody waits for a GPU to agree on them.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend, store=_meeting_place(), rank=int(os.environ["RANK"]), world_size=launched()
    )
    try:
        yield device
        totals([0.0])  # nobody leaves before all are done
    except PdnasError:
        raise  # between two collectives
    except BaseException as error:
        _left.append(dist.group.WORLD)
        if not isinstance(error, RuntimeError) or not any(r in str(error) for r in ENDED):
            raise
        raise ParallelError(
            "Another of the processes that were started together has ended, so this one ends too; "
            "see what the other one says."
        ) from error
    finally:
        dist.destroy_process_group()


def leave(code: int) -> None:
    """End this process at once if it left a group amid a collective; else do nothing.

    Whoever frees such a group holds the interpreter and waits for a thread of gloo's, which needs
    the interpreter to let go of the collective: it would never end, or be aborted.

    Args:
        code: The exit code.
    """
    if _left:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _own_device(name: str) -> torch.device:
    device = find_device(name)
    if device.type == "cpu":
        return device
    if ":" in name:
        raise DeviceError(
            f"The device is '{name}', but several processes cannot share one GPU; give --device "
            "cuda, of which each takes its own."
        )
    local = int(os.environ["LOCAL_RANK"])
    if local >= torch.cuda.device_count():
        raise DeviceError(
            f"There are more processes than the {torch.cuda.device_count()} CUDA device(s) of this "
            "machine; lower --nproc-per-node, or give --device cpu."
        )
    torch.cuda.set_device(local)
    return torch.device(f"cuda:{local}")


def say_once(sentence: str, say: Callable[[str], None]) -> None:
    """Say why this process ends, unless rank 0 ends with the same sentence.

    The others wait for rank 0 to speak: when one of them ends, torchrun ends the rest.

    Args:
        sentence: Why.
        say: Says it.
    """
    if any(name not in os.environ for name in ("WORLD_SIZE", *NEEDED)):
        say(sentence)  # nobody else is there
    elif os.environ["RANK"] == "0":
        say(sentence)
        _meeting_place().set(FAILED, sentence)
    elif not _is_said(sentence):
        say(sentence)


def _is_said(sentence: str) -> bool:
    try:
        _meeting_place().wait([FAILED], PATIENCE)
        return bool(_meeting_place().get(FAILED).decode() == sentence)
    except dist.DistNetworkError:
        return True  # rank 0, which keeps it, is gone and has said why
    except dist.DistStoreError:
        return False


@cache
def _meeting_place() -> Any:
    """Where processes leave words for each other, whether or not they work together already."""
    store, _, _ = next(rendezvous("env://"))
    return store


def sharers(device: torch.device) -> int:
    """Processes of the group that share the memory of a device."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", world())) if device.type == "cpu" else 1


def agreed(value: T) -> T:
    """What rank 0 has, on all ranks; anything that can be pickled."""
    if world() == 1:
        return value
    box: list[Any] = [value if is_first() else None]
    dist.broadcast_object_list(box, src=0)
    said: T = box[0]
    return said


def by_first(action: Callable[[], T]) -> T:
    """What rank 0 gets by doing something, on all ranks; if it fails by an error of ours, all do.

    Args:
        action: Done by rank 0 only, and nothing that ranks do together.
    """
    if world() == 1:
        return action()
    outcome: T | PdnasError | None = None
    if is_first():
        try:
            outcome = action()
        except PdnasError as error:
            outcome = error
    outcome = agreed(outcome)
    if isinstance(outcome, PdnasError):
        raise outcome
    done: Any = outcome
    result: T = done
    return result


def totals(values: Sequence[float]) -> list[float]:
    """Numbers, summed over the ranks."""
    if world() == 1:
        return list(values)
    sums: list[float] = summed(torch.tensor(values, dtype=torch.float64)).tolist()
    return sums


def summed(tensor: Tensor) -> Tensor:
    """A tensor, summed over the ranks."""
    if world() == 1:
        return tensor
    result = tensor.clone()
    dist.all_reduce(result)
    return result


def mean(tensor: Tensor) -> Tensor:
    """A tensor's mean over the ranks."""
    return tensor if world() == 1 else summed(tensor) / world()


def permutation(count: int) -> Tensor:
    """``torch.randperm``, that of rank 0 on all ranks.

    Torch's random state on the others then follows from that of rank 0, and is another on each:
    what they drop out differs, and going on from rank 0's state brings all of them back.
    """
    if world() == 1:
        return torch.randperm(count)
    state = hashlib.sha256(torch.get_rng_state().numpy().tobytes()).digest()
    order, seed = agreed((torch.randperm(count), int.from_bytes(state[:4], "big")))
    if not is_first():
        torch.manual_seed((seed + rank()) % 2**32)
    return order


def own(items: Sequence[T]) -> tuple[Sequence[T], bool]:
    """This rank's part of a step's, every ``world``-th of them, and whether it counts.

    Where none is left for it, it is the first one, which does not count: all ranks must step.
    """
    mine = items[rank() :: world()]
    return (mine, True) if mine else (items[:1], False)


def dealt(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """This rank's of every ``world`` items in order, and whether it counts, see :func:`own`."""
    left = iter(items)
    while together := list(islice(left, world())):
        (mine,), counts = own(together)
        yield mine, counts


def wrapped(network: nn.Module, *, in_parts: bool = False) -> nn.Module:
    """A network whose gradients are the mean of all ranks'; with a single one it is as it is.

    Args:
        network: The same on all ranks; weights are rank 0's from now on.
        in_parts: Whether a step may leave some weights out; those have no gradient then.
    """
    if world() == 1:
        return network
    return DistributedDataParallel(network, find_unused_parameters=in_parts)
