"""The package as a program."""

import subprocess
import sys

import pdnas


def test_the_package_is_the_program() -> None:
    given = [[sys.executable, "-m", "pdnas", word] for word in ("--version", "serch")]
    told, wrong = (
        subprocess.run(one, capture_output=True, text=True, check=False) for one in given
    )
    assert (told.returncode, told.stdout) == (0, f"pdnas {pdnas.__version__}\n")
    assert wrong.returncode == 2
    assert "did you mean 'search'?" in wrong.stderr
