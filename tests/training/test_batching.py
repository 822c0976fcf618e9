from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import RecipeError
from pdnas.models import GraphNetwork
from pdnas.ops import SparseFeatures
from pdnas.ops.features import Features
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
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


def test_batches_in_order_are_made_once_and_those_that_meet_at_random_are_not(
    many_graphs: GraphTask,
) -> None:
    batches = Batches(many_graphs, "train", size=2)
    first, again = list(batches.in_order()), list(batches.in_order())
    assert len(first) == 2
    assert all(one is other for one, other in zip(first, again, strict=True))
    assert not {*map(id, batches.shuffled())} & {*map(id, first)}


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


def test_one_copy_is_the_batch_itself(tiny_task: GraphTask) -> None:
    (batch,) = Batches(tiny_task, "train").in_order()
    assert batch.repeated(1) is batch


def test_copies_are_made_once(tiny_task: GraphTask) -> None:
    (batch,) = Batches(tiny_task, "train").in_order()
    assert batch.repeated(3) is batch.repeated(3)
    assert batch.repeated(2) is not batch.repeated(3)
    assert batch.repeated(2).y.numel() == 2 * batch.y.numel()


def test_the_nodes_that_count_are_found_in_every_copy(tiny_task: GraphTask) -> None:
    graph = tiny_task.graphs[0]
    (batch,) = Batches(tiny_task, "val").in_order()
    twice = batch.repeated(2)
    assert twice.nodes is not None
    assert twice.nodes.tolist() == [*range(9, 14), *range(29, 34)]
    assert torch.equal(twice.y, torch.cat([batch.y, batch.y]))
    assert torch.equal(dense(twice.x), torch.cat([dense(graph.x), dense(graph.x)]))
    assert torch.equal(twice.select(torch.cat([graph.y, graph.y])), twice.y)


def test_where_all_nodes_count_all_nodes_of_all_copies_do(many_graphs: GraphTask) -> None:
    (batch,) = Batches(many_graphs, "train", size=4).in_order()
    thrice = batch.repeated(3)
    assert thrice.nodes is None
    assert thrice.adjacency.num_nodes == len(thrice.y) == 3 * (5 + 6 + 7 + 8)
    assert isinstance(thrice.x, SparseFeatures) == isinstance(batch.x, SparseFeatures)
    assert torch.equal(dense(thrice.x), dense(batch.x).repeat(3, 1))


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_give_the_same_logits_over_and_over(
    many_graphs: GraphTask, architecture: Architecture, copies: int
) -> None:
    network = GraphNetwork(architecture, many_graphs, hidden=4).eval()
    (batch,) = Batches(many_graphs, "train", size=4).in_order()
    repeated = batch.repeated(copies)
    logits = network(batch.x, batch.adjacency)
    torch.testing.assert_close(network(repeated.x, repeated.adjacency), logits.repeat(copies, 1))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_clusters_hold_what_their_nodes_and_edges_are(tiny_task: GraphTask, layout: str) -> None:
    (graph,) = tiny_task.graphs
    assert isinstance(graph.x, Tensor)
    x = graph.x if layout == "dense" else SparseFeatures.from_tensor(graph.x)
    source = replace(tiny_task.source, graphs=(replace(graph, x=x),))
    task = replace(tiny_task, source=source)
    answers = [torch.arange(20.0).unsqueeze(1)]
    batches = Batches(task, "train", answers=answers, nodes=8)
    known = {tuple(edge) for edge in graph.edge_index.T.tolist()}
    counted = []
    for batch in batches.shuffled():
        assert batch.answers is not None
        nodes = batch.answers[:, 0].long()  # each answer is the number of its node
        assert torch.equal(dense(batch.x), graph.x[nodes])
        edges = nodes[batch.adjacency.edge_index]
        inside = [edge for edge in known if set(edge) <= set(nodes.tolist())]
        assert sorted(map(tuple, edges.T.tolist())) == sorted(inside)
        assert batch.nodes is not None
        assert batch.nodes.numel() > 0
        assert torch.equal(batch.y, graph.y[nodes[batch.nodes]])
        counted.append(nodes[batch.nodes])
    assert len(counted) > 1
    assert torch.equal(torch.cat(counted).sort().values, task.split.train)
    assert len(list(batches.in_order())) == 1, "in order it is the whole graph"


