"""The filter language: which rows pass, and what is said of a filter that cannot be read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.judge.session.filter import FilterError, Range, Term, parse_filter
from mcpproxy.read.view.view import View, open_view
from tests.view.situations import C, S, begun, forecast, text, write


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    """Rows 1 to 3 are the handshake and ``tools/list``."""
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)  # 4
    session.answers(2, text("Oslo: sunny"), ms=112)
    session.asks("2", "tools/call", {"name": "archive", "arguments": {"day": "a day"}}, ms=200)  # 5
    answer = session.answers("2", text("no such day", isError=True), ms=3200)
    session.finds("PROTO-001", answer, "something is wrong")
    session.asks(3, "resources/read", {"uri": "file:///etc/motd"}, ms=3300)  # 6
    session.fails(3, -32602, "no such file", ms=3301)
    session.asks(4, "prompts/get", {"name": "greet"}, ms=3400)  # 7
    session.asks(1, "roots/list", ms=3500, by=S)  # 8
    session.answers(1, {"roots": [{"uri": "file:///srv/größe"}]}, ms=3600, by=C)
    session.says(S, "not JSON, größer", 3700)  # 9
    with open_view(write(tmp_path / "session.jsonl", session.closes(ms=10_000))) as view:
        yield view


ROWS = {
    "": [1, 2, 3, 4, 5, 6, 7, 8, 9],
    "tool:forecast": [4],
    "TOOL:FORE*": [4],
    "tool:forecast,archive": [4, 5],
    "tool:*": [4, 5],
    "-tool:*": [1, 2, 3, 6, 7, 8, 9],
    "prompt:greet": [7],
    "resource:file:///etc/*": [6],
    "target:*": [4, 5, 6, 7],
    "method:tools/*": [3, 4, 5],
    "method:notifications/initialized": [2],
    "status:error": [5, 6],
    "status:tool-error": [5],
    "status:rpc-error,no-answer": [6, 7],
    "status:unanswered": [7],
    "status:pending": [7],
    "status:open": [7],
    "status:waiting": [7],
    "status:no-answer": [7],
    "status:failed": [5, 6],
    "code:-32602": [6],
    "latency:>2s": [5, 7],
    "latency:>2s -status:pending": [5],
    "latency:1ms..12ms": [3, 4, 6],
    "latency:<=1ms": [6],
    "latency:>6s": [7],
    "bytes:>300": [1, 3],
    "rule:PROTO-*": [5],
    "severity:error": [5],
    "severity:warning": [],
    "from:server": [8, 9],
    "kind:request from:server": [8],
    "kind:not-a-message": [9],
    "call:2..3": [2, 3],
    "call:8..": [8, 9],
    "frame:7": [4],
    "id:2": [4],
    r'id:"\"2\""': [5],
    'session:""': [1, 2, 3, 4, 5, 6, 7, 8, 9],
    "session:abc": [],
    "sunny": [4],
    '"oslo: SUNNY"': [4],
    '-"jsonrpc"': [9],
    '"größ"': [8, 9],
    "größer": [9],
    '"type"': [3, 4, 5],
    '"from"': [],
    "tool:* no such": [5],
    "sunny or rainy": [],
    'from:server "or"': [],
}


@pytest.mark.parametrize(("filter", "rows"), ROWS.items(), ids=ROWS)
def test_a_filter_lets_these_rows_pass(view: View, filter: str, rows: list[int]) -> None:
    assert list(view.numbers(filter)) == rows
    assert view.count(filter) == len(rows)
    assert [call.number for call in view.calls(filter, start=1, limit=2)] == rows[1:3]
    assert [view.position(row, filter) for row in rows] == list(range(len(rows)))


WRONG = {
    "tol:search": "filter, column 1: there is no tol:; do you mean tool:?",
    "from:server status:eror": "filter, column 20: 'eror' is no status; do you mean error?",
    "status:-32602": "filter, column 8: -32602 is a code; write code:-32602",
    "latency:>2x": "filter, column 9: cannot read '2x'; write it as in latency:>2s or latency:100ms..2s",
    "latency:2": "filter, column 9: cannot read '2'; write it as in latency:>2s or latency:100ms..2s",
    "tool:": "filter, column 6: nothing after tool:; write a value, for example tool:search*",
    "ping -": "filter, column 6: a - alone; write what to leave out after it: -from:server",
    "shell:bash": "filter, column 1: there is no shell:; there are tool, prompt, resource, target, method, "
    "status, code, latency, bytes, rule, severity, from, session, kind, call, frame, id, text",
    "status:error or status:unanswered": "filter, column 14: or stands between terms; all terms must hold; "
    'commas separate what one may be (status:error,unanswered), a - excludes (-method:ping), and "or" '
    "searches for the word",
    "timeout AND from:server": "filter, column 9: AND stands between terms; all terms must hold; commas "
    'separate what one may be (status:error,unanswered), a - excludes (-method:ping), and "AND" searches for '
    "the word",
    'ping "open': 'filter, column 6: a quotation mark without its end; write "text"',
}


@pytest.mark.parametrize(("filter", "says"), WRONG.items(), ids=WRONG)
def test_a_filter_that_cannot_be_read_says_where_and_what_to_write(filter: str, says: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(filter)
    assert str(caught.value) == says


def test_a_filter_is_its_terms() -> None:
    read = parse_filter('tool:a,"b c" -latency:<2s "x y"')
    assert read.terms == (
        Term("tool", ("a", "b c")),
        Term("latency", (Range(float("-inf"), 2e9 - 1),), negated=True),
        Term("text", ("x y",)),
    )
    assert read == parse_filter('tool:a,"b c"   -latency:<2s "x y"')
    assert not parse_filter("  ")


def test_a_search_says_how_far_it_is_and_can_be_left(view: View) -> None:
    search = view.find('"sunny"')
    first = next(iter(search))
    assert 0 < first.done_bytes <= first.total_bytes
    left = view.find('"oslo" from:client')
    next(iter(left))
    del left
    assert view.count('"oslo" from:client') == 1
