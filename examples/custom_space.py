"""A space of your own: in Python, or as a TOML file that the command line reads too."""

import tempfile
from pathlib import Path

import pdnas

TOML = """
name = "thrifty"
expansion = [0]                      # plain linear maps
propagation = [1, 2, 4]              # one step by attention, or averages of powers
attention = ["const", "gcn", "gat"]
heads = [1, 4]
aggregation = ["mean"]
combine = ["add", "none"]
activation = ["relu"]
shortcuts = "none"
"""


def main() -> None:
    """The same space twice, and a search in it."""
    in_python = pdnas.SearchSpace(
        name="thrifty",
        expansion=(0,),
        propagation=(1, 2, 4),
        attention=("const", "gcn", "gat"),
        heads=(1, 4),
        aggregation=("mean",),
        combine=("add", "none"),
        activation=("relu",),
        shortcuts="none",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "thrifty.toml"
        path.write_text(TOML)
        from_file = pdnas.SearchSpace.load(path)
    assert in_python == from_file
    print(f"{in_python.count(2):,} networks of two blocks")

    result = pdnas.search(
        "citeseer",
        space=in_python,
        hidden=8,
        max_parameters=40_000,
        budget_seconds=8,
        seeds=1,
        controls=(),
    )
    assert result.architecture in in_python
    print(result.summary())


if __name__ == "__main__":
    main()
