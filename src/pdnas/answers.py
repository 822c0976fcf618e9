"""What the logits of nodes say, for each kind of task."""

from collections.abc import Sequence

from torch import Tensor

from pdnas.errors import PdnasError
from pdnas.tasks.labels import Kind

Names = tuple[str, ...] | tuple[tuple[str, ...], ...]
"""The name of each node's class; for several labels per node a tuple of names each."""


def numbers_of(logits: Tensor, kind: Kind) -> Tensor:
    """Numbers of the classes, ``[N]``, or zeros and ones, ``[N, K]``, for several labels.

    Args:
        logits: ``[N, C]``; a single one per node for a yes-or-no question.
        kind: Of the task.
    """
    if kind == "single-label":
        return logits.argmax(dim=1)
    likely = (logits > 0).long()
    return likely.squeeze(1) if kind == "binary" else likely


def names_of(numbers: Tensor, kind: Kind, class_names: Sequence[str]) -> Names:
    """The names of what :func:`numbers_of` gives."""
    if kind != "multi-label":
        return tuple(class_names[number] for number in numbers.tolist())
    return tuple(
        tuple(name for name, has in zip(class_names, row, strict=True) if has)
        for row in numbers.tolist()
    )


def check_logits(logits: Tensor, channels: int) -> None:
    """Refuse what cannot be the logits of nodes."""
    if logits.dim() != 2 or logits.size(1) != channels:
        raise PdnasError(
            f"Logits of shape {list(logits.shape)} are not those of this network, which gives "
            f"[nodes, {channels}]; give what its model returns."
        )
