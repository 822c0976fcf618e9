"""CiteSeer, which comes with the package, so that there is a task without any download."""

from importlib import resources

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from pdnas.ops.csr import Csr
from pdnas.tasks.source import NAMED, NamedTask, ReadOptions, Source, source_from_data
from pdnas.tasks.splits import PARTS


def read_citeseer(options: ReadOptions) -> Source:
    """CiteSeer on its public split, with features that sum to one unless the options object.

    The file holds each edge once and of the features, which are zeros and ones, where the ones are;
    ``tools/build_citeseer.py`` makes it.
    """
    file = resources.files("pdnas.tasks") / "data" / "citeseer.npz"
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        arrays = {name: torch.from_numpy(stored[name].astype(np.int64)) for name in stored.files}
    num_nodes = arrays["y"].numel()
    rowptr = torch.cat([torch.zeros(1, dtype=torch.long), arrays["x_lengths"].cumsum(0)])
    words = Csr.from_pointers(rowptr, arrays["x_indices"], int(arrays["num_features"]))
    masks: dict[str, Tensor] = {
        f"{part}_mask": index_to_mask(arrays[part], size=num_nodes) for part in PARTS
    }
    data = Data(
        x=words.with_values(torch.ones(words.nnz)),
        edge_index=arrays["edges"],
        y=arrays["y"],
        **masks,
    )
    normalize = options.normalize is not False
    return source_from_data(
        data,
        "citeseer",
        split_name="public",
        normalize=normalize,
        undirected=options.undirected is not False,
    )


NAMED.register("citeseer")(
    NamedTask(read_citeseer, "3327 papers, 3703 words, 6 classes; comes with pdnas")
)
