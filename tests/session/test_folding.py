"""Findings that say the same are said once, with a count."""

from mcpproxy.judge.session.folding import LEAST, Folded, fold
from mcpproxy.judge.session.frame import Finding, Severity


def finding(message: str, frame: int = 4, severity: Severity = "info", requirement: str = "R-132") -> Finding:
    return Finding("SCHEMA-003", severity, "server", message, frame, requirement=requirement)


def tools(count: int) -> list[Finding]:
    return [finding(f'server listed tool "t{number}", which takes any object') for number in range(count)]


def texts(folded: list[Folded]) -> list[tuple[str, str]]:
    return [(each.first.message, each.count_text) for each in folded]


def test_the_same_remark_for_many_tools_of_one_list() -> None:
    [(first, more)] = texts(fold(tools(25)))
    assert first == 'server listed tool "t0", which takes any object'
    assert more == '24 more like it in this frame: "t1", "t2", "t3", "t4", "t5", …'


def test_the_same_fault_in_many_frames() -> None:
    pages = [finding(f'server sent a page with the nextCursor "{n}"', frame=2 * n) for n in range(1, 5)]
    assert texts(fold(pages)) == [(pages[0].message, "3 more like it, in frames 4, 6, 8")]


def test_few_are_all_shown() -> None:
    few = tools(LEAST - 1)
    assert [each.first for each in fold(few)] == few
    assert not any(each.others for each in fold(few))


def test_what_says_something_else_is_not_folded() -> None:
    found = [
        *tools(3),
        finding('server listed tool "x" without an inputSchema'),
        finding('server listed tool "y", which takes any object', severity="warning"),
        finding('server listed tool "z", which takes any object', requirement="R-133"),
    ]
    assert [each.first for each in fold(found)] == [found[0], *found[3:]]


def test_the_order_is_that_of_the_first_ones() -> None:
    one, two = tools(3), [finding(f"client polled again after {n} ms", frame=n) for n in (7, 8, 9)]
    mixed = [finding for pair in zip(one, two, strict=True) for finding in pair]
    assert [each.first for each in fold(mixed)] == [one[0], two[0]]


def test_findings_about_the_session_are_not_folded() -> None:
    session = [finding("client left its session", frame=0)] * 4
    assert [each.first for each in fold(session)] == session


def test_names_with_quotes_are_names() -> None:
    found = [finding(f'server listed tool "a\\"{n}", which takes any object') for n in "bcd"]
    assert len(fold(found)) == 1
