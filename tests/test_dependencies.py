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

pytest_plugins = ("pytester",)

ROOT: Final = Path(__file__).parent.parent
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]

NOT_OURS: Final = {
    "pytest": "the plugin is imported by pytest alone",
    "brotli": "used where it happens to be installed",
    "brotlicffi": "used where it happens to be installed",
    "rich": "part of textual",
    "pydantic": "part of mcp, which has its types in its own",
    "pydantic_core": "part of pydantic",
    "mcp_types": "part of mcp",
    "httpx2": "part of mcp",
    "referencing": "part of jsonschema",
    "ray": "an engine of check that users bring",
    "distributed": "an engine of check that users bring",
    "dask": "part of distributed",
    "google": "protobuf, which the exporter of OpenTelemetry is made of",
    "typing_extensions": "read by type checkers alone, which bring it",
}
"""What is imported without being declared, and why that is right."""


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


EXTRAS: Final = {
    "otel": [
        *(ROOT / "mcpproxy" / "send" / "otel").rglob("*.py"),
        ROOT / "mcpproxy" / "cli" / "commands" / "export" / "export_otlp.py",  # it names the type of a span
    ],
    "mcp": [*(ROOT / "mcpproxy" / "show" / "agents").rglob("*.py")],
    "fleet": [*(ROOT / "mcpproxy" / "send" / "fleet").rglob("*.py")],
}
"""Extra -> the modules that need it: few users want them, and their dependencies are large."""


def owners(paths: Iterable[Path], declared: Iterable[str] = ()) -> set[str]:
    """The distributions that modules import from.

    A namespace such as ``opentelemetry`` belongs to several. The one that is declared brings the others.
    """
    names = {name for path in paths for name in imported(path)}
    strangers = names - set(sys.stdlib_module_names) - {"mcpproxy"} - set(NOT_OURS)
    distributions = packages_distributions()
    found: set[str] = set()
    for name in strangers:
        of_name = [owner.replace("_", "-").lower() for owner in distributions.get(name, ())]
        found.update([owner for owner in of_name if owner in declared] or of_name[:1])
    return found


def test_every_package_that_is_imported_is_a_dependency() -> None:
    of_extras = {path for modules in EXTRAS.values() for path in modules}
    modules = [path for path in (ROOT / "mcpproxy").rglob("*.py") if path not in of_extras]
    assert owners(modules) == named(PROJECT["dependencies"])


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_what_its_modules_import_besides(extra: str) -> None:
    declared = named(PROJECT["optional-dependencies"][extra])
    assert owners(EXTRAS[extra], declared) - named(PROJECT["dependencies"]) == declared


def test_the_extra_for_tests_brings_what_tests_import() -> None:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    light = "test-light"
    assert f"mcpproxy[{','.join((*EXTRAS, light))}]" in extras["test"]
    brought = named(PROJECT["dependencies"])
    for extra in ("test", *EXTRAS, light):
        brought |= named(extras[extra])
    # Servers and clients that tests start run in environments of their own.
    assert owners((ROOT / "tests").rglob("*.py"), brought) - brought == set()


@pytest.mark.parametrize(
    ("imported", "in_gate", "outcome"),
    [
        ("no_such_package", "", "skipped"),
        ("no_such_package", "true", "errors"),
        ("mcpproxy.no_such_module", "", "errors"),
    ],
)
@pytest.mark.parametrize("module", ["import {}\n", "def test_it():\n    import {}\n"])
def test_what_needs_more_packages_is_skipped_outside_the_gate(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    imported: str,
    in_gate: str,
    outcome: str,
) -> None:
    monkeypatch.setenv("CI", in_gate)
    pytester.makeconftest("from tests.light import pytest_make_collect_report, pytest_runtest_makereport\n")
    pytester.makepyfile(module.format(imported))
    if "def" in module:
        outcome = outcome.replace("errors", "failed")
    result = pytester.runpytest("-rs")
    result.assert_outcomes(**{outcome: 1})
    said = [line for line in result.outlines if f"{imported} is not installed: python -m pip" in line]
    assert len(said) == (outcome == "skipped")


def named(requirements: Iterable[str]) -> set[str]:
    """The names of distributions without their versions."""
    return {re.split(r"[>=<]", line)[0] for line in requirements}


def test_only_what_needs_an_extra_asks_for_another_install() -> None:
    package = ROOT / "mcpproxy"
    asking = {path for path in package.rglob("*.py") if "pip install" in path.read_text("utf-8")}
    assert asking == {package / "base" / "extras.py", package / "send" / "fleet" / "judge" / "engine.py"}


def test_no_text_names_an_extra_that_is_not_declared() -> None:
    named: dict[str, set[str]] = {}
    documents = {*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md"), ROOT / "Dockerfile"}
    for folder in ("mcpproxy", "rules", "recordings", "tests", ".ci"):
        documents |= {
            path for path in (ROOT / folder).rglob("*") if path.suffix in (".md", ".py", ".txt", ".toml")
        }
    for path in documents:
        for extras in re.findall(r"mcpproxy\[([a-z0-9_, -]+)\]", path.read_text(encoding="utf-8")):
            for extra in extras.replace(" ", "").split(","):
                named.setdefault(extra, set()).add(str(path.relative_to(ROOT)))
    known = set(PROJECT["optional-dependencies"])
    assert {extra: places for extra, places in named.items() if extra not in known} == {}
    assert {"mcp", "otel", "fleet"} <= named.keys()
