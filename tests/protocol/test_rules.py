"""Rule tables: what they say per revision, and what is wrong with a table that cannot be used."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

import pytest

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.protocol.revisions import REVISIONS, since
from mcpproxy.protocol.rules import SEVERITY, Catalogue, Requirement, Rule, RuleError

TABLE: Final[dict[str, Any]] = {
    "name": "message-before-initialize",
    "summary": "A peer spoke too early.",
    "why": "Nobody listens yet.",
    "example": 'client: {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n',
    "instead": "Wait.",
    "requirements": {
        "R-1": {
            "text": "The handshake comes first.",
            "blame": "client",
            "keyword": "MUST",
            "source": "basic/lifecycle#initialization",
        }
    },
}


def rule(**requirement: object) -> Rule:
    """The rule above with members of its requirement replaced; ``None`` removes one."""
    table = deepcopy(TABLE)
    row = {**table["requirements"]["R-1"], **requirement}
    table["requirements"]["R-1"] = {name: value for name, value in row.items() if value is not None}
    return Catalogue.from_tables({"X-001": table}).rules["X-001"]


def requirement(**members: object) -> Requirement:
    (found,) = rule(**members).requirements
    return found


def test_a_rule_is_what_its_table_says() -> None:
    found = Catalogue.from_tables({"X-001": TABLE})
    assert list(found.rules) == ["X-001"]
    assert found.rules["X-001"].name == "message-before-initialize"
    assert found.rules["X-001"].example == TABLE["example"].strip()
    assert list(found.requirements) == ["X-001/R-1"]
    (only,) = found.rules["X-001"].requirements
    assert (only.id, only.rule, only.text) == ("R-1", "X-001", "The handshake comes first.")
    assert (only.blame, only.unobservable) == ("client", "")


KEYWORDS: Final[list[tuple[dict[str, object], dict[str, str]]]] = [
    ({"keyword": "MUST"}, dict.fromkeys(REVISIONS, "MUST")),
    ({"keyword": "MUST", "since": "2025-06-18"}, dict.fromkeys(since("2025-06-18"), "MUST")),
    ({"keyword": "MUST", "until": "2025-03-26"}, {"2024-11-05": "MUST"}),
    ({"keyword": "MUST", "since": "2025-03-26", "until": "2025-06-18"}, {"2025-03-26": "MUST"}),
    (
        {"keyword": {"2025-06-18": "MUST", "2024-11-05": "SHOULD"}},
        {"2024-11-05": "SHOULD", "2025-03-26": "SHOULD", **dict.fromkeys(since("2025-06-18"), "MUST")},
    ),
    (
        {"keyword": {"2025-03-26": "derived"}, "until": "2025-11-25"},
        {"2025-03-26": "derived", "2025-06-18": "derived"},
    ),
]


@pytest.mark.parametrize(("row", "keywords"), KEYWORDS)
def test_a_keyword_holds_from_one_revision_to_another(
    row: dict[str, object], keywords: dict[str, str]
) -> None:
    assert requirement(**row).keywords == keywords


def test_a_source_is_a_page_of_that_revision() -> None:
    found = requirement(source={"2024-11-05": "basic/messages#requests", "2025-03-26": "basic#requests"})
    assert found.sources["2024-11-05"] == (
        "https://modelcontextprotocol.io/specification/2024-11-05/basic/messages#requests"
    )
    assert found.sources["2025-11-25"] == (
        "https://modelcontextprotocol.io/specification/2025-11-25/basic#requests"
    )


def test_a_source_may_be_a_full_url() -> None:
    assert set(requirement(source="https://www.rfc-editor.org/rfc/rfc8259#section-4").sources.values()) == {
        "https://www.rfc-editor.org/rfc/rfc8259#section-4"
    }
    found = requirement(source="https://example.com/{revision}/schema.ts")
    assert found.sources["2025-06-18"] == "https://example.com/2025-06-18/schema.ts"


MIXED: Final[dict[str, str]] = {
    "2024-11-05": "SHOULD",
    "2025-06-18": "MUST",
    "2025-11-25": "MAY",
}

SEVERITIES: Final[list[tuple[tuple[str, ...], str | None]]] = [
    (("2024-11-05",), "warning"),
    (("2025-06-18",), "error"),
    (("2025-03-26", "2025-06-18"), "warning"),
    (("2025-11-25",), None),  # allowed
    (("2025-06-18", "2025-11-25"), None),  # allowed in one of them
    (("2026-07-28",), None),  # over
    (("2025-06-18", "2026-07-28"), None),
    ((), None),
]


@pytest.mark.parametrize(("candidates", "severity"), SEVERITIES)
def test_among_several_revisions_the_mildest_counts(
    candidates: tuple[str, ...], severity: str | None
) -> None:
    assert requirement(keyword=MIXED, until="2026-07-28").severity(candidates) == severity


@pytest.mark.parametrize(("keyword", "level"), SEVERITY.items())
def test_each_keyword_has_its_level(keyword: str, level: str | None) -> None:
    assert requirement(keyword=keyword).severity(["2025-11-25"]) == level


def test_the_newest_candidate_is_cited() -> None:
    found = requirement(until="2026-07-28")
    assert "/2025-11-25/" in found.source(REVISIONS)
    assert "/2025-03-26/" in found.source(("2025-03-26", "2024-11-05"))


def test_the_revision_that_was_asked_for_is_cited_before_newer_ones() -> None:
    found = requirement(until="2026-07-28")
    assert "/2025-03-26/" in found.source(REVISIONS, "2025-03-26")
    assert "/2025-11-25/" in found.source(REVISIONS, "2026-07-28")  # it does not hold there
    assert "/2025-06-18/" in found.source(("2025-06-18", "2024-11-05"), "2025-03-26")
    assert "/2025-11-25/" in found.source(REVISIONS, "2023-01-01")


LATER: Final = {"R-042", "R-274", "R-277"}
"""What only a page of 2026-07-28 says, of the earlier revisions, too."""


def test_each_row_cites_the_page_of_each_revision_that_may_be_spoken() -> None:
    for row in catalogue.load().requirements.values():
        for revision in row.pages:
            cited = row.source(row.pages, revision)
            assert cited == row.sources[revision], row.id
            if cited.startswith("https://modelcontextprotocol.io/specification/") and row.id not in LATER:
                assert f"/specification/{revision}/" in cited, row.id


def test_a_rule_is_as_strong_as_its_requirements() -> None:
    table = deepcopy(TABLE)
    for number, keyword in enumerate(("info", "MAY", "SHOULD", "schema", "MUST", "SHOULD"), 2):
        row = {**table["requirements"]["R-1"], "keyword": keyword, "until": "2025-06-18"}
        table["requirements"][f"R-{number}"] = row
    found = Catalogue.from_tables({"X-001": table}).rules["X-001"]
    assert found.keywords("2025-11-25") == ("MUST",)
    strengths = [SEVERITY[keyword] for keyword in found.keywords("2024-11-05")]
    assert strengths[:3] == ["error", "error", "warning"]
    assert set(strengths[3:]) == {"info", None}


BROKEN: Final[list[tuple[Mapping[str, object], str]]] = [
    ({"keyword": None}, "X-001 R-1: keyword: a table is needed"),
    ({"keyword": "must"}, "X-001 R-1: keyword is one of MUST, "),
    ({"keyword": "MUST", "since": "2025"}, "'2025' is not a published revision"),
    ({"keyword": {"2024-11-05": "MUST"}, "since": "2025-03-26"}, "since goes with a single keyword"),
    ({"keyword": {"2025": "MUST"}}, "'2025' is not a published revision"),
    ({"keyword": {"2025-06-18": 1}}, "its value is not a string"),
    ({"until": "2025"}, "X-001 R-1: until is not a published revision"),
    ({"source": None}, "X-001 R-1: source: a table is needed"),
    ({"source": {"2025-06-18": "basic"}}, "X-001 R-1: no source for 2024-11-05"),
    ({"blame": "both"}, "X-001 R-1: blame is client, server or either, not 'both'"),
    ({"blame": None}, "X-001 R-1: blame is missing or empty"),
    ({"text": " "}, "X-001 R-1: text is missing or empty"),
    ({"level": "error"}, "X-001 R-1: unknown member 'level'"),
]


@pytest.mark.parametrize(("row", "fault"), BROKEN, ids=[fault for _, fault in BROKEN])
def test_a_broken_requirement_says_where(row: Mapping[str, object], fault: str) -> None:
    with pytest.raises(RuleError) as raised:
        rule(**row)
    assert fault in str(raised.value)


BROKEN_RULES: Final[list[tuple[object, str]]] = [
    ("text", "X-001: a table is needed"),
    ({**TABLE, "why": ""}, "X-001: why is missing or empty"),
    ({**TABLE, "why": ["because"]}, "X-001: why is missing or empty"),
    ({**TABLE, "severity": "error"}, "X-001: unknown member 'severity'"),
    ({**TABLE, "requirements": {}}, "X-001: no requirements"),
    ({**TABLE, "requirements": None}, "X-001: a table is needed"),
    ({**TABLE, "requirements": {"R-1": "MUST"}}, "R-1: a table is needed"),
]


@pytest.mark.parametrize(("table", "fault"), BROKEN_RULES, ids=[fault for _, fault in BROKEN_RULES])
def test_a_broken_rule_says_where(table: object, fault: str) -> None:
    with pytest.raises(RuleError) as raised:
        Catalogue.from_tables({"X-001": table})
    assert str(raised.value) == fault


def test_an_unobservable_requirement_has_the_reason() -> None:
    assert requirement(unobservable="It happens inside the client.").unobservable.startswith("It happens")
