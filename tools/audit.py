"""A bill of what is installed, and whether any of it is known to be vulnerable.

    python tools/audit.py

The bill, CycloneDX in JSON, says what stands in this environment, the same every time. What
constraints.txt pins and what is installed must stand in it. pip-audit then asks a database for
known vulnerabilities of what constraints.txt pins. The exit code is 1 where one is known, and where
something could not be looked up though other things could; where no database answers, that is said,
and the exit code is 0: a machine without a network is no reason to hold back a change.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

PATIENCE = 300
"""Seconds that a database may take for all of its answers."""

UNREACHABLE = ("Could not connect", "not redirecting properly")
"""What pip-audit says of a database that does not answer."""


def pinned(constraints: Path) -> dict[str, str]:
    """The version of each distribution that a file pins, by its normalized name."""
    lines = constraints.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def installed() -> dict[str, str]:
    """The version of each distribution of this environment, by its normalized name."""
    return {canonicalize_name(one.name): one.version for one in metadata.distributions()}


def write_bill(path: Path) -> None:
    """Write the bill of this environment, without what differs from time to time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["environment", "--output-reproducible", "--of", "JSON", "-o", str(path)]
    subprocess.run([sys.executable, "-m", "cyclonedx_py", *words, sys.executable], check=True)


def missing(bill: Mapping[str, Any], pins: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """What is pinned and installed but does not stand in a bill as it is installed.

    Args:
        bill: As it was written.
        pins: What constraints.txt names.
        here: What is installed.
    """
    told = {(canonicalize_name(part["name"]), part.get("version")) for part in bill["components"]}
    return sorted(
        f"{name} {here[name]}" for name in pins if name in here and (name, here[name]) not in told
    )


def ask(constraints: Path) -> "subprocess.CompletedProcess[str] | None":
    """What pip-audit says; none: it had no answers in time."""
    words = ["--requirement", str(constraints), "--no-deps", "--disable-pip", "--format", "json"]
    try:
        return subprocess.run(
            [sys.executable, "-m", "pip_audit", *words, "--progress-spinner", "off"],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return None


def verdict(answer: "subprocess.CompletedProcess[str] | None", wanted: int) -> tuple[int, str]:
    """An exit code, and what is to be said of an answer.

    Args:
        answer: Of :func:`ask`.
        wanted: How many distributions were asked about.
    """
    if answer is None:
        return nothing(wanted, f"no answer within {PATIENCE} seconds")
    try:
        told = json.loads(answer.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (answer.stderr.strip().splitlines() or ["it said nothing"])[-1]
        if any(sign in answer.stderr for sign in UNREACHABLE):
            return nothing(wanted, reason)
        return 1, f"pip-audit failed: {reason}"
    looked_up = {one["name"] for one in told if "vulns" in one}
    vulnerable = [one for one in told if one.get("vulns")]
    if vulnerable:
        lines = [
            f"{one['name']} {one['version']}: {', '.join(v['id'] for v in one['vulns'])}; mended "
            f"in {', '.join(v for w in one['vulns'] for v in w['fix_versions']) or 'no version'}"
            for one in vulnerable
        ]
        return 1, "\n".join(["Known to be vulnerable:", *lines])
    if not looked_up:
        return nothing(wanted, told[0]["skip_reason"] if told else "no distribution was named")
    if len(looked_up) < wanted:
        lost = ", ".join(one["name"] for one in told if "vulns" not in one)
        return 1, f"{wanted - len(looked_up)} of {wanted} could not be looked up: {lost}"
    return 0, f"{wanted} distributions were audited: no vulnerability is known."


def nothing(wanted: int, reason: str) -> tuple[int, str]:
    """What is said where no database could be reached."""
    return 0, (
        f"NOTHING WAS AUDITED: no database of vulnerabilities could be reached for any of {wanted} "
        f"distributions ({reason}). Run this again where there is a network."
    )


def main() -> int:
    """Write the bill, check it, and ask."""
    parser = argparse.ArgumentParser(description="A bill of what is installed, and its audit.")
    parser.add_argument("--constraints", type=Path, default=Path("constraints.txt"))
    parser.add_argument("--output", type=Path, default=Path("build/sbom.json"))
    asked = parser.parse_args()
    pins = pinned(asked.constraints)
    write_bill(asked.output)
    bill = json.loads(asked.output.read_bytes())
    lost = missing(bill, pins, installed())
    if lost or not pins:
        print(f"{asked.output} lacks {', '.join(lost) or 'everything: nothing is pinned'}")
        return 1
    print(f"{asked.output}: {len(bill['components'])} distributions")
    code, said = verdict(ask(asked.constraints), len(pins))
    print(said)
    return code


if __name__ == "__main__":
    sys.exit(main())
