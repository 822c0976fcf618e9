"""Search on your own graph: a PyG ``Data`` goes in, a plain PyTorch module comes out."""

import torch
from torch_geometric.data import Data

import pdnas
from pdnas.search.pdnas import Pdnas


def make_data(nodes: int = 300, classes: int = 3) -> Data:
    """Yours goes here. These nodes prefer neighbors of their own class, and features hint at it."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (nodes,), generator=generator)
    x = torch.nn.functional.one_hot(y, classes) + torch.randn(nodes, classes, generator=generator)
    likely = torch.where(y[:, None] == y, 0.04, 0.005).triu(1)
    forth = (torch.rand(nodes, nodes, generator=generator) < likely).nonzero().t()
    return Data(x=x, edge_index=torch.cat([forth, forth.flip(0)], dim=1), y=y)


def main() -> None:
    """Search, look at what was found, and use it."""
    data = make_data()
    # No masks, so the split is random: 60 % train, 20 % validation, 20 % test.
    task = pdnas.GraphTask.from_data(data, name="mine")
    result = pdnas.search(
        task,
        strategy=Pdnas(epochs=40),
        hidden=16,
        recipe={"epochs": 40},
        seeds=2,
        candidates=2,
        controls=("gcn",),
    )
    print(result.summary())

    logits = result.model(data.x, data.edge_index)
    right = logits.argmax(dim=1) == data.y
    print(f"{int(right.sum())} of {data.num_nodes} nodes are told right")


if __name__ == "__main__":
    main()
