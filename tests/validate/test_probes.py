"""Each probe fails on a server that is broken in just that way, and passes on its good twin."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.peers.validate.errors import CouldNotStartError
from mcpproxy.peers.validate.outcome import Status
from mcpproxy.peers.validate.probes import features, jsonrpc, lifecycle, robustness, stdio, tools, walk
from mcpproxy.peers.validate.recordings import Target
from tests.validate.trial import NEWEST, check, target, tried

PROBES = (
    *walk.PROBES,
    *tools.PROBES,
    *features.PROBES,
    *jsonrpc.PROBES,
    *robustness.PROBES,
    *stdio.PROBES,
    *lifecycle.PROBES,
)

PATIENCE_S: Final = 1.5
"""How long an answer may take that never comes."""


@dataclass(frozen=True, slots=True)
class Case:
    """What becomes of a probe when the server has a flaw. ``says`` is a part of the message."""

    probe: str
    flaw: str
    status: Status
    says: str
    rule: str = ""
    revision: str = NEWEST
    is_silent: bool = False


def fails(probe: str, flaw: str, says: str, rule: str = "", revision: str = NEWEST) -> Case:
    return Case(probe, flaw, "failed", says, rule, revision)


def warns(probe: str, flaw: str, says: str, rule: str = "", revision: str = NEWEST) -> Case:
    return Case(probe, flaw, "warning", says, rule, revision)


def remarks(probe: str, flaw: str, says: str, revision: str = NEWEST) -> Case:
    return Case(probe, flaw, "info", says, "", revision)


def hangs(probe: str, flaw: str, says: str, rule: str = "", revision: str = NEWEST) -> Case:
    return Case(probe, flaw, "failed", says, rule, revision, is_silent=True)


CASES = (
    # The walk
    hangs("handshake", "mute-initialize", "no answer to initialize within 1.5 s"),
    fails("handshake", "nameless-revision", "names no protocolVersion"),
    fails("ping", "refused-ping", "ping was refused", "LIFE-004"),
    fails("list-tools", "tools-without-list", "has no list tools"),
    fails("call-tools", "tool-that-ends-it", "it ended with exit code 3"),
    fails("list-resources", "circular-pages", "its pages have no end"),
    remarks("list-resource-templates", "refused-templates", "-32603"),
    remarks("read-resources", "unreadable-resources", "is listed and cannot be read"),
    remarks("list-prompts", "refused-prompts", "-32603"),
    remarks("get-prompts", "ungettable-prompts", "I would rather not"),
    remarks("complete", "refused-completion", "I would rather not"),
    remarks("set-log-level", "refused-level", "I would rather not"),
    # Features
    warns("unknown-tool", "tool-of-any-name", "with a tool execution error", "TOOL-006"),
    warns("unknown-tool", "unlisted-tool-works", "as if it had worked", "TOOL-006"),
    fails("missing-argument", "careless-tool", "was called as if all were right", "TOOL-008"),
    fails("wrong-argument-type", "careless-tool", "was called as if all were right", "TOOL-008"),
    remarks("same-tools-again", "fickle-tools", "another a moment later"),
    warns("bad-cursor", "any-cursor", "has pages, and accepted an unknown cursor", "PAGE-003"),
    warns("bad-cursor", "odd-cursor-refusal", "-32603", "PAGE-003"),
    warns("unknown-resource", "odd-not-found", "was refused with 0, not with -32002", "RES-004"),
    fails("unknown-resource", "odd-not-found", "with 0, not with -32602", "RES-004", "2026-07-28"),
    warns("unknown-resource", "empty-not-found", "read as empty", "RES-004"),
    fails("unknown-resource", "empty-not-found", "read as empty", "RES-005", "2026-07-28"),
    fails("path-traversal", "way-upwards", "leads out of what is offered"),
    remarks("subscribe", "refused-subscription", "resources/subscribe"),
    warns("unknown-prompt", "prompt-of-any-name", "answered with a result", "PROM-003"),
    warns("unknown-prompt", "odd-prompt-refusal", "refused with -32000", "PROM-003"),
    warns("missing-prompt-argument", "prompt-of-any-name", "which it lists as required", "PROM-003"),
    warns("unknown-completion", "completion-of-anything", "answered with a result"),
    warns("unknown-log-level", "any-level", "loud", "LOG-001"),
    warns("unknown-log-level", "odd-level-refusal", "refused with -32603"),
    # JSON-RPC
    warns("unknown-method", "answer-to-any-method", "answered with a result", "RPC-020"),
    warns("unknown-method", "odd-method-refusal", "-32603", "RPC-020"),
    warns("unknown-method", "odd-method-refusal", "-32603", "ERR-002", "2026-07-28"),
    fails("unknown-notification", "answered-notification", "was refused with -32601", "RPC-015"),
    fails("unknown-notification", "answered-notification", "with -32601", "RPC-015", "2024-11-05"),
    warns("invalid-params", "odd-params-refusal", "was refused with -32603"),
    warns("invalid-params", "params-as-they-come", "answered with a result"),
    warns("invalid-params", "nameless-call-as-tool-error", "a tool execution error (isError), not with"),
    warns("malformed-json", "end-at-malformed-json", "it ended with exit code 1"),
    warns("malformed-json", "result-for-malformed-json", "with a result, not with -32700"),
    fails("malformed-json", "result-without-request", "that has the id 815", "PROTO-007"),
    warns("malformed-json", "odd-parse-error", "was refused with -32603, not with -32700"),
    warns("invalid-request", "result-for-odd-request", "with a result, not with -32600"),
    fails("invalid-request", "result-without-request", "that has the id 815", "PROTO-007"),
    warns("invalid-request", "end-at-odd-request", "it ended with exit code 1"),
    warns("invalid-request", "odd-request-refusal", "was refused with -32000, not with -32600"),
    fails("batch", "unread-batch", "0 were answered", revision="2025-03-26"),
    fails("batch", "half-a-batch", "1 were answered", revision="2025-03-26"),
    hangs("id-zero", "zero-is-no-id", "no answer to ping"),
    fails("id-negative", "unsigned-ids", "42", "PROTO-007"),
    fails("id-large", "short-ids", "2147483647", "PROTO-007"),
    fails("id-string", "ascii-ids", "p?ge", "PROTO-007"),
    fails("id-digits", "numbers-for-digits", "815", "PROTO-007"),
    fails("id-long", "clipped-ids", "id", "PROTO-007"),
    remarks("id-long", "refused-long-ids", "no revision says how long"),
    fails("progress-token", "progress-for-nobody", "nobodys", "PROG-003"),
    fails("progress-token", "stalled-progress", "2", "PROG-004"),
    # Robustness
    hangs("line-separators", "lines-by-unicode", "the answer to ping (id 3) has the id null"),
    hangs("concurrent-requests", "few-at-once", "of 50 requests at once"),
    fails("concurrent-requests", "swapped-answers", "got another's answer", "PROTO-007"),
    fails("cancellation", "end-at-cancellation", "after a cancellation"),
    fails("cancel-unknown", "answered-cancellation", "was refused with -32602", "RPC-015"),
    fails("large-message", "small-buffer", "it ended with exit code 1"),
    remarks("large-message", "small-refusing-buffer", "Request too large"),
    fails("huge-message", "middling-buffer", "it ended with exit code 1"),
    # The process
    hangs("split-writes", "a-read-is-a-message", "the answer to ping (id 3) has the id null"),
    hangs("messages-in-one-write", "few-at-once", "no answer to ping"),
    fails("stdout", "traceback-on-stdout", "Traceback", "STDIO-002"),
    fails("stdout", "farewell-on-stdout", "Server stopped.", "STDIO-002"),
    Case("stdin-eof", "deaf-to-eof", "info", "still running 1.5 s after", is_silent=True),
    Case("stdin-eof", "deaf-to-eof", "warning", "still running", "STDIO-005", "2026-07-28", is_silent=True),
    remarks("stdin-eof", "exit-code-three", "with exit code 3"),
    remarks("stdin-eof", "end-by-segfault", "by SIGSEGV"),
    Case("sigterm", "deaf-to-sigterm", "info", "it can only be killed", is_silent=True),
    remarks("restart", "tools-of-this-process", "is not there"),
    remarks("restart", "words-of-this-process", "add is defined otherwise"),
    fails("restart", "tools-of-this-process", "is not there", "TOOL-013", "2026-07-28"),
    # The handshake
    warns("second-initialize", "end-at-second-initialize", "it ended with exit code 1"),
    fails("ping-before-initialize", "no-ping-before-initialize", "refused", "LIFE-004"),
    fails("ping-before-initialize", "end-at-early-request", "exit code 1", "LIFE-004"),
    remarks("request-before-initialize", "offended-by-early-request", "the session cannot be opened"),
    warns("request-before-initialize", "end-at-early-request", "it ended with exit code 1"),
    warns("uninitialized-operation", "early-question", "roots/list", "SEQ-003"),
    warns(
        "uninitialized-operation",
        "end-at-request-before-initialized",
        "a mistake of a client the session is over",
    ),
    fails("uninitialized-operation", "never-ready", "even after notifications/initialized"),
    fails("unsupported-version", "any-version", "a revision that does not exist"),
    warns("unsupported-version", "version-in-words", "latest", "PROTO-008"),
    # Lawful, if rare
    Case("concurrent-requests", "refused-crowd", "passed", "Too many requests"),
    Case("progress-token", "steady-progress", "passed", "2 progress notifications"),
    Case("huge-message", "middling-refusing-buffer", "passed", "Request too large"),
    Case("split-writes", "asks-between-pieces", "passed", "was answered"),
    Case("unsupported-version", "refused-version", "passed", "refused with -32602"),
)


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{one.probe}-{one.flaw}-{one.revision[:4]}-{one.status}" for one in CASES]
)
def test_a_probe_sees_the_flaw(case: Case, tmp_path: Path) -> None:
    patience_s = PATIENCE_S if case.is_silent else 10
    start_s = PATIENCE_S if case.flaw == "mute-initialize" else 60
    result = tried(target(case.flaw), tmp_path, (case.probe,), case.revision, patience_s, start_s)
    seen = check(result, case.probe)
    assert seen.status == case.status, seen.conclusion
    assert case.says in seen.conclusion.message
    assert seen.conclusion.rule == case.rule
    is_bad = case.status in ("failed", "warning")
    needs_frames = is_bad and case.probe not in ("stdin-eof", "sigterm")
    assert bool(seen.conclusion.frames) or not needs_frames
    assert not seen.conclusion.rule or seen.conclusion.source.startswith("https://")


def test_what_was_not_json_hides_no_wrong_id(tmp_path: Path) -> None:
    names = ("malformed-json", "invalid-request", "id-digits")
    result = tried(target("numbers-for-digits"), tmp_path, names)
    assert check(result, "id-digits").conclusion.rule == "PROTO-007"


@pytest.mark.parametrize(("flaw", "status"), [("deaf-while-first", "info"), ("one-at-a-time", "passed")])
def test_a_process_that_is_to_end_is_alone(flaw: str, status: Status, tmp_path: Path) -> None:
    patience_s = PATIENCE_S if status == "info" else 10
    names = ("ping", "stdin-eof", "sigterm")
    result = tried(target(flaw, LOCK=str(tmp_path / "lock")), tmp_path, names, timeout_s=patience_s)
    assert [check(result, name).status for name in names] == ["passed", status, status]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-11-25", "2026-07-28"])
def test_the_good_twin_passes_all(revision: str, tmp_path: Path) -> None:
    result = tried(target(), tmp_path, PROBES, revision)
    # Completions are declared from 2025-03-26 on.
    undeclared = {"complete"} if revision == "2024-11-05" else set[str]()
    assert {one.name for one in result.checks if one.status != "passed"} == undeclared
    assert {probe.name for probe in PROBES if revision in probe.revisions} <= {c.name for c in result.checks}
    assert result.is_valid


def test_a_command_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(CouldNotStartError, match="no such command"):
        tried(Target(("/nowhere/no-such-server",)), tmp_path)


def test_no_probe_is_without_its_flaw() -> None:
    broken = {case.probe for case in CASES if case.status != "passed"}
    assert {probe.name for probe in PROBES} - broken == {"connect"}


@pytest.mark.parametrize("probe", ["get-prompts", "complete", "missing-prompt-argument"])
def test_a_prompt_without_a_name_is_left_to_the_judge(probe: str, tmp_path: Path) -> None:
    result = tried(target("nameless-prompt"), tmp_path, (probe,))
    assert check(result, probe).status == "passed", check(result, probe).conclusion


def test_silence_after_a_mistake_shows_nothing_where_no_ping_is_answered(tmp_path: Path) -> None:
    result = tried(target("silent-ping"), tmp_path, ("ping", "malformed-json"), timeout_s=1.5)
    assert check(result, "ping").status == "failed"
    after = check(result, "malformed-json").conclusion
    assert (after.status, "without a mistake" in after.message) == ("skipped", True)
