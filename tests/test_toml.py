"""Files that users write: their values, or one sentence."""

from pathlib import Path

import pytest

from pdnas.errors import RecipeError
from pdnas.toml import read_toml


def test_the_values_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('lr = 0.5\nnames = ["a", "ä"]\n', encoding="utf-8")
    values = read_toml(tmp_path / "a.toml", "recipe", "lr = 0.01", RecipeError)
    assert values == {"lr": 0.5, "names": ["a", "ä"]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"^The recipe '.*a\.toml' cannot be read \(No such file or directory\); check the"),
        (
            b"lr = ",
            r"^The recipe '.*a\.toml' is not valid TOML: .*; correct it, for example: lr = ",
        ),
        (b"lr = '\xe4'", r"is not valid TOML: 'utf-8' codec can't decode byte .*; correct it"),
        (b"a = " + b"[" * 5000, r"is not valid TOML: .*; correct it, for example: lr = 0\.01\.$"),
    ],
    ids=["absent", "not TOML", "not text", "too deep"],
)
def test_a_file_without_values_is_one_sentence(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(RecipeError, match=said) as no:
        read_toml(tmp_path / "a.toml", "recipe", "lr = 0.01", RecipeError)
    assert "\n" not in str(no.value)
