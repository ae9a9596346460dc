"""Findings as lines and as JSON, from verdicts made by hand."""

import json

from mcpproxy.base.style import Style
from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.reports import json as as_json
from mcpproxy.read.reports import text
from mcpproxy.read.reports.judged_traces import JudgedTrace, JudgedTraces, Unjudged

SOURCE = "https://example.test/spec#ids"
WRONG_ID = Finding("PROTO-007", "error", "server", "wrong id", 12, (3,), "/id", "2025-11-25", SOURCE, "R-008")
NO_READY = Finding("SEQ-002", "warning", "client", "client never \x1b[31mready", 0)
REMARK = Finding("SCHEMA-003", "info", "server", "no properties", 4, (1, 2))
PLACES = {0: ("s.jsonl", 1), 12: ("s.jsonl", 15)}


def verdict(*findings: Finding, strict: bool = False, notes: tuple[str, ...] = ()) -> JudgedTraces:
    return JudgedTraces(
        (JudgedTrace("s.jsonl", not notes, "2025-11-25", 82, findings, notes, places=PLACES),), strict=strict
    )


def test_a_finding_is_a_line_and_its_evidence() -> None:
    assert list(text.lines(verdict(WRONG_ID, NO_READY, REMARK))) == [
        "s.jsonl:15: error PROTO-007 frame 12: server: wrong id",
        "    at /id  see frame 3  https://example.test/spec#ids",
        "s.jsonl:1: warning SEQ-002 client never \\u001b[31mready",
        "s.jsonl: info SCHEMA-003 frame 4: server: no properties",
        "    see frames 1, 2",
        "1 error, 1 warning, 1 info in 1 trace, 82 frames, revision 2025-11-25",
        "What a rule means: mcpproxy explain PROTO-007",
    ]


def test_paths_in_the_working_directory_are_short() -> None:
    for path, name in {
        "/folder/t/s.jsonl": "t/s.jsonl",
        "/folders/s.jsonl": "/folders/s.jsonl",
        "../s": "../s",
    }.items():
        judged = JudgedTrace(path, False, None, 82, (WRONG_ID,), ("cut",), places={12: (path, 15)})
        first, _, last = text.trace_lines(judged, base="/folder")
        assert (first[: len(name) + 5], last) == (f"{name}:15: ", f"{name}: incomplete: cut")


def test_the_rule_to_explain_is_that_of_the_worst_finding() -> None:
    *_, last = text.lines(verdict(REMARK, NO_READY, WRONG_ID))
    assert last == "What a rule means: mcpproxy explain PROTO-007"


def test_the_next_step_names_the_folders_of_rules() -> None:
    run = JudgedTraces(verdict(WRONG_ID).traces, folders=("house", "our rules"))
    *_, last = text.lines(run)
    assert last == "What a rule means: mcpproxy explain PROTO-007 --rules house --rules 'our rules'"


def test_colours_mark_the_severity() -> None:
    (first, *_) = text.lines(verdict(WRONG_ID), Style(colour=True))
    assert "\x1b[1;31merror\x1b[0m" in first


def test_what_is_missing_is_said_once_per_trace_and_once_for_the_run() -> None:
    lines = list(text.lines(verdict(notes=("cut off",))))
    assert lines[0] == "s.jsonl: incomplete: cut off"
    assert lines[-1] == "The recording is incomplete: what was not recorded was not judged."


def test_several_traces_are_summed_up() -> None:
    whole = JudgedTrace("a.jsonl", True, "2025-06-18", 10, (REMARK,))
    cut = JudgedTrace("b.jsonl", False, None, 1, (), ("cut",))
    run = JudgedTraces((whole, cut), (Unjudged("c.jsonl", "no"),))
    assert list(text.summary_lines(run)) == [
        "1 info in 2 traces, 11 frames, revision 2025-06-18",
        "1 recording of them is incomplete: what was not recorded was not judged.",
        "1 trace could not be judged.",
        "What a rule means: mcpproxy explain SCHEMA-003",
    ]


def test_exit_codes() -> None:
    assert verdict().exit_code == 0
    assert verdict(REMARK, strict=True).exit_code == 0
    assert verdict(NO_READY).exit_code == 0
    assert verdict(NO_READY, strict=True).exit_code == 1
    assert verdict(WRONG_ID).exit_code == 1
    assert JudgedTraces((), (Unjudged("x", "no"),)).exit_code == 2


def test_json_carries_everything() -> None:
    report = json.loads("\n".join(as_json.lines(verdict(WRONG_ID, notes=("cut",)))))
    assert report["traces"] == [
        {
            "path": "s.jsonl",
            "complete": False,
            "revision": "2025-11-25",
            "frames": 82,
            "findings": [
                {
                    "rule": "PROTO-007",
                    "severity": "error",
                    "blame": "server",
                    "message": "wrong id",
                    "frame": 12,
                    "related": [3],
                    "pointer": "/id",
                    "revision": "2025-11-25",
                    "source": SOURCE,
                    "requirement": "R-008",
                }
            ],
            "notes": ["cut"],
        }
    ]
    assert report["summary"] == {
        "traces": 1,
        "incomplete": 1,
        "unreadable": 0,
        "frames": 82,
        "error": 1,
        "warning": 0,
        "info": 0,
        "strict": False,
        "exit_code": 1,
    }


def test_what_repeats_is_one_finding_with_a_count() -> None:
    tools = [
        Finding("SCHEMA-003", "info", "server", f'server listed tool "{n}"', 4, pointer=n) for n in "abcd"
    ]
    judged = verdict(*tools)
    assert list(text.lines(judged)) == [
        's.jsonl: info SCHEMA-003 frame 4: server listed tool "a"',
        "    at a",
        '    3 more like it in this frame: "b", "c", "d"',
        "4 info in 1 trace, 82 frames, revision 2025-11-25",
        "What a rule means: mcpproxy explain SCHEMA-003",
    ]
    assert len(json.loads("\n".join(as_json.lines(judged)))["traces"][0]["findings"]) == 4
