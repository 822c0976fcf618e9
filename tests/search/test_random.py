"""Random search: uniform draws, whatever came before."""

import torch

from pdnas.search import Problem
from pdnas.search.random import Random
from pdnas.search.rated import APART
from pdnas.space import SPACES
from pdnas.tasks import GraphTask
from pdnas.training import Recipe
from pdnas.training.fit import seeded


def test_it_tries_what_the_problem_draws(tiny_task: GraphTask) -> None:
    problem = Problem(tiny_task, SPACES["paper"], 2, 4, Recipe(epochs=1), seed=7)
    generator = torch.Generator().manual_seed(7 + APART)
    expected = [problem.space.plain(problem.sample(generator)) for _ in range(3)]
    with seeded(0):
        search = Random(epochs=3, train_epochs=1).start(problem)
        for _ in range(3):
            search.step()
    assert [one.architecture for one in search.tried] == expected
    control = problem.space.plain(problem.sample(torch.Generator().manual_seed(7)))
    assert expected[0] != control, "a random control of the same seed is another one"
