"""Imports point one way, folders stay small, and a name means one thing."""

from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from tests.ladder import LADDER, PACKAGE, circle, drawing, graph, modules, rung_of, rungs

MOST_MODULES: Final = 22
CONTRIBUTING: Final = PACKAGE.parent / ".github" / "CONTRIBUTING.md"


def test_every_part_of_the_package_has_a_rung() -> None:
    parts = {rung_of(module) for module in modules()} - {"", "__main__"}
    assert parts == {name for name, _ in LADDER}


@pytest.mark.parametrize("rung", [name for name, _ in LADDER])
def test_a_rung_imports_from_lower_ones_only(rung: str) -> None:
    order = [name for name, _ in LADDER]
    lower = set(order[: order.index(rung)])
    allowed = lower | {""}  # the version stands in mcpproxy/__init__.py, which imports nothing at its start
    assert rungs(graph()).get(rung, set()) <= allowed


def test_no_module_imports_itself_by_way_of_others() -> None:
    # The package itself gives its public names on demand, so it stands outside.
    imports = {name: used - {"mcpproxy"} for name, used in graph().items() if name != "mcpproxy"}
    assert circle(imports) == []


def test_a_folder_holds_no_more_modules_than_one_can_look_over() -> None:
    sizes: dict[Path, int] = defaultdict(int)
    for path in modules().values():
        sizes[path.parent] += 1
    assert {str(folder): size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_the_picture_of_the_ladder_is_the_one_that_the_imports_draw() -> None:
    assert drawing() in CONTRIBUTING.read_text(encoding="utf-8")
