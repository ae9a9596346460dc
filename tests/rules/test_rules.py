"""Every rule is reported at the frame that breaks it, and is not reported in a similar lawful session."""

from collections.abc import Iterable
from typing import Final

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding
from mcpproxy.protocol.revisions import ACP, STATEFUL
from tests.every import every
from tests.rules import runner
from tests.rules.runner import Fixture, decided_rules, judged

CATALOGUE: Final = catalogue.load()
FIXTURES: Final = runner.fixtures()
BAD: Final = [fixture for fixture in FIXTURES if fixture.bad]
GOOD: Final = [fixture for fixture in FIXTURES if not fixture.bad]
RULES: Final = sorted(CATALOGUE.rules)

RANK: Final = {"info": 0, "warning": 1, "error": 2}

NEAR: Final = 3
"""In how many events a lawful session may differ from the unlawful one."""


def of(rule: str, fixtures: Iterable[Fixture]) -> list[Fixture]:
    return [fixture for fixture in fixtures if fixture.rule == rule]


def trials(fixtures: list[Fixture]) -> list[tuple[Fixture, str]]:
    return [(fixture, revision) for fixture in fixtures for revision in fixture.revisions]


def unobservable(rule: str) -> bool:
    return all(requirement.unobservable for requirement in CATALOGUE.rules[rule].requirements)


@every("rule", RULES)
def test_a_bad_session_breaks_the_rule_where_it_says(rule: str) -> None:
    for fixture, revision in trials(of(rule, BAD)):
        verdict = judged(fixture, revision)
        assert not verdict.surprise, "\n" + verdict.surprise
        assert rule in {finding.rule for finding in verdict.findings}, f"{fixture} in {revision}"
        assert_severity_follows_from_requirement_and_revision(fixture, verdict.findings)


@every("rule", RULES)
def test_a_good_session_breaks_nothing(rule: str) -> None:
    for fixture, revision in trials(of(rule, GOOD)):
        verdict = judged(fixture, revision)
        assert not verdict.surprise, "\n" + verdict.surprise
        assert verdict.findings == [], f"{fixture} in {revision}"


def assert_severity_follows_from_requirement_and_revision(fixture: Fixture, found: list[Finding]) -> None:
    capped = {line["requirement"] for line in fixture.lines if "severity" in line and "requirement" in line}
    for finding in found:
        requirement = CATALOGUE.requirements[f"{finding.rule}/{finding.requirement}"]
        if finding.revision is None:
            # Judged by several revisions: at most as bad as in the worst of them.
            levels = {requirement.severity([r]) for r in runner.holds(finding.rule)}
            assert RANK[finding.severity] <= max(RANK[level] for level in levels if level)
            continue
        severity = requirement.severity([finding.revision])
        assert severity is not None, f"{requirement.id} does not hold in {finding.revision}"
        assert finding.source == requirement.sources[finding.revision]
        if finding.requirement in capped:
            assert RANK[finding.severity] <= RANK[severity]
        else:
            assert finding.severity == severity, runner.described(finding)


def begins_with_a_revision(fixture: Fixture, revision: str) -> bool:
    """Whether the client says at the start which revision it speaks, over a transport of that revision."""
    first = fixture.lines[0]
    told = str(first.get("message") or first.get("post"))
    if "post" in first and revision == "2024-11-05":
        return False
    return bool(first.keys() & {"handshake", "acp-handshake"}) or (
        "'method': 'initialize'" in told and "$REVISION" in told
    )


@every("rule", RULES)
def test_a_finding_cites_the_revision_that_is_spoken(rule: str) -> None:
    for fixture, revision in trials(of(rule, BAD)):
        if begins_with_a_revision(fixture, revision):
            for finding in judged(fixture, revision).findings:
                sources = CATALOGUE.requirements[f"{finding.rule}/{finding.requirement}"].sources
                assert finding.source == sources.get(revision, finding.source), f"{fixture} in {revision}"


