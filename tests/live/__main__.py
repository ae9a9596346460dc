"""``python -m tests.live``: the table of rows, with what is found in their sessions, as Markdown."""

import sys
from collections.abc import Iterator

from mcpproxy.protocol.revisions import REVISIONS
from tests.live.played import PLAYED, Side, findings
from tests.live.rows import ROWS
from tests.live.table import SECTION, Row, requirement_of


def lines() -> Iterator[str]:
    """The table, requirement by requirement."""
    yield "| Row | Rule | Blame | Revisions | The session that breaks it | Found in it | In the lawful one |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for id in SECTION:
        requirement = requirement_of(id)
        known = f"| {id} | {requirement.rule} | {requirement.blame} |"
        for row in ROWS:
            if row.requirement == id:
                violation, lawful = found(row, "breaks"), found(row, "lawful")
                yield f"{known} {span(row.revisions)} | {row.about} | {violation} | {lawful} |"
        if why := requirement.unobservable:
            yield f"{known} {span(tuple(requirement.keywords))} | unobservable: {why} | | |"


def found(row: Row, side: Side) -> str:
    """What is found in one side of a row; revision by revision, where they differ."""
    told: dict[str, list[str]] = {}
    for session in PLAYED:
        if session.row is row and session.side == side:
            texts = [
                f"{f['severity']} {f['rule']} {f['requirement']} {f['blame']}" for f in findings(session)
            ]
            told.setdefault(", ".join(texts) or "nothing", []).append(session.revision)
    if len(told) == 1:
        return next(iter(told))
    return "; ".join(f"{span(tuple(revisions))}: {text}" for text, revisions in told.items())


def span(revisions: tuple[str, ...]) -> str:
    """Revisions that follow one another, as people write them."""
    first, last = revisions[0], revisions[-1]
    assert revisions == REVISIONS[REVISIONS.index(first) : REVISIONS.index(last) + 1]
    return first if first == last else f"{first} to {last}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
