"""The same flaw has the same fingerprint in every recording, another flaw another."""

from pathlib import Path

import pytest

from mcpproxy.judge.session.frame import Finding, Frame
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.read.importers.import_source import ForeignTrace, ImportedSource
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports.fingerprint import fingerprint, stable_pointer, stable_text
from mcpproxy.read.reports.located import locate
from mcpproxy.record.trace.records import Header
from tests.cli.recordings import HEADER, frame, write
from tests.reports.sessions import located, session


def prints(path: Path, records: tuple[str, ...]) -> dict[tuple[str, str], str]:
    """Rule and message -> fingerprint."""
    return {(one.finding.rule, one.finding.message): one.fingerprint for one in located(path, records)}


AGAIN = {
    "later": session(pings=3),
    "with other ids": session(first_id=700),
    "more slowly": session(pace_ms=900),
    "with the tools in another order": session(tools=("sub", "add")),
    "all of that": session(pings=5, first_id=51, pace_ms=77, tools=("sub", "add")),
}


@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
def test_a_flaw_is_recognised_in_another_recording(again: tuple[str, ...], tmp_path: Path) -> None:
    before = prints(tmp_path / "before.jsonl", session())
    after = prints(tmp_path / "after.jsonl", again)
    assert sorted(rule for rule, _ in before) == ["PROTO-007", "SCHEMA-004", "SCHEMA-004"]
    assert len(set(before.values())) == 3
    assert set(after.values()) == set(before.values())


def test_the_same_rule_broken_by_another_tool_is_another_flaw(tmp_path: Path) -> None:
    add = prints(tmp_path / "a.jsonl", session(tools=("add",), calls=("add",)))
    sub = prints(tmp_path / "b.jsonl", session(tools=("sub",), calls=("sub",)))
    assert len(add) == len(sub) == 2
    assert not set(add.values()) & set(sub.values())


def test_who_is_to_blame_and_for_what_belongs_to_a_flaw() -> None:
    flaw = Finding("RPC-005", "error", "server", "used id 7 twice", 9, requirement="R-004")
    others = (
        Finding("RPC-006", "error", "server", "used id 7 twice", 9, requirement="R-004"),
        Finding("RPC-005", "error", "client", "used id 7 twice", 9, requirement="R-004"),
        Finding("RPC-005", "error", "server", "used id 7 twice", 9, requirement="R-005"),
        Finding("RPC-005", "error", "server", "used id 7 twice", 9, pointer="/id", requirement="R-004"),
        Finding("RPC-005", "error", "server", "used a task twice", 9, requirement="R-004"),
    )
    assert fingerprint(flaw) == fingerprint(
        Finding("RPC-005", "warning", "server", "used id 8 twice", 70, (3,), None, "2025-06-18", "u", "R-004")
    )
    assert len({fingerprint(one) for one in (flaw, *others)}) == 6


def test_what_comes_up_again_is_counted(tmp_path: Path) -> None:
    found = located(tmp_path / "t.jsonl", session(calls=("add", "add", "sub", "add")))
    counted = [(one.fingerprint, one.occurrence) for one in found if one.finding.rule == "PROTO-007"]
    add, sub = counted[0][0], counted[2][0]
    assert counted == [(add, 1), (add, 2), (sub, 1), (add, 3)]


MESSAGES = {
    'string "4" answers the request in frame 9, number 4': "* answers the request in frame #, number #",
    "wrote to stdout what is no message: 'it's 10:31, up'": "wrote to stdout what is no message: *",
    "answered after 12.5 s, 1,234 bytes late": "answered after # s, # bytes late",
    "a session since 2026-01-01T10:00:00.5Z in 2025-11-25": "a session since * in 2025-11-25",
    "took token 6fa459ea-ee8a-3ca4-894e-db77e160355e": "took token *",
    "refused with status 500, not -32601, in 3 words": "refused with status 500, not -32601, in # words",
    'tool "get_sum_2" of server v1.2.3': 'tool "get_sum_2" of server v1.2.3',
    'cancelled task "t-17" in session 09af3c11': "cancelled * in session *",
}


@pytest.mark.parametrize(("message", "kept"), MESSAGES.items())
def test_what_varies_is_left_out_of_the_sentence(message: str, kept: str) -> None:
    assert stable_text(message) == kept


def test_entries_go_by_their_name_and_not_by_their_position() -> None:
    value: JSON = {"result": {"tools": [{"name": "a/b", "inputSchema": {"anyOf": [{}, {}]}}]}}
    assert (
        stable_pointer("/result/tools/0/inputSchema/anyOf/1", value)
        == "/result/tools/[a/b]/inputSchema/anyOf/[*]"
    )
    assert stable_pointer("/3/result/tools/0", [1, 2, 3, value]) == "/result/tools/[a/b]"
    assert stable_pointer("/result/tools/7/name", value) == "/result/tools/[*]/name"
    assert stable_pointer("/params/x~1y", None) == "/params/x/y"
    assert stable_pointer("", value) == ""


def test_what_concerns_the_session_as_a_whole_stands_in_the_first_line(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "t.jsonl", session()))
    (one,) = locate(trace, [Finding("SEQ-002", "warning", "client", "client never became ready", 0)])
    assert (one.path, one.line) == (str(tmp_path / "t.jsonl"), 1)


def test_a_message_of_a_batch_is_known_wherever_it_stands_in_it(tmp_path: Path) -> None:
    def call(id: int, tool: str) -> str:
        return f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}'

    def of(name: str, *calls: str) -> list[str]:
        trace = open_trace(write(tmp_path / name, (HEADER, frame(1, "client", f"[{','.join(calls)}]"))))
        flaws = [
            Finding("RPC-001", "error", "client", "m", 1, pointer=f"/{at}/id") for at in range(len(calls))
        ]
        return [one.fingerprint for one in locate(trace, flaws)]

    add, sub = of("a.jsonl", call(1, "add"), call(2, "sub"))
    assert add != sub
    assert of("b.jsonl", call(7, "sub"), call(8, "mul"), call(9, "add"))[::2] == [sub, add]
    assert of("c.jsonl", call(5, "sub")) == [sub]


def test_the_answer_to_a_message_of_a_batch_is_known_by_its_request(tmp_path: Path) -> None:
    def call(id: int, tool: str) -> str:
        return f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}'

    def of(name: str, calls: str, *answered: int) -> list[str]:
        answers = (
            frame(seq, "server", f'{{"jsonrpc":"2.0","id":{id},"result":{{}}}}')
            for seq, id in enumerate(answered, 2)
        )
        trace = open_trace(write(tmp_path / name, (HEADER, frame(1, "client", calls), *answers)))
        flaws = [Finding("RES-001", "error", "server", "m", seq) for seq, _ in enumerate(answered, 2)]
        return [one.fingerprint for one in locate(trace, flaws)]

    (add,), (sub,) = of("a.jsonl", call(1, "add"), 1), of("b.jsonl", call(1, "sub"), 1)
    both = f"[{call(1, 'add')},{call(2, 'sub')}]"
    assert of("c.jsonl", both, 1, 2) == [add, sub]
    assert of("d.jsonl", both, 2, 1) == [sub, add]


def test_in_recordings_of_others_no_line_is_known() -> None:
    said = Frame(1, "client", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    trace = ForeignTrace("x.har", ImportedSource(Header(), lambda: iter([said])))
    whole, one = locate(trace, [Finding(f"RPC-00{n}", "error", "client", "m", n) for n in (0, 1)])
    assert [(found.path, found.line) for found in (whole, one)] == [("x.har", 0)] * 2
