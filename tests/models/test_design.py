"""Designs in and out of JSON, and the networks made of them."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pdnas.architecture import Architecture, BlockSpec
from pdnas.errors import ArchitectureError, PdnasError, UnknownNameError
from pdnas.models import AnyDesign, GraphNetwork, load_design, make_network
from pdnas.models.baselines.gcn import GCN
from pdnas.models.baselines.gcnii import Gcnii, GcniiNetwork
from pdnas.runs import Record

SMALL = Gcnii(layers=2)


class Sizes:
    in_channels, out_channels = 5, 3


class Holder(Record):
    design: AnyDesign
    other: AnyDesign | None = None


def test_the_name_tells_a_published_network_from_an_architecture() -> None:
    holder = Holder(design=SMALL, other=GCN.architecture)
    read = Holder.model_validate_json(holder.model_dump_json())
    assert read == holder
    assert type(read.design) is Gcnii
    assert type(read.other) is Architecture
    assert Holder(design=GCN.architecture).other is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"design": {"name": "gcnii", "layers": 0}}', "greater than or equal to 1"),
        ('{"design": {"name": "gcnii", "depth": 3}}', "Extra inputs"),
        ('{"design": {"blocks": [{"heads": "two"}]}}', "valid integer"),
        ('{"design": 3}', "Architecture"),
    ],
)
def test_a_damaged_design_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Holder.model_validate_json(text)


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(UnknownNameError, match="Unknown published network 'gcn2'"):
        Holder.model_validate_json('{"design": {"name": "gcn2"}}')


@pytest.mark.parametrize("design", [SMALL, GCN.architecture])
def test_a_design_is_read_from_a_file(design: Gcnii | Architecture, tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    path.write_text(design.model_dump_json())
    assert load_design(path) == design


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"name": "gcnii", "alpha": 2}', "is not valid: .*alpha.*less than or equal to 1"),
        ("{", "is not whole JSON"),
        ("[]", "is not valid"),
        ('{"blocks": []}', "needs at least one block"),
    ],
)
def test_a_bad_file_is_one_sentence(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    path.write_text(text)
    with pytest.raises(ArchitectureError, match=complaint):
        load_design(path)
    with pytest.raises(ArchitectureError, match="cannot be read"):
        load_design(tmp_path / "other.json")


def test_one_function_makes_the_network_of_any_design() -> None:
    attentive = Architecture(blocks=(BlockSpec(attention="gat"),))
    for design, kind in ((SMALL, GcniiNetwork), (attentive, GraphNetwork)):
        network = make_network(
            design, Sizes, 4, input_dropout=0.1, dropout=0.2, attention_dropout=0.3
        )
        assert isinstance(network, kind)
        assert (network.input_dropout, network.dropout) == (0.1, 0.2)
        assert network.feature_weights is None
        assert make_network(design, Sizes, 4, feature_weights=True).feature_weights is not None


@pytest.mark.parametrize("text", ["[" * 100_000, '{"name":' * 100_000, '{"blocks":[' * 50_000])
def test_a_deeply_nested_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.json"
    path.write_text(text)
    with pytest.raises(ArchitectureError, match=r"deep\.json' is not valid: it is not whole JSON"):
        load_design(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["name", "version", "blocks", "gates", "attention_normalization", "layers", "alpha", "hops"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(FIELDS, JSON | st.sampled_from(["gcnii", "appnp", [{}]])))
def test_whatever_a_file_says_is_read_or_refused(tmp_path: Path, values: object) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(values))
    with contextlib.suppress(PdnasError):
        load_design(path)
