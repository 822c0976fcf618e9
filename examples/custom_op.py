"""An op of your own is searched like any other: register it, and put it into a space."""

import torch
from torch import Tensor, nn

import pdnas
from pdnas.ops import ATTENTIONS, Adjacency, LearnedAttention


@ATTENTIONS.register("distance")
class DistanceAttention(LearnedAttention):
    r""":math:`a_{ij} = -\sum_c w_c^2 (h_i - h_j)_c^2`: who is alike is listened to."""

    vectors = ("weight",)  # each [H, C]; they are made, counted and trained for you
    weight: nn.Parameter

    def scores(self, x: Tensor, graph: Adjacency) -> Tensor:
        """From features ``[N, H, C]`` to a score for every edge and head, ``[E, H]``."""
        scaled = x * self.weight
        gap = graph.at_targets(scaled) - graph.at_sources(scaled)  # [E, H, C]
        return -gap.square().sum(dim=-1)


SPACE = pdnas.SearchSpace(
    name="with-distance",
    expansion=(1, 2),
    attention=("gcn", "gat", "distance"),
    heads=(1, 2),
    aggregation=("sum", "mean"),
    combine=("add",),
    activation=("relu", "elu"),
)


def main() -> None:
    """Search where the op is one of the candidates, then insist on it."""
    task = pdnas.load_task("citeseer")
    result = pdnas.search(task, space=SPACE, hidden=8, budget_seconds=8, seeds=1, controls=())
    print(result.architecture)

    blocks = (
        pdnas.BlockSpec(attention="distance", activation="relu"),
        pdnas.BlockSpec(attention="distance"),
    )
    insisted = pdnas.Architecture(blocks=blocks)
    trained = pdnas.train(insisted, task, hidden=8, recipe={"epochs": 5})
    print(f"distance alone: test {trained.test} %")
    assert torch.isfinite(torch.tensor(trained.test.values)).all()


if __name__ == "__main__":
    main()
