import torch
from torch import Tensor

from pdnas.architecture import Architecture
from pdnas.models import GraphNetwork
from pdnas.ops import SparseFeatures
from pdnas.ops.features import Features
from pdnas.tasks import GraphTask
from pdnas.training.batching import Batches


def dense(x: Features) -> Tensor:
    return x.to_dense() if isinstance(x, SparseFeatures) else x


def test_one_graph_is_one_batch_with_the_nodes_that_count(tiny_task: GraphTask) -> None:
    graph = tiny_task.graphs[0]
    batches = Batches(tiny_task, "val", size=5)
    (batch,) = batches.in_order()
    (again,) = batches.shuffled()
    assert batch is again
    assert batch.x is graph.x
    assert batch.adjacency is graph.adjacency
    assert batch.nodes is not None
    assert batch.nodes.tolist() == tiny_task.split.val.tolist()
    assert torch.equal(batch.y, graph.y[tiny_task.split.val])
    assert batch.select(torch.arange(20)).tolist() == batch.nodes.tolist()


def test_several_graphs_come_in_the_order_of_the_split(many_graphs: GraphTask) -> None:
    batches = list(Batches(many_graphs, "test").in_order())
    assert [batch.y.size(0) for batch in batches] == [10, 11]
    assert all(batch.nodes is None for batch in batches)
    assert torch.equal(batches[0].y, many_graphs.graphs[5].y)
    assert batches[0].select(batches[0].y) is batches[0].y


def test_the_last_batch_may_be_smaller(many_graphs: GraphTask) -> None:
    sizes = [batch.y.size(0) for batch in Batches(many_graphs, "train", size=3).in_order()]
    assert sizes == [5 + 6 + 7, 8]


def test_an_epoch_sees_every_graph_once_in_an_order_of_the_seed(many_graphs: GraphTask) -> None:
    batches = Batches(many_graphs, "train", size=1)
    orders = []
    for seed in (0, 0, 1, 2, 3):
        torch.manual_seed(seed)
        orders.append([batch.y.size(0) for batch in batches.shuffled()])
    assert orders[0] == orders[1]
    assert all(sorted(order) == [5, 6, 7, 8] for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_joined_features_keep_their_form(many_graphs: GraphTask) -> None:
    sparse = isinstance(many_graphs.graphs[0].x, SparseFeatures)
    assert sparse == (many_graphs.in_channels == 40)
    (batch,) = Batches(many_graphs, "train", size=4).in_order()
    assert isinstance(batch.x, SparseFeatures) == sparse
    joined = torch.cat([dense(graph.x) for graph in many_graphs.graphs[:4]])
    assert torch.equal(dense(batch.x), joined)


def test_joined_graphs_give_the_logits_of_single_ones(
    many_graphs: GraphTask, architecture: Architecture
) -> None:
    network = GraphNetwork(architecture, many_graphs, hidden=4).eval()
    (joined,) = Batches(many_graphs, "train", size=4).in_order()
    single = [network(graph.x, graph.adjacency) for graph in many_graphs.graphs[:4]]
    torch.testing.assert_close(network(joined.x, joined.adjacency), torch.cat(single))
