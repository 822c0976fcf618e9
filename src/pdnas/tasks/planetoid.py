"""The citation graphs Cora and PubMed on their public split."""

from pdnas.tasks.pyg import read_pyg
from pdnas.tasks.source import NAMED, NamedTask, ReadOptions, Source


def read_cora(options: ReadOptions) -> Source:
    """Cora, with features that sum to one unless the options say otherwise."""
    return read_pyg("Planetoid/Cora", "cora", options, split_name="public", normalize=True)


def read_pubmed(options: ReadOptions) -> Source:
    """PubMed, with features that sum to one unless the options say otherwise."""
    return read_pyg("Planetoid/PubMed", "pubmed", options, split_name="public", normalize=True)


NAMED.register("cora")(
    NamedTask(read_cora, "2708 papers, 1433 words, 7 classes; from the data root or a download")
)
NAMED.register("pubmed")(
    NamedTask(read_pubmed, "19717 papers, 500 words, 3 classes; from the data root or a download")
)
