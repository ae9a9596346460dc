"""The level of a finding is that of its sentence's keyword, or the table says when and why it is lower."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.cli.commands import explain
from mcpproxy.judge import checks
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.protocol.revisions import ACP, REVISIONS, VERSIONS
from mcpproxy.protocol.rules import SEVERITY, Level, Requirement, RuleError
from tests.every import every
from tests.rules import runner
from tests.rules.runner import Fixture

CATALOGUE: Final = catalogue.load()
RULES: Final = sorted(CATALOGUE.rules)
MODULES: Final = sorted(Path(checks.__file__).parent.rglob("*.py"))
RANK: Final = {"info": 0, "warning": 1, "error": 2}


def levels_of(requirement: Requirement, versions: tuple[str, ...] = VERSIONS) -> set[Level]:
    """Return the levels of the keywords that a requirement has in ``versions``."""
    keywords = requirement.keywords.items()
    levels: set[Level | None] = {SEVERITY[keyword] for version, keyword in keywords if version in versions}
    return {level for level in levels if level is not None}


def lowered(fixture: Fixture) -> Iterator[tuple[str, str]]:
    """Yield the requirement and the level of each finding whose level is below that of the keyword."""
    for revision in fixture.revisions:
        for finding in runner.judged(fixture, revision).findings:
            key = f"{finding.rule}/{finding.requirement}"
            requirement = CATALOGUE.requirements[key]
            if finding.revision is None:
                is_lower = finding.severity not in levels_of(requirement, ACP if fixture.acp else REVISIONS)
            else:
                is_lower = finding.severity != requirement.severity([finding.revision])
            if is_lower:
                yield key, finding.severity


@every("rule", RULES)
def test_a_lower_level_has_its_reason_in_the_table(rule: str) -> None:
    fixtures = [fixture for fixture in runner.fixtures() if fixture.rule == rule and fixture.bad]
    for key, level in {pair for fixture in fixtures for pair in lowered(fixture)}:
        assert level in CATALOGUE.requirements[key].softer, f"{key} is found as {level}"


def test_each_reason_is_that_of_a_session() -> None:
    """A reason that no session shows may be one of the past. Some findings take more than one session."""
    shown = {pair for fixture in runner.fixtures() if fixture.bad for pair in lowered(fixture)}
    rows = ((key, row) for key, row in CATALOGUE.requirements.items() if not row.unobservable)
    written = {(key, level) for key, row in rows for level in row.softer}
    assert sorted(written - shown) == []


def test_a_reason_lowers_the_level() -> None:
    for key, requirement in CATALOGUE.requirements.items():
        for level, why in requirement.softer.items():
            assert RANK[level] < max(RANK[each] for each in levels_of(requirement)), key
            assert why[0].islower(), key
            assert not why.endswith("."), key


def test_explain_says_it() -> None:
    for code, rule in CATALOGUE.rules.items():
        text = " ".join(" ".join(explain.lines(rule)).split())
        for requirement in rule.requirements:
            for why in requirement.softer.values():
                assert why.removeprefix("always") in text, code


def test_a_lower_level_names_its_exception() -> None:
    text = " ".join(" ".join(explain.lines(CATALOGUE.rules["CANC-005"])).split())
    assert "until 2025-11-25, except for an error that answers the cancellation" in text


def caps(module: Path) -> Iterator[tuple[str, str]]:
    """Yield rule and requirement of each violation that a module may report at a lower level."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Violation":
            cap = next((word.value for word in node.keywords if word.arg == "at_most"), None)
            names = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            if cap is not None and len(names) == 2:
                yield str(names[0]), str(names[1])


def test_what_a_check_may_lower_is_in_the_table() -> None:
    lowering = {pair for module in MODULES for pair in caps(module)}
    assert lowering
    for rule, requirement in lowering:
        row = CATALOGUE.requirements[f"{rule}/{requirement}"]
        assert row.softer or levels_of(row) <= {"warning", "info"}, f"{rule} {requirement}"


def test_a_reason_for_a_level_that_is_not_lower_is_refused(tmp_path: Path) -> None:
    (tmp_path / "house.toml").write_text(
        '[HOUSE-001]\nname = "n"\nsummary = "s"\nwhy = "w"\nexample = "e"\ninstead = "i"\n'
        '[HOUSE-001.requirements.H-001]\ntext = "t"\nblame = "server"\nkeyword = "MUST"\n'
        'source = "https://example.com/"\nsofter.error = "for nothing"\n',
        encoding="utf-8",
    )
    with pytest.raises(RuleError, match=r"softer is info or warning, not 'error'"):
        catalogue.read(str(tmp_path)).rules["HOUSE-001"]