@every("rule", RULES)
def test_neither_order_nor_number_of_checks_matters(rule: str) -> None:
    """A check changes no state, and what narrows it only saves time."""
    for fixture, revision in trials(of(rule, FIXTURES)):
        # Two rows of one check may cover two eras; without them both look.
        turned = set(map(repr, runner.judge(fixture, revision, in_order=False).findings))
        expected = sorted(map(repr, judged(fixture, revision).findings))
        assert sorted(turned) == expected, f"{fixture} in {revision}"


@every("rule", RULES)
def test_a_rule_has_its_sessions(rule: str) -> None:
    names = {fixture.path.stem.partition("-")[0] for fixture in of(rule, FIXTURES)}
    if unobservable(rule):
        assert names == set()
        return
    assert names == ({"good"} if runner.permission(rule) else {"bad", "good"})
    for fixtures in (GOOD,) if runner.permission(rule) else (BAD, GOOD):
        covered = {revision for fixture in of(rule, fixtures) for revision in fixture.revisions}
        assert covered >= set(runner.holds(rule)), "there is no session for some of its revisions"


def test_every_folder_belongs_to_a_rule() -> None:
    folders = {path.name for path in runner.FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= set(RULES)


def test_a_fixture_is_tried_where_its_rule_holds() -> None:
    for fixture in FIXTURES:
        assert fixture.revisions, f"{fixture}: no revision in which the rule holds"
        narrowed = set(fixture.named) <= set(runner.holds(fixture.rule))
        assert fixture.named == () or fixture.bad <= narrowed, str(fixture)
        expected = [code for line in fixture.lines for code in line.get("expect", [])]
        assert (fixture.rule in expected) == fixture.bad, str(fixture)


@every("rule", RULES)
def test_every_requirement_is_broken_in_every_revision_in_which_it_holds(rule: str) -> None:
    broken = {
        (finding.requirement, revision)
        for fixture, revision in trials(of(rule, BAD))
        for finding in judged(fixture, revision).findings
        if finding.rule == rule
    }
    for requirement in CATALOGUE.rules[rule].requirements:
        if not requirement.unobservable:
            held = {revision for revision in requirement.keywords if runner.breakable(requirement, revision)}
            missing = {revision for revision in held if (requirement.id, revision) not in broken}
            assert missing == set(), requirement.id


def test_a_finding_blames_whom_its_requirement_binds() -> None:
    found = (finding for trial in trials(BAD) for finding in judged(*trial).findings)
    for finding in found:
        requirement = CATALOGUE.requirements[f"{finding.rule}/{finding.requirement}"]
        assert requirement.blame in (finding.blame, "either"), runner.described(finding)


@every("rule", RULES)
def test_a_lawful_session_is_near(rule: str) -> None:
    for bad in of(rule, BAD):
        candidates = [
            good for good in of(rule, GOOD) if (good.stateless, good.acp) == (bad.stateless, bad.acp)
        ]
        nearest = min(candidates, key=lambda good: runner.distance(bad, good))
        assert runner.distance(bad, nearest) <= NEAR, f"{bad}: nearest is {nearest}"
        assert runner.methods(bad) & runner.methods(nearest), str(bad)
        assert bad.lines != nearest.lines, str(bad)


@every("rule", RULES)
def test_a_rule_is_silent_in_revisions_that_do_not_have_it(rule: str) -> None:
    for fixture in (fixture for fixture in of(rule, BAD) if not fixture.stateless):
        for revision in ACP if fixture.acp else STATEFUL:
            for finding in judged(fixture, revision).findings:
                requirement = CATALOGUE.requirements[f"{finding.rule}/{finding.requirement}"]
                if finding.revision is not None:
                    assert runner.breakable(requirement, finding.revision), runner.described(finding)
                if revision not in runner.holds(finding.rule):
                    assert finding.revision != revision, runner.described(finding)


def test_every_rule_is_decided_somewhere() -> None:
    assert decided_rules() == {r for r in RULES if not unobservable(r) and not runner.permission(r)}
