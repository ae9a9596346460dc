"""One install gives every command: what the package imports is what it declares."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

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


EXTRA: Final = ROOT / "mcpproxy" / "tui"
"""The package that needs an extra of the same name: few users want it, and its dependency is large."""


def used(paths: Iterable[Path]) -> set[str]:
    """The distributions that modules import from."""
    names = {name for path in paths for name in imported(path)}
    strangers = names - set(sys.stdlib_module_names) - {"mcpproxy"} - set(NOT_OURS)
    owners = packages_distributions()
    return {owners[name][0].replace("_", "-").lower() for name in strangers}


def test_every_package_that_is_imported_is_a_dependency() -> None:
    modules = {path for path in (ROOT / "mcpproxy").rglob("*.py") if EXTRA not in path.parents}
    assert used(modules) | UNSEEN == named(PROJECT["dependencies"])


def test_the_extra_of_the_terminal_view_is_what_that_imports_besides() -> None:
    besides = used(EXTRA.rglob("*.py")) - named(PROJECT["dependencies"])
    assert besides == named(PROJECT["optional-dependencies"][EXTRA.name])


def test_the_extra_for_tests_brings_what_tests_import() -> None:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    assert f"mcpproxy[{EXTRA.name}]" in extras["test"]
    brought = named([*PROJECT["dependencies"], *extras[EXTRA.name], *extras["test"]])
    distributions = packages_distributions()
    names = {name for path in (ROOT / "tests").rglob("*.py") for name in imported(path)}
    owners = {owner for name in names - {"mcpproxy"} for owner in distributions.get(name, ())}
    tested_with = {owner.replace("_", "-").lower() for owner in owners}
    # Servers and clients that tests start run in environments of their own; pydantic happens to be here, too.
    assert tested_with - brought - UNSEEN <= {"pydantic"}


def named(requirements: Iterable[str]) -> set[str]:
    """The names of distributions without their versions."""
    return {re.split(r"[>=<]", line)[0] for line in requirements}


def test_the_old_extras_install_nothing() -> None:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    assert {name for name, packages in extras.items() if not packages} == {
        "admin", "progress", "replay", "validate", "versions",
    }  # fmt: skip


def test_only_the_command_of_the_extra_asks_for_another_install() -> None:
    asking = [
        str(path) for path in (ROOT / "mcpproxy").rglob("*.py") if "pip install" in path.read_text("utf-8")
    ]
    assert asking == [str(ROOT / "mcpproxy" / "cli" / "commands" / "view" / f"{EXTRA.name}.py")]