@pytest.mark.parametrize("nodes", [None, 20, 1000])
def test_a_graph_that_fits_into_a_batch_is_not_cut(tiny_task: GraphTask, nodes: int | None) -> None:
    (batch,) = Batches(tiny_task, "train", nodes=nodes).shuffled()
    assert batch.adjacency is tiny_task.graphs[0].adjacency


@pytest.mark.usefixtures("sampler")
def test_labels_count_at_the_nodes_whose_neighbors_were_sampled(tiny_task: GraphTask) -> None:
    (graph,) = tiny_task.graphs
    assert isinstance(graph.x, Tensor)
    recipe = Recipe(batching="neighbors", batch_nodes=4, neighbors=2)
    answers = [torch.arange(20.0).unsqueeze(1)]
    batches = Batches.by(recipe, tiny_task, "train", hops=2, answers=answers)
    counted = []
    for batch in batches.shuffled():
        assert batch.answers is not None
        assert batch.nodes is not None
        nodes = batch.answers[:, 0].long()
        assert torch.equal(dense(batch.x), graph.x[nodes])
        assert batch.nodes.tolist() == list(range(len(batch.y)))
        assert len(batch.y) <= 4
        assert torch.equal(batch.y, graph.y[nodes[batch.nodes]])
        counted.append(nodes[batch.nodes])
    assert len(counted) > 1
    assert torch.equal(torch.cat(counted).sort().values, tiny_task.split.train)
    assert not batches.is_whole
    assert not Batches.by(recipe.changed(batch_nodes=99), tiny_task, "train", hops=2).is_whole


@pytest.mark.usefixtures("sampler")
def test_all_neighbors_of_all_hops_give_the_logits_of_the_whole_graph(
    tiny_task: GraphTask,
) -> None:
    (graph,) = tiny_task.graphs
    spec = BlockSpec(attention="gat", heads=2)
    network = GraphNetwork(Architecture(blocks=(spec, spec)), tiny_task, hidden=4).eval()
    recipe = Recipe(batching="neighbors", batch_nodes=3, neighbors=20)
    whole, seen = network(graph.x, graph.adjacency), 0
    batches = Batches.by(recipe, tiny_task, "train", hops=2, answers=[torch.arange(20.0)])
    for batch in batches.shuffled():
        assert batch.answers is not None
        nodes = batch.select(batch.answers).long()
        torch.testing.assert_close(batch.select(network(batch.x, batch.adjacency)), whole[nodes])
        seen += len(nodes)
    assert seen == len(tiny_task.split.train)


def test_the_size_of_batches_must_be_known(tiny_task: GraphTask) -> None:
    with pytest.raises(RecipeError, match=r"^--batching is clusters, but nobody says how large"):
        Batches.by(Recipe(batching="clusters"), tiny_task, "train", hops=2)


def test_a_recipe_says_what_a_batch_is(tiny_task: GraphTask, many_graphs: GraphTask) -> None:
    def by(recipe: Recipe, task: GraphTask = tiny_task) -> Batches:
        return Batches.by(recipe, task, "train", hops=1)

    assert by(Recipe()).is_whole
    assert by(Recipe(batching="full")).is_whole
    assert by(Recipe(batch_nodes=20)).is_whole
    assert not by(Recipe(batch_nodes=19)).is_whole
    joined = by(Recipe(batch_graphs=3), many_graphs)
    assert not joined.is_whole
    assert [batch.y.size(0) for batch in joined.in_order()] == [5 + 6 + 7, 8]
