"""A graph that the user saved from PyG, as a ``.pt`` file; nothing in it is executed."""

import pickle
import re
from pathlib import Path

import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from pdnas.errors import TaskError
from pdnas.tasks.source import FORMATS, ReadOptions, Source, source_from_data

SAFE = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
"""The classes that a saved ``Data`` consists of, beside tensors and plain values."""


@FORMATS.register(".pt")
def read(path: Path, options: ReadOptions) -> Source:
    """A torch_geometric Data, written by torch.save; its masks become the split own."""
    data = _load(path)
    if not isinstance(data, Data):
        raise TaskError(
            f"'{path}' holds {type(data).__name__}, not a torch_geometric Data; save one graph "
            "with torch.save(data, path)."
        )
    return source_from_data(
        data,
        str(path),
        normalize=bool(options.normalize),
        undirected=bool(options.undirected),
        known=options.known,
    )


def _load(path: Path) -> object:
    # On leaving, torch forgets the classes named here, also those that PyG itself has allowed.
    known = torch.serialization.get_safe_globals()
    try:
        with torch.serialization.safe_globals([entry for entry in SAFE if entry not in known]):
            data = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(data, Data):
            data.to_dict()  # a damaged one is of the right class, but lacks what it is made of
        return data
    except OSError:
        raise
    except Exception as error:  # a broken file fails in as many ways as there are bytes
        found = re.search(r"(?:GLOBAL|class|global|callable:?) ([\w.]*[.][\w.]+)", str(error))
        if isinstance(error, pickle.UnpicklingError) and found:
            raise TaskError(
                f"'{path}' holds {found.group(1)}, which pdnas does not load because objects other "
                "than tensors could run code; save a torch_geometric Data of tensors alone."
            ) from error
        raise TaskError(
            f"'{path}' is damaged or not a file of torch.save; save the graph anew with "
            "torch.save(data, path)."
        ) from error
