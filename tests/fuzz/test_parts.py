"""The parts of the fuzzer without a server: what is made small, what counts as a crash, what is changed."""

import asyncio
import json
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from mcpproxy.base.telling_line import LastLines
from mcpproxy.judge.session.frame import SERVER, Finding, Severity
from mcpproxy.peers.fuzz.draws import Draws
from mcpproxy.peers.fuzz.errors import NotFuzzedError
from mcpproxy.peers.fuzz.material import material
from mcpproxy.peers.fuzz.minimise import Minimiser
from mcpproxy.peers.fuzz.mutations import all_mutants
from mcpproxy.peers.fuzz.mutations.mutant import Supply
from mcpproxy.peers.fuzz.results import FuzzResult, ServerFault
from mcpproxy.peers.fuzz.steps import FuzzStep, restored_steps
from mcpproxy.peers.fuzz.symptoms import end_symptom, violation_symptom
from mcpproxy.peers.replay.recording import load
from tests.cli import recordings

RECORDINGS = Path(__file__).parents[2] / "recordings"
SHIPPED = [path for path in sorted(RECORDINGS.glob("*.jsonl")) if path.with_suffix(".expected.json").exists()]

TRACEBACK = [b"Traceback (most recent call last):", b'  File "s.py", line 1', b"ValueError: no 5"]


def written(*lines: bytes) -> LastLines:
    """What a server has written to stderr."""
    stderr = LastLines()
    stderr.add(*lines)
    return stderr


def step(raw: bytes, *, is_lawful: bool = True, is_handshake: bool = False, session: int = 0) -> FuzzStep:
    key = "" if is_handshake else "k"
    return FuzzStep(
        raw, key=key, original=b"", is_lawful=is_lawful, is_handshake=is_handshake, session=session
    )


def smallest(steps: list[FuzzStep], fails: Callable[[list[bytes]], bool], limit: int = 200) -> list[bytes]:
    async def test(candidate: list[FuzzStep]) -> bool:
        return fails([step.raw for step in candidate])

    found = asyncio.run(Minimiser(test, limit, inf, inf).minimise(steps))
    assert found is not None
    return [step.raw for step in found]


def test_the_last_step_alone_is_tried_first() -> None:
    steps = [step(b"open", is_handshake=True), *(step(b"%d" % number) for number in range(40))]
    assert smallest(steps, lambda raws: raws[-1] == b"39", limit=1) == [b"open", b"39"]


def test_steps_far_apart_remain() -> None:
    steps = [step(b"open", is_handshake=True), *(step(b"%d" % number) for number in range(40))]
    assert smallest(steps, lambda raws: {b"3", b"38"} <= set(raws)) == [b"open", b"3", b"38"]


def test_the_handshake_of_a_session_that_is_not_needed_goes() -> None:
    steps = [
        step(b"a", is_handshake=True),
        step(b"b", is_handshake=True, session=1),
        step(b"1", session=1),
        step(b"2"),
    ]
    assert smallest(steps, lambda raws: b"2" in raws) == [b"a", b"2"]


def test_a_value_is_made_shorter() -> None:
    raw = json.dumps({"id": 1, "method": "m", "params": {"a": "x" * 10_000, "b": [1, 2]}}).encode()
    (small,) = smallest([step(raw)], lambda raws: b"x" * 100 in raws[0])
    assert len(small) < 250
    assert b'"b"' not in small


def test_when_the_time_is_over_no_step_is_left_out_any_more() -> None:
    steps = [step(b"%d" % number) for number in range(6)]

    async def test(candidate: list[FuzzStep]) -> bool:
        return {b"1", b"4"} <= {step.raw for step in candidate}

    found = asyncio.run(Minimiser(test, 200, 0, 0).minimise(steps))
    assert found == steps


@pytest.mark.parametrize(("severity", "counted"), [("error", 1), ("warning", 0), ("info", None)])
def test_a_warning_counts_only_if_one_is_strict(severity: Severity, counted: int | None) -> None:
    finding = Finding("TOOL-006", severity, SERVER, "m", 3)
    symptom = violation_symptom(finding, step(b"1"), 0, is_provoked=False)
    if counted is None:
        assert symptom is None
        return
    assert symptom is not None
    fault = ServerFault(
        symptom.kind, "t", "c", "t.jsonl", 2, is_replayed=True, is_lawful=True, after_s=1, took_s=2,
        severity=symptom.severity,
    )  # fmt: skip
    assert FuzzResult(1, faults=[fault]).counted == counted
    assert FuzzResult(1, faults=[fault], strict=True).counted == 1


