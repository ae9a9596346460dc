"""What the image is made of: nothing that could be another thing tomorrow."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parent.parent
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text("utf-8")
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

LOCKS: Final = ("image.txt", "build.txt")


def locked(name: str) -> dict[str, str]:
    """The packages of a list with their versions."""
    text = (ROOT / ".ci" / name).read_text("utf-8")
    return {
        canonicalize_name(package): version for package, version in re.findall(r"^(\S+)==(\S+)", text, re.M)
    }


def test_every_base_is_named_by_its_digest() -> None:
    (base,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.M)
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}", base)
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    assert set(bases) == {"${PYTHON}"}
    assert len(bases) == 2


def test_the_build_gets_what_it_copies() -> None:
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.M))
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.M)
        for source in line.split()
    }
    assert {source.partition("/")[0] for source in allowed} == copied
    assert all((ROOT / source).exists() for source in allowed)
    used = set(re.findall(r"\.ci/[\w.]+", (ROOT / ".ci" / "install").read_text("utf-8")))
    assert used == {source for source in allowed if source.startswith(".ci/")} - {".ci/install"}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_hashes(name: str) -> None:
    text = (ROOT / ".ci" / name).read_text("utf-8")
    entries = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.M).strip())
    assert len(entries) == len(locked(name)) > 2
    for entry in entries:
        assert re.fullmatch(r"\S+==\S+( ; [^\\]+)? (\\\n    --hash=sha256:[0-9a-f]{64} ?)+", entry + " "), (
            entry
        )


def test_the_list_holds_what_the_project_asks_for() -> None:
    found = locked("image.txt")
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *extras["fleet"], *extras["otel"]]  # what the recipes use
    for requirement in map(Requirement, asked):
        version = found[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement}: {version}; run .ci/lock"


def bom(*parts: tuple[str, str]) -> str:
    components = [{"name": name, "version": version} for name, version in parts]
    return json.dumps({"bomFormat": "CycloneDX", "components": components})


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([("b_c", "2"), ("a", "1")], 0),
        ([("b-c", "2"), ("a", "1"), ("only-there", "3")], 0),
        ([("a", "1")], 1),
        ([("b-c", "2.0.1"), ("a", "1")], 1),
        ([("b-c", "2"), ("a", "1"), ("x", "1")], 1),
    ],
)
def test_a_bill_of_materials_is_held_to_the_list(
    tmp_path: Path, parts: list[tuple[str, str]], code: int
) -> None:
    written, listed = tmp_path / "bom.json", tmp_path / "list.txt"
    written.write_text(bom(*parts), "utf-8")
    hashed = " \\\n    --hash=sha256:0\n"
    listed.write_text(hashed.join(["a==1", "B.c==2", "only-there==3 ; python_version < '3'", ""]), "utf-8")
    ran = subprocess.run(
        [sys.executable, ROOT / ".ci" / "bom.py", written, listed],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code
    assert bool(ran.stderr) == bool(code)
