import pytest
import torch

from pdnas.ops import COMBINES, Dims, SparseFeatures
from pdnas.ops.combine import AddCombine, ConcatMlpCombine, NoCombine, RootCombine

DIMS = Dims(3, 2, 4)
MESSAGES = torch.tensor([[1.0, 2.0], [-1.0, 0.0]])
TRANSFORMED = torch.tensor([[10.0, -20.0], [30.0, 40.0]])
X = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])


def test_add_adds_messages_and_node() -> None:
    assert AddCombine(DIMS)(MESSAGES, TRANSFORMED, X).tolist() == [[11, -18], [29, 40]]


def test_none_passes_messages_on() -> None:
    assert NoCombine(DIMS)(MESSAGES, TRANSFORMED, X).tolist() == MESSAGES.tolist()


def test_concat_mlp_by_hand() -> None:
    op = ConcatMlpCombine(DIMS)
    first = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    op.load_state_dict({"weight_1": first, "weight_2": torch.tensor([[1.0, 2.0], [3.0, 4.0]])})
    # e + f is (11, -18) and (29, 40), of which the -18 goes.
    assert op(MESSAGES, TRANSFORMED, X).tolist() == [[11, 22], [29 + 120, 58 + 160]]


@pytest.mark.parametrize("sparse", [False, True])
def test_root_maps_the_input_of_the_block(sparse: bool) -> None:
    op = RootCombine(DIMS)
    op.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])})
    x = SparseFeatures.from_tensor(X) if sparse else X
    assert op(MESSAGES, TRANSFORMED, x).tolist() == [[12, 16], [2, 4]]


def test_only_none_makes_a_node_its_own_neighbor() -> None:
    assert [name for name in COMBINES if COMBINES[name].self_loops] == ["none"]
