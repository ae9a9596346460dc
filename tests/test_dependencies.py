"""One install gives every command: what the package imports is what it declares."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]

NOT_OURS: Final = {
    "pytest": "the plugin is imported by pytest alone",
    "httpcore": "part of httpx",
    "brotli": "used where it happens to be installed",
    "brotlicffi": "used where it happens to be installed",
    "rich": "part of textual",
    "google": "protobuf, which the exporter of OpenTelemetry is made of",
    "typing_extensions": "read by type checkers alone, which bring it",
}
"""What is imported without being declared, and why that is right."""

UNSEEN: Final = {"anyio"}
"""What is needed without an import of ours: httpcore's connections are anyio's."""


def imported(path: Path) -> Iterator[str]:
    """The top-level names that a file imports, wherever in it that happens."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module.partition(".")[0]
            case _:
                pass


EXTRAS: Final = {"tui": "textual", "otel": "opentelemetry"}
"""Packages that need an extra of the same name, because few users want them and their dependencies are large;
each with the name that it imports."""

COMMANDS_OF_EXTRAS: Final = {
    "tui": ROOT / "mcpproxy" / "cli" / "commands" / "view" / "tui.py",
    "otel": ROOT / "mcpproxy" / "cli" / "commands" / "export_otlp.py",
}
"""The modules outside these packages that import the same; they name the types that they pass on."""


def belongs_to_an_extra(path: Path) -> bool:
    parts = path.relative_to(ROOT / "mcpproxy").parts
    return parts[0] in EXTRAS or path in COMMANDS_OF_EXTRAS.values()


def used(paths: Iterable[Path], declared: Iterable[str] = ()) -> set[str]:
    """The distributions that modules import from. Of several with one name, a declared one counts."""
    names = {name for path in paths for name in imported(path)}
    strangers = names - set(sys.stdlib_module_names) - {"mcpproxy"} - set(NOT_OURS)
    owners = {
        name: [owner.replace("_", "-").lower() for owner in found]
        for name, found in packages_distributions().items()
    }
    return {
        next((owner for owner in owners[name] if owner in declared), owners[name][0]) for name in strangers
    }


def test_every_package_that_is_imported_is_a_dependency() -> None:
    modules = {path for path in (ROOT / "mcpproxy").rglob("*.py") if not belongs_to_an_extra(path)}
    assert used(modules) | UNSEEN == named(PROJECT["dependencies"])


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_what_its_package_imports_besides(extra: str) -> None:
    pytest.importorskip(EXTRAS[extra], reason=f"{EXTRAS[extra]} is not installed")
    modules = [*(ROOT / "mcpproxy" / extra).rglob("*.py"), COMMANDS_OF_EXTRAS[extra]]
    declared = named(PROJECT["optional-dependencies"][extra])
    assert used(modules, declared) - named(PROJECT["dependencies"]) == declared


def named(requirements: Iterable[str]) -> set[str]:
    """The names of distributions without their versions."""
    return {re.split(r"[>=<]", line)[0] for line in requirements}


def test_the_old_extras_install_nothing() -> None:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    assert {name for name, packages in extras.items() if not packages} == {
        "admin", "progress", "replay", "validate", "versions",
    }  # fmt: skip


def test_only_the_commands_of_the_extras_ask_for_another_install() -> None:
    asking = [path for path in (ROOT / "mcpproxy").rglob("*.py") if "pip install" in path.read_text("utf-8")]
    assert set(asking) == {COMMANDS_OF_EXTRAS["tui"], ROOT / "mcpproxy" / "otel" / "installed.py"}
