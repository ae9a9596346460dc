"""What probes rest on is there: every rule and every requirement that they name is in the catalogue."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.peers.validate import probes
from mcpproxy.peers.validate.outcome import CATEGORIES
from mcpproxy.peers.validate.probe import Probe
from mcpproxy.protocol.revisions import REVISIONS
from tests.validate.trial import rules

MODULES: Final = sorted(Path(probes.__file__).parent.glob("*.py"))
NAMED: Final = re.compile(r'"([A-Z]+-\d{3}/[A-Z]-\d{3})"')


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_each_requirement_is_in_the_catalogue(module: Path) -> None:
    named = set(NAMED.findall(module.read_text(encoding="utf-8")))
    assert sorted(named - set(rules().catalogue.requirements)) == []


@pytest.mark.parametrize("probe", probes.PROBES, ids=lambda probe: probe.name)
def test_each_probe_is_a_sound_row(probe: Probe) -> None:
    assert [code for code in probe.rules if code not in rules().catalogue.rules] == []
    assert probe.revisions
    assert set(probe.revisions) <= set(REVISIONS)
    assert probe.transports
    assert probe.category in CATEGORIES
    assert probe.what.endswith(".")


def test_names_are_unique_and_never_those_of_categories() -> None:
    names = [probe.name for probe in probes.PROBES]
    # They stand side by side in --only and --skip.
    assert len({*names, *CATEGORIES}) == len(names) + len(CATEGORIES)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_each_warning_names_its_sentence(module: Path) -> None:
    """A warning has a source, a rule or a requirement; what has none is an info."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Conclusion":
            status = node.args[0]
            if isinstance(status, ast.Constant) and status.value == "warning":
                assert len(node.args) > 4 or any(word.arg == "source" for word in node.keywords), node.lineno
