"""A search of many recordings: in their order, in a bounded time, and over those that cannot be read."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.read.view.folder import recording, recordings
from mcpproxy.read.view.rows.search_recordings import RecordingSearch, calls_after
from mcpproxy.read.view.view import View, open_view
from mcpproxy.show.ui.found_rows import MOST_ROWS, found_rows
from tests.view.situations import SITUATIONS, Conversation, begun, write

ERRORS = parse_filter("status:error")


def failed(path: str, view: View) -> Iterator[tuple[str, int]]:
    return ((Path(path).stem, call.number) for call in calls_after(view, ERRORS))


def test_the_search_goes_on_where_its_time_was_up(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.jsonl", SITUATIONS["failed tool"]) for name in "abc"]
    (tmp_path / "b.jsonl").write_text("not a recording\n")
    seconds = count()  # each look at the clock takes one
    search = RecordingSearch(list(map(str, paths)), open_view, lambda: next(seconds))
    assert list(search.results(failed, for_s=2)) == [("a", 4)]
    assert search.place == 2
    assert len(search.faults) == 1
    assert list(search.results(failed, search.place, 0)) == [("c", 4)]
    assert search.place == 3


def test_a_recording_that_is_damaged_is_told_after_its_calls(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", (*SITUATIONS["failed tool"], "garbage"))
    search = RecordingSearch([path], open_view)
    assert list(search.results(failed)) == [("a", 4)]
    assert len(search.faults) == 1


def test_a_row_has_the_text_that_was_found_unless_it_is_seen_there(tmp_path: Path) -> None:
    talk = begun()
    talk.asks(2, "tools/call", {"name": "t", "arguments": {"path": "Å" * 60}}, ms=100)
    talk.fails(2, -32603, 'not "here"', ms=110)
    talk.record("stderr", 111, {"text": "Traceback: Connection RESET by peer"})
    write(tmp_path / "a.jsonl", talk.closes(ms=999))
    entries = {Path(entry.path).stem: entry for entry in recordings(str(tmp_path))}

    def found(text: str) -> list[str]:
        answer: Any = found_rows(entries, parse_filter(text))
        return answer["rows"][0]["found"]

    assert found('"connection reset"') == ["Traceback: ", "Connection RESET", " by peer"]
    assert found("here") == []
    assert found("method:tools/call") == []
    assert found('"path"') == []
    before, match, after = found("arguments")
    assert match == "arguments"
    assert before.endswith('"params":{"name":"t","')
    assert after == '":{"path":"' + "Å" * 34 + "…"
    assert found('not "connection reset"')[1] == "Connection RESET"


def test_a_search_that_nobody_waits_for_opens_no_further_recording(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.jsonl", SITUATIONS["failed tool"])
    entries = {Path(entry.path).stem: entry for entry in recordings(str(tmp_path))}
    asked = iter((False, True, True))
    answer: Any = found_rows(entries, ERRORS, is_over=lambda: next(asked))
    assert [row["recording"] for row in answer["rows"]] == ["a"]
    assert answer["searched"] == 1


def test_a_server_that_failed_before_any_message_is_among_the_errors(tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", Conversation().closes(ms=9, code=3))
    entries = {"s": recording(str(tmp_path / "s.jsonl"))}
    answer: Any = found_rows(entries, ERRORS)
    assert answer["rows"] == [{"recording": "s", "ended": "the server exited with 3"}]
    answer = found_rows(entries, parse_filter("method:tools/call"))
    assert answer["rows"] == []


def test_an_answer_has_so_many_rows_and_the_next_one_the_others(tmp_path: Path) -> None:
    talk = begun()
    for number in range(MOST_ROWS + 3):
        talk.asks(number + 2, "tools/call", {"name": "t"}, ms=100 + number)
    write(tmp_path / "long.jsonl", talk.closes(ms=999))
    write(tmp_path / "other.jsonl", SITUATIONS["failed tool"])
    entries = {Path(entry.path).stem: entry for entry in recordings(str(tmp_path))}
    calls = parse_filter("method:tools/call")
    first: Any = found_rows(entries, calls)
    assert len(first["rows"]) == MOST_ROWS
    assert (first["searched"], first["recordings"], first["unreadable"]) == (0, 2, 0)
    following = first["next"]
    assert following == {"recording": "long", "after": first["rows"][-1]["number"]}
    rest: Any = found_rows(entries, calls, following["recording"], following["after"])
    assert [row["recording"] for row in rest["rows"]] == ["long"] * 3 + ["other"]
    assert rest["rows"][0]["number"] == following["after"] + 1
    assert (rest["searched"], rest["next"]) == (2, None)


def test_a_row_has_its_worst_finding(tmp_path: Path) -> None:
    talk = begun()
    noise = talk.says("server", "looking up Oslo ...", 105)
    talk.finds("STDIO-003", noise, "a debug line", "info")
    talk.finds("STDIO-002", noise, f"not a message: {'x' * 999}")
    asked = talk.asks(2, "tools/call", {"name": "t"}, ms=110)
    talk.finds("PROTO-009", asked, "never declared tools", "warning")
    write(tmp_path / "a.jsonl", talk.closes(ms=999))
    entries = {Path(entry.path).stem: entry for entry in recordings(str(tmp_path))}

    def worst(text: str) -> list[Any]:
        answer: Any = found_rows(entries, parse_filter(text))
        return [row["worst"] for row in answer["rows"]]

    [found, of_a_failure] = worst("severity:error,warning")
    assert (found["rule"], found["severity"]) == ("STDIO-002", "error")
    assert found["message"].startswith("not a message: xxx")
    assert len(found["message"]) < 300
    assert of_a_failure == {"rule": "PROTO-009", "severity": "warning", "message": "never declared tools"}
    assert worst("method:initialize") == [None]


def test_findings_about_a_whole_session_are_found_once_after_its_rows(tmp_path: Path) -> None:
    for name in "ab":
        talk = begun()
        for number in range(MOST_ROWS if name == "a" else 0):
            talk.asks(number + 2, "ping", ms=100 + number)
            talk.finds("RES-004", 6 + number, "about a row")
        talk.finds("STDIO-005", 0, "closed too late", "warning")
        talk.finds("PROTO-013", 0, "never initialized")
        write(tmp_path / f"{name}.jsonl", talk.closes(ms=999))
    entries = {name: one for name in "ab" for one in recordings(str(tmp_path)) if name in Path(one.path).stem}

    def found(text: str, begin: str = "", after: int = 0) -> tuple[int, list[Any], Any]:
        answer: Any = found_rows(entries, parse_filter(text), begin, after)
        wholes = [
            (row["recording"], row["whole"], row["worst"]["rule"]) for row in answer["rows"] if "whole" in row
        ]
        return len(answer["rows"]) - len(wholes), wholes, answer["next"]

    calls, wholes, following = found("severity:error,warning")
    assert (calls, wholes) == (MOST_ROWS, [])
    rest = found("severity:error,warning", begin=following["recording"], after=following["after"])
    assert rest == (0, [("a", 2, "PROTO-013"), ("b", 2, "PROTO-013")], None)
    assert found("severity:warning rule:STDIO-*")[1:] == (
        [("a", 1, "STDIO-005"), ("b", 1, "STDIO-005")],
        None,
    )
    assert found("rule:* method:initialize")[:2] == (0, [])
