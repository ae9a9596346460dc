"""The map of requirements has no holes, and says of each row what becomes of it."""

from dataclasses import replace

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.reports import coverage

BUILT_IN = coverage.rows(catalogue.load())


def test_every_row_of_the_map_is_accounted_for() -> None:
    numbered = [row for row in BUILT_IN if row.id.startswith("R-")]
    assert len(numbered) == 333
    assert coverage.unaccounted(BUILT_IN) == ()


def test_what_cannot_be_seen_says_why() -> None:
    assert all(bool(row.why) == (row.state == "unobservable") for row in BUILT_IN)


def test_a_hole_in_the_numbers_is_named() -> None:
    holed = [row for row in BUILT_IN if row.id != "R-040"]
    assert coverage.unaccounted(holed) == ("R-040",)


def test_a_row_under_two_rules_is_decided_if_one_of_them_decides_it() -> None:
    known = catalogue.load()
    seen = next(r for r in known.requirements.values() if r.id == "R-008")
    unseen = next(r for r in known.requirements.values() if r.unobservable)
    both = replace(unseen, id="R-008")
    [row] = coverage.rows(Catalogue({}, {"one": seen, "two": both}))
    assert (row.state, row.why) == ("decided", "")


def test_the_last_lines_count() -> None:
    *_, of_mcp, _, _, _, missing = coverage.lines(BUILT_IN)
    decided = sum(row.state == "decided" for row in BUILT_IN if row.id.startswith("R-"))
    assert of_mcp.startswith(f"333 requirements of MCP: {decided} decided, ")
    assert missing == "unaccounted for: none"


def test_every_series_has_its_line() -> None:
    assert {row.id.partition("-")[0] for row in BUILT_IN} == coverage.SERIES.keys()
