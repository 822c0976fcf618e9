"""What a job is made of; how it is done is for the pipeline's tests."""

from typing import Any

import pytest
import torch

from pdnas.errors import PdnasError
from pdnas.job import Job, Plan, make_job
from pdnas.search.pdnas import PRESETS
from pdnas.space import SPACES


@pytest.mark.parametrize("seed", [0, 1, 2**62 - 1])
def test_no_job_tries_with_a_final_seed(seed: int) -> None:
    job = Job(seed=seed, seeds=10_000)
    job.check()
    assert not {job.trial_seed, job.trial_seed + 1} & set(job.final_seeds)
    torch.Generator().manual_seed(job.trial_seed + 1)


def test_what_is_not_given_to_a_job_keeps_its_default() -> None:
    assert make_job() == Job()
    job = make_job(blocks=(2, 3), seeds=5)
    assert (job.blocks, job.seeds, job.hidden) == ((2, 3), 5, Job().hidden)
    assert job.strategy == PRESETS["default"]
    assert job.space == SPACES["extended"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"block": (2,)}, r"cannot be set so: Unknown setting 'block'; .*'blocks'"),
        ({"blocks": "two"}, r"cannot be set so: blocks: "),
        ({"seeds": 2.5}, r"cannot be set so: seeds: "),
        ({"strategy": {"name": "pdnas", "epochs": 0}}, r"cannot be set so: strategy\.epochs: "),
        ({"strategy": {"name": "pdnas", "pool": 10**400}}, r"strategy\.pool: Input should be less"),
        ({"strategy": {"name": "pdnass"}}, r"Unknown strategy 'pdnass'.* did you mean 'pdnas'\?"),
        ({"recipe": {"lr": 0}}, r"The recipe is not valid: lr: Input should be greater"),
    ],
)
def test_settings_that_make_no_job_are_one_sentence(
    settings: dict[str, Any], expected: str
) -> None:
    with pytest.raises(PdnasError, match=expected) as caught:
        make_job(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_job_comes_back_from_json_with_the_settings_of_its_strategy(preset: str) -> None:
    job = Job(strategy=PRESETS[preset], blocks=(2, 3), max_parameters=99, budget_seconds=1.5)
    assert Job.model_validate_json(job.model_dump_json()) == job


def test_a_plan_adds_up_what_its_parts_cost() -> None:
    plan = Plan(
        epochs=1,
        search_seconds=1.0,
        candidate_seconds=2.0,
        tune_seconds=4.0,
        final_seconds=8.0,
        epoch_seconds=16.0,
    )
    assert plan.seconds == 15.0
