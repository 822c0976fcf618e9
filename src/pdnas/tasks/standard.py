"""Features of mean 0 and standard deviation 1, so that no column drowns the others by its unit."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pdnas.errors import TaskError
from pdnas.ops.features import Features, SparseFeatures
from pdnas.tasks.labels import Known
from pdnas.tasks.source import Source


def standardized(source: Source, wanted: bool | None) -> Source:
    r"""The same graphs with every feature :math:`(x - \mu) / \sigma`.

    Mean and population standard deviation are those of all nodes, or where several graphs come with
    a split, of the nodes of its training graphs. A feature that does not vary is only shifted.

    Args:
        source: As it was read.
        wanted: Whether; ``None`` leaves it to the data: tables of dense features, unless their rows
            are normalized, are standardized, and nothing else is.
    """
    dense = [graph.x for graph in source.graphs if isinstance(graph.x, Tensor)]
    is_dense = len(dense) == len(source.graphs)
    if wanted is None:
        wanted = bool(source.feature_names) and is_dense and not source.normalize
    if not wanted:
        return source
    if source.normalize:
        raise TaskError(
            f"The features of '{source.name}' cannot be both normalized and standardized; give "
            "--normalize off or --standardize off."
        )
    if not is_dense:
        raise TaskError(
            f"The features of '{source.name}' are sparse, and standardizing would make them dense; "
            "give --standardize off."
        )
    if len(dense) > 1 and source.splits:
        train, _, _ = next(iter(source.splits.values()))
        dense = [dense[int(number)] for number in train]
    return _scaled(source, *moments(dense))


def standardized_for(source: Source, known: Known) -> Source:
    """The same graphs as a trained network reads them: scaled as its own were, if those were."""
    if not known.means:
        return source
    known.check(source.graphs[0].x.shape[1], f"'{source.name}'")
    return _scaled(source, known.means, known.deviations)


def moments(features: Sequence[Tensor]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means and standard deviations of columns: numbers of single precision, none of them 0.

    Args:
        features: ``[N, F]`` of each graph.
    """
    x = torch.cat([part.double() for part in features])
    means, deviations = x.mean(0).float(), x.std(0, correction=0).float()
    varies = (x != x[0]).any(0) & (deviations > 0)
    means = torch.where(varies, means, x[0].float())
    return tuple(means.tolist()), tuple(torch.where(varies, deviations, 1.0).tolist())


def _scaled(source: Source, means: tuple[float, ...], deviations: tuple[float, ...]) -> Source:
    graphs = tuple(
        replace(graph, x=_scale(graph.x, torch.tensor((means, deviations), dtype=torch.float64)))
        for graph in source.graphs
    )
    return replace(source, graphs=graphs, means=means, deviations=deviations)


def _scale(x: Features, scale: Tensor) -> Tensor:
    """In double precision, ``[N, F]``; by means and deviations, ``[2, F]``."""
    dense = x.to_dense() if isinstance(x, SparseFeatures) else x
    means, deviations = scale.to(dense.device)
    scaled: Tensor = (dense.double() - means) / deviations
    return scaled.float()
