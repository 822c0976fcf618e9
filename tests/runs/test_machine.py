"""The environment says what a result may depend on."""

import json

import torch

from pdnas.runs import environment


def test_the_environment_says_what_a_result_may_depend_on() -> None:
    found = environment(torch.device("cpu"), threads=3)
    assert found["device"] == "cpu"
    assert found["threads"] == 3
    assert found["packages"]["torch"].startswith(torch.__version__.split("+")[0])
    json.dumps(found)
