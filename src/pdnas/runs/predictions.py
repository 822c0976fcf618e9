"""What the trained network of a run says of every node that it was trained on."""

from dataclasses import dataclass

from torch import Tensor

from pdnas.errors import RunError
from pdnas.runs.result import Result
from pdnas.tasks.labels import UNLABELLED


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the trained network says of every node of the graphs that it was trained on.

    Args:
        logits: ``[N, C]``, graph after graph.
        labels: Classes ``[N]``, -1 where unknown, or zeros and ones ``[N, K]``.
        part: ``[N]``, 0 for none, 1 train, 2 val, 3 test.
        graph: ``[N]``, the number of each node's graph.
        node_ids: The user's own names of the nodes; empty where there are none.
    """

    logits: Tensor
    labels: Tensor
    part: Tensor
    graph: Tensor
    node_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        nodes = self.logits.size(0)
        counts = {len(field) for field in (self.labels, self.part, self.graph)}
        if self.logits.dim() != 2 or counts != {nodes} or len(self.node_ids) not in (0, nodes):
            raise RunError(f"The predictions of {nodes} nodes do not fit together.")

    def check(self, result: Result) -> None:
        """Refuse what no network of a result can have said, of no nodes that there can be."""
        classes, nodes = len(result.class_names), self.logits.size(0)
        is_many = self.labels.dim() == 2
        highest = 1 if is_many else classes - 1
        fields = {"labels": (self.labels, UNLABELLED, highest), "part": (self.part, 0, 3)}
        fields["graph"] = (self.graph, 0, nodes - 1)
        if (
            not nodes
            or not self.logits.is_floating_point()
            or self.logits.size(1) != result.out_channels
            or self.labels.shape != ((nodes, classes) if is_many else (nodes,))
        ):
            raise RunError(
                f"Logits {list(self.logits.shape)} and labels {list(self.labels.shape)} are not "
                f"those of a network of {classes} classes."
            )
        for name, (field, least, most) in fields.items():
            if (
                field.is_floating_point()
                or not least <= int(field.min()) <= int(field.max()) <= most
            ):
                raise RunError(f"The field '{name}' is not made of whole numbers to {most}.")