def test_what_does_not_happen_again_is_not_made_small() -> None:
    async def test(_: list[FuzzStep]) -> bool:
        return False

    assert asyncio.run(Minimiser(test, 50, inf, inf).minimise([step(b"1"), step(b"2")])) is None


@pytest.mark.parametrize(
    ("exit_code", "stderr", "is_lawful", "is_crash"),
    [
        (1, TRACEBACK, True, True),
        (0, [], True, True),  # the session was open
        (None, [], True, True),  # stdout was closed
        (1, [b"bye"], False, False),  # a server may leave a client that breaks the protocol,
        (0, [], False, False),
        (None, [], False, False),
        (1, TRACEBACK, False, True),  # but not by an exception that nobody caught,
        (-11, [], False, True),  # or by a signal
        (0, TRACEBACK, False, False),  # which was caught, because the exit code is 0
    ],
)
def test_what_counts_as_a_crash(
    exit_code: int | None, stderr: list[bytes], is_lawful: bool, is_crash: bool
) -> None:
    found = end_symptom(exit_code, "it ended", written(*stderr), step(b"1", is_lawful=is_lawful), 0)
    assert (found is not None) == is_crash


def test_the_same_crash_has_the_same_key_whatever_the_value() -> None:
    keys = {
        found.key
        for text in (b"ValueError: no '5' at 0x7f", b"ValueError: no 'abc' at 0x80")
        if (found := end_symptom(1, "it ended", written(text), step(b"1"), 0))
    }
    assert len(keys) == 1


def test_what_node_prints_behind_an_error_is_no_key() -> None:
    behind = [b"    at onError (/srv/a.js:2:3) {", b"  code: -32603", b"}", b"", b"Node.js v20.20.2"]
    found = end_symptom(1, "it ended", written(b"McpError: no shelf", *behind), step(b"1"), 0)
    assert found is not None
    assert found.key == "crash ended with exit code 1 McpError: no shelf"


def test_a_trace_of_many_lines_has_the_error_before_it_as_its_key() -> None:
    frames = [b"    at visit (/srv/a.js:%d:3)" % line for line in range(100)]
    found = end_symptom(1, "it ended", written(b"TypeError: no shelf", *frames), step(b"1"), 0)
    assert found is not None
    assert found.key == "crash ended with exit code 1 TypeError: no shelf"


def test_what_a_server_wrote_long_before_its_end_is_no_sign_of_it() -> None:
    stderr = written(*TRACEBACK, *[b"serving"] * 1000)
    assert end_symptom(1, "it ended", stderr, step(b"1", is_lawful=False), 0) is None


def test_the_control_has_no_change() -> None:
    opening = step(b"open", is_handshake=True)
    changed = FuzzStep(b"changed", key="k", original=b"plain", is_lawful=False, pieces=(b"x",))
    added = FuzzStep(b"added", key="a")
    control = restored_steps([opening, changed, added])
    assert [(one.raw, one.pieces, one.is_lawful) for one in control] == [
        (b"open", (), True),
        (b"plain", (), True),
    ]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_every_shipped_recording_gives_changes(path: Path, transport: str) -> None:
    found = material(load(path))
    mutants = list(all_mutants(found, transport))
    assert len({mutant.key for mutant in mutants}) == len(mutants) > 100
    supply = Supply(Draws(1))
    ids: set[object] = set()
    for mutant in mutants:
        for one in mutant.make(supply):
            assert one.what
            if one.is_lawful and mutant.position == "inside" and " /params" in mutant.key:
                assert ids.isdisjoint(one.ids), mutant.key
                ids.update(one.ids)


def test_markers_are_put_where_any_text_may_stand() -> None:
    found = material(load(RECORDINGS / "everything-2025-11-25.jsonl"))
    (echo,) = (template for template in found.templates if template.name == "echo")
    assert echo.texts == (("params", "arguments", "message"),)
    assert len(Supply(Draws(1)).plain_step(echo).markers) == 1


def test_a_recording_without_a_request_is_refused(tmp_path: Path) -> None:
    trace = recordings.write(tmp_path / "t.jsonl", (*recordings.HANDSHAKE, recordings.close(2, 1)))
    with pytest.raises(NotFuzzedError, match="no request"):
        material(load(trace))
