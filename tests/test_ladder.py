"""Layers import downwards, packages of a layer import one way, and folders stay small."""

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.ladder import (
    LAYERS,
    PACKAGE,
    circle,
    dotted,
    drawing,
    exceptions_in,
    folder_of,
    forbidden,
    graph,
    imported,
    layer_of,
    modules,
    package_of,
    within,
)

MOST_MODULES: Final = 22
ARCHITECTURE: Final = PACKAGE.parent / ".github" / "ARCHITECTURE.md"


def test_every_package_stands_in_one_layer() -> None:
    packages = {package_of(module) for module in modules()} - {"", "__main__"}
    assert sorted(packages) == sorted(package for layer in LAYERS.values() for package in layer)


def test_a_folder_of_a_layer_holds_packages_of_this_layer() -> None:
    placed = {package_of(module): folder_of(module) for module in modules() if folder_of(module)}
    placed.pop("")  # the folders themselves
    assert {package: layer_of(package) for package in placed} == placed


def test_a_layer_imports_what_it_may() -> None:
    assert forbidden(graph()) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_packages_of_a_layer_import_one_way(layer: str) -> None:
    assert circle(within(layer, graph())) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    # The package itself gives its public names on demand, so it stands outside.
    imports = {name: used - {"mcpproxy"} for name, used in graph().items() if name != "mcpproxy"}
    assert circle(imports) == []


# A wrong import is seen


def imports_with(file: str, line: str) -> Mapping[str, set[str]]:
    """The imports of the package if ``line`` were added to its ``file``."""
    path = PACKAGE / file
    tree = ast.parse(f"{path.read_text(encoding='utf-8')}\n{line}\n")
    return {**graph(), dotted(path): set(imported(tree, modules())) - {dotted(path)}}


@pytest.mark.parametrize(
    "line",
    [
        "import mcpproxy.record.relay.journal",
        "from mcpproxy.record.relay import journal",
        "def late() -> None:\n    from mcpproxy.record.relay import journal",
        "import_module('mcpproxy.record.relay.journal')",
        "importlib.import_module(name='mcpproxy.record.relay.journal')",
        "__import__('mcpproxy.record.relay.journal')",
    ],
)
def test_a_judge_that_imports_the_data_path_is_seen(line: str) -> None:
    imports = imports_with("judge/session/frame.py", line)
    assert ("session", "relay") in exceptions_in(imports)
    assert "mcpproxy.judge.session.frame imports mcpproxy.record.relay.journal" in forbidden(imports)


def test_two_packages_of_a_layer_that_import_each_other_are_seen() -> None:
    imports = imports_with("peers/replay/recording.py", "from mcpproxy.peers.fuzz import errors")
    assert {"replay", "fuzz"} <= set(circle(within("peers", imports)))


# Folders and the picture


def test_a_folder_holds_no_more_modules_than_one_can_look_over() -> None:
    sizes: dict[Path, int] = defaultdict(int)
    for path in modules().values():
        sizes[path.parent] += 1
    assert {str(folder): size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_the_drawing_fits_a_terminal() -> None:
    lines = drawing().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("┌") for line in lines) == 6


def test_the_picture_of_the_layers_is_the_one_that_the_imports_draw() -> None:
    assert drawing() in ARCHITECTURE.read_text(encoding="utf-8"), "python -m tests.ladder"
