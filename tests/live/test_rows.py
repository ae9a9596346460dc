"""Each row of the table, live: what breaks the requirement is found, and what just does not is not."""

from tests.every import every
from tests.live.played import PLAYED, Session, findings
from tests.live.rows import ROWS
from tests.live.table import CATALOGUE, SECTION, requirement_of


@every("session", PLAYED, ids=lambda session: session.title)
def test_what_is_found(session: Session) -> None:
    row, found = session.row, findings(session)
    requirement = requirement_of(row.requirement)
    violation = [requirement.id] if session.side == "breaks" else []
    said = [f"{finding['requirement']}: {finding['message']}" for finding in found]
    assert sorted(finding["requirement"] for finding in found) == sorted([*violation, *row.given]), said
    for finding in found:
        if finding["requirement"] == requirement.id:
            assert finding["rule"] == requirement.rule
            assert finding["blame"] == requirement.blame
            assert finding["severity"] == (row.severity or requirement.severity([session.revision]))


@every("id", SECTION)
def test_a_requirement_is_in_the_table_in_each_of_its_revisions(id: str) -> None:
    requirement = requirement_of(id)
    played = {session.revision for session in PLAYED if session.row.requirement == id}
    assert played == (set() if requirement.unobservable else set(requirement.keywords))


def test_the_table_covers_its_section() -> None:
    assert set(SECTION) >= {f"R-{number:03}" for number in range(62, 99)}
    assert {row.requirement for row in ROWS} <= set(SECTION)
    assert len(SECTION) == len(set(SECTION)), "one requirement, one rule"
    assert {r.id for r in CATALOGUE.rules["PROTO-010"].requirements} <= set(SECTION)


def test_sessions_are_told_apart() -> None:
    assert len({session.title for session in PLAYED}) == len(PLAYED)
    assert all(row.breaks != row.lawful for row in ROWS)
