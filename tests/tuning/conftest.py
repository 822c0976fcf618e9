"""A network to tune, and a place to do work that is this process."""

import pytest
from tests.conftest import Here

from pdnas.architecture import Architecture, BlockSpec
from pdnas.tasks import GraphTask
from pdnas.tuning.executor import Executor


@pytest.fixture(scope="session")
def architecture() -> Architecture:
    """A block without learned attention."""
    return Architecture(blocks=(BlockSpec(expansion=0),))


@pytest.fixture
def here(tiny_task: GraphTask) -> Executor:
    """Work on the tiny task, in this process."""
    return Here({tiny_task.name: tiny_task, "task": tiny_task})
