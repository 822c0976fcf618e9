"""Protein interactions in 24 tissues: 20 graphs for training, 2 for validation and 2 for test."""

import zlib
from pathlib import Path

from pdnas.tasks.pyg import NOTES, read_pyg
from pdnas.tasks.source import NAMED, NamedTask, ReadOptions, Source

RECONSTRUCTED = 0x2259D97B
"""CRC-32 of ``train_labels.npy`` where the labels are not the released ones."""

NOTE = "reconstructed labels"


def read_ppi(options: ReadOptions) -> Source:
    """PPI from ``PPI/ppi.zip`` or ``PPI/raw`` under the data root, or from a download."""
    return read_pyg("PPI", "ppi", options)


@NOTES.register("PPI")
def note(raw: Path) -> str:
    """Says so where the labels were rebuilt from gene annotations: figures do not compare."""
    labels = (raw / "train_labels.npy").read_bytes()
    return NOTE if zlib.crc32(labels) == RECONSTRUCTED else ""


NAMED.register("ppi")(
    NamedTask(
        read_ppi, "24 graphs, 50 features, 121 labels per node; from the data root or a download"
    )
)
