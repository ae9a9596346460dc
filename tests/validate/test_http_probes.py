"""Each probe of HTTP fails on a server that is broken in just that way, and passes on its good twin."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.peers.validate.errors import CouldNotStartError
from mcpproxy.peers.validate.outcome import Status, Validation
from mcpproxy.peers.validate.probe_context import ValidateOptions
from mcpproxy.peers.validate.probes import PROBES as ALL_PROBES
from mcpproxy.peers.validate.probes import authorization, chosen, headers, http, rounds, sessions, stateless
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.peers.validate.runner import validate
from mcpproxy.protocol.revisions import REVISIONS
from tests.validate import http_flaws
from tests.validate.http_server import FLAWS, Asked, Kind, Said, Site, serving, told
from tests.validate.scripted import STATEFUL, STATELESS
from tests.validate.trial import check, rules, target, tried

PROBES = (
    *authorization.PROBES,
    *stateless.PROBES,
    *rounds.PROBES,
    *http.PROBES,
    *sessions.PROBES,
    *headers.PROBES,
)
CHECKS: Final = {probe.name for probe in ALL_PROBES}
LISTS = ("list-tools", "list-prompts", "list-resources")
NEWEST = {"stateful": "2025-11-25", "older": "2025-11-25", "stateless": "2026-07-28", "dual": "2026-07-28"}


@dataclass(frozen=True, slots=True)
class Case:
    """What becomes of a probe when a server of some kind has a flaw. ``says`` is a part of the message."""

    probe: str
    kind: Kind
    flaw: str
    status: Status
    says: str
    rule: str = ""
    timeout_s: float = field(default=10, kw_only=True)


def fails(probe: str, kind: Kind, flaw: str, says: str, rule: str = "", *, timeout_s: float = 10) -> Case:
    return Case(probe, kind, flaw, "failed", says, rule, timeout_s=timeout_s)


def warns(probe: str, kind: Kind, flaw: str, says: str, rule: str = "") -> Case:
    return Case(probe, kind, flaw, "warning", says, rule)


def remarks(probe: str, kind: Kind, flaw: str, says: str) -> Case:
    return Case(probe, kind, flaw, "info", says)


CASES = (
    # Streamable HTTP
    remarks("accept", "stateful", "accept-crash", "made the server fail with 500"),
    fails("accept", "stateful", "text-answer", "text/plain", "HTTP-010"),
    fails("accept", "stateless", "text-answer", "text/plain", "HTTP-010"),
    fails("notification-status", "stateful", "notification-200", "with 200 instead of 202", "HTTP-008"),
    fails("notification-status", "stateless", "notification-200", "with 200 instead of 202", "HTTP-008"),
    fails("response-status", "stateful", "response-with-body", "sent a body", "HTTP-008"),
    fails("get-stream", "stateful", "get-html", "text/html", "HTTP-016"),
    fails("get-stream", "stateful", "get-404", "refused with 404", "HTTP-016"),
    fails("resume-stream", "stateful", "replay-of-all", "belongs to another stream", "SSE-003"),
    remarks("sse-endpoint", "older", "endpoint-elsewhere", "names http://localhost"),
    fails("handshake", "older", "endpoint-on-another-host", "the endpoint event names http://127.0.0.2:"),
    fails("handshake", "stateful", "endless-event", "it sent an event of about 16 MiB or more, too large"),
    fails("handshake", "stateful", "endless-comment", "it sent an event of about 16 MiB or more, too large"),
    fails("handshake", "stateful", "endless-body", "it sent a body of about 16 MiB or more, too large"),
    fails("foreign-origin", "stateful", "any-origin", "any website could do the same", "HTTP-019"),
    fails("foreign-origin", "stateless", "any-origin", "any website could do the same", "HTTP-019"),
    fails("foreign-origin", "older", "any-origin", "any website could do the same", "HTTP-019"),
    fails("foreign-origin", "stateful", "origin-400", "refused with 400, not with 403", "HTTP-019"),
    fails("dropped-connection", "stateful", "fragile", "after a connection that broke off", timeout_s=1.5),
    remarks("huge-message", "stateful", "cut-when-large", "had its connection cut off"),
    # Sessions
    warns("session-id", "stateful", "one-id-for-all", "has issued before", "PROTO-010"),
    fails("session-id", "stateful", "odd-ids", "other than visible ASCII", "PROTO-010"),
    warns("session-id-missing", "stateful", "missing-id-404", "with 404", "PROTO-010"),
    remarks("session-id-unknown", "stateful", "unknown-id-400", "refused with 400"),
    remarks("session-id-unknown", "stateful", "any-session", "served with 200"),
    fails("session-deleted", "stateful", "undying-sessions", "served with 200", "PROTO-010"),
    fails("session-deleted", "stateful", "unknown-id-400", "-32000, not with 404", "PROTO-010"),
    fails("version-header-invalid", "stateful", "any-version-header", "mcpproxy-no-version", "PROTO-008"),
    fails("version-header-invalid", "stateful", "version-header-406", "refused with 406", "PROTO-008"),
    warns("version-header-missing", "stateful", "wanted-version-header", "taken as 2025-03-26"),
    # Authorization
    fails("oauth-metadata", "stateful", "no-metadata", "addresses have no metadata", "AUTH-002"),
    fails("oauth-metadata", "stateful", "metadata-without-servers", "no authorization server", "AUTH-007"),
    warns("oauth-metadata", "stateful", "metadata-without-resource", "does not name its resource"),
    fails("invalid-token", "stateful", "any-token", "accepted with 200, not with 401", "AUTH-001"),
    fails("invalid-token", "stateful", "token-403", "refused with 403, not with 401", "AUTH-001"),
    # Headers
    *(
        fails(f"header-{which}", "stateless", "blind-to-headers", "served", "HDR-007")
        for which in (
            "version-mismatch",
            "version-missing",
            "method-mismatch",
            "method-missing",
            "name-mismatch",
            "name-missing",
            "param-missing",
            "param-mismatch",
        )
    ),
    warns("header-method-mismatch", "stateless", "header-fault-600", "with -32600 instead of", "HDR-007"),
    warns("header-version-missing", "stateless", "header-fault-600", "-32600, not with -32020", "HDR-007"),
    fails("header-name-encoded", "stateless", "undecoded-names", "it must be decoded"),
    fails("header-name-case", "stateless", "picky-about-case", "case must not matter"),
    # Requests that carry their own version
    fails("discover", "stateless", "discovery-without-versions", "supportedVersions", "DISC-002"),
    fails("discover", "stateless", "discovery-once", "was refused with 404", "DISC-001"),
    fails("request-without-capabilities", "stateless", "content-with-less", "served", "STAT-002"),
    fails(
        "request-without-capabilities", "dual", "incomplete-200", "refused with 200 and -32602", "STAT-002"
    ),
    fails("request-without-version", "stateless", "content-with-less", "served", "STAT-002"),
    fails("request-without-version", "stateless", "incomplete-600", "400 and -32600", "STAT-002"),
    fails("unsupported-version-request", "stateless", "any-version", "was served", "PROTO-008"),
    fails(
        "unsupported-version-request", "stateless", "unsupported-601", "-32601, not with -32022", "PROTO-008"
    ),
    fails("unsupported-version-request", "stateless", "unsaid-versions", "without saying", "PROTO-008"),
    fails("unknown-method-status", "stateless", "unknown-method-200", "with 200 and -32601", "ERR-002"),
    fails("removed-methods", "stateless", "ping-602", "with 200 and -32602", "ERR-002"),
    warns("session-header", "stateless", "minted-ids", "session id", "PROTO-010"),
    warns("session-header", "stateless", "offended-by-ids", "the id should be ignored"),
    warns("retired-http-methods", "stateless", "get-200", "with 200", "HTTP-020"),
    warns("older-client", "stateless", "curt", "without naming the versions", "ERA-003"),
    fails("both-eras", "dual", "one-era-at-a-time", "was refused with 400 and -32600"),
    fails("result-type", "stateless", "typeless", "no resultType", "STAT-004"),
    fails("caching-hints", "stateless", "hintless", "no ttlMs", "CACHE-001"),
    fails("caching-hints", "stateless", "odd-scope", "cacheScope", "CACHE-001"),
    # More than one answer
    remarks("input-required", "stateless", "never-content", "refused it with -32602"),
    remarks("input-required", "stateless", "insatiable", "still asks for input after 5 rounds"),
    fails("input-required", "stateless", "empty-question", "without inputRequests", "MRTR-002"),
    fails("input-undeclared", "stateless", "asks-anyway", "declare", "MRTR-004"),
    fails("input-undeclared", "stateless", "needs-602", "not with -32021", "PROTO-009"),
    warns("input-left-out", "stateless", "impatient", "it should ask again"),
    fails("subscription", "stateless", "silent-subscription", "not acknowledged", "SUB-003", timeout_s=1.5),
    fails("subscription", "stateless", "refused-subscription", "declares subscribe", "SUB-003"),
    warns("subscription", "stateless", "announces-nothing", "it can announce no change", "TOOL-011"),
    fails("subscription", "stateless", "answered-subscription", "answered at once", "SUB-003"),
    fails(
        "two-subscriptions", "stateless", "confused-subscriptions", "under its id", "SUB-003", timeout_s=1.5
    ),
    warns("invalid-params", "stateless", "invalid-params-600", "-32600; -32602 says what is wrong"),
    # Lawful, if rare
    Case(
        "concurrent-requests", "stateless", "tires-of-posts", "skipped", 'so many requests: "HTTP status 429"'
    ),
    Case("invalid-params", "stateless", "", "passed", "with -32020: it lacks Mcp-Name"),
    Case("request-without-version", "stateless", "version-in-header-alone", "passed", "-32020, as a header"),
    Case(
        "header-version-missing", "dual", "blind-to-headers", "passed", "which a server of both eras may do"
    ),
    Case("older-client", "dual", "curt", "passed", 'it speaks "2025-11-25", too'),
    Case("accept", "stateful", "late-endpoint", "passed", "406"),
    Case("oauth-metadata", "stateful", "guarded", "passed", "http://auth.invalid"),
    Case("invalid-token", "stateful", "guarded", "passed", "refused with 401"),
)


def over_http(
    kind: Kind,
    flaw: str,
    folder: Path,
    only: Sequence[str] = (),
    timeout_s: float = 10,
    revision: str = "",
    change: Callable[[Site], None] | None = None,
) -> Validation:
    """These checks, or all, against a server in this loop."""
    site = Site(kind)
    if flaw:
        FLAWS[flaw](site)
    if change is not None:
        change(site)

    async def main() -> Validation:
        async with serving(site) as url:
            return await validate(
                Target(url=url),
                chosen(only),
                Recordings(rules(), str(folder / "trace.jsonl"), "trial"),
                revision=revision or NEWEST[kind],
                options=ValidateOptions(timeout_s=timeout_s, limit_s=600),
            )

    return asyncio.run(main())


@pytest.mark.parametrize("case", CASES, ids=[f"{one.probe}-{one.kind}-{one.flaw}" for one in CASES])
def test_a_probe_sees_the_flaw(case: Case, tmp_path: Path) -> None:
    lists = LISTS if case.probe.startswith(("header", "input")) else ()
    result = over_http(case.kind, case.flaw, tmp_path, (*lists, case.probe), case.timeout_s)
    seen = check(result, case.probe)
    assert seen.status == case.status, seen.conclusion
    assert case.says in seen.conclusion.message
    assert seen.conclusion.rule == case.rule
    assert seen.conclusion.frames or case.status not in ("failed", "warning")
    assert not seen.conclusion.rule or seen.conclusion.source.startswith("https://")


def test_each_loopback_address_is_this_machine(tmp_path: Path) -> None:
    def move(site: Site) -> None:
        site.host = "127.0.0.2"

    result = over_http("stateful", "any-origin", tmp_path, ("foreign-origin",), change=move)
    assert check(result, "foreign-origin").status == "failed"


@pytest.mark.parametrize("kind", ["stateful", "stateless", "dual", "older"])
def test_the_good_twin_passes_all(kind: Kind, tmp_path: Path) -> None:
    result = over_http(kind, "", tmp_path, (*LISTS, *(probe.name for probe in PROBES)))
    names = {probe.name for probe in PROBES}
    found = {one.name: one for one in result.checks if one.name in names}
    assert {name: one.conclusion for name, one in found.items() if one.status in ("failed", "warning")} == {}
    assert result.is_valid, [one.conclusion for one in result.checks if one.status == "failed"]
    skipped = {name for name, one in found.items() if one.status == "skipped"}
    assert skipped == SKIPPED[kind]


SKIPPED = {
    "stateful": {"oauth-metadata", "invalid-token", "sse-endpoint"},
    "stateless": {"oauth-metadata", "invalid-token", "both-eras"},
    "dual": {"oauth-metadata", "invalid-token", "retired-http-methods"},
    "older": {
        "oauth-metadata",
        "invalid-token",
        *(probe.name for probe in (*http.PROBES, *sessions.PROBES)),
    }
    - {"sse-endpoint", "foreign-origin"},
}


@pytest.mark.parametrize("revision", ["auto", "all", "2025-11-25"])
def test_a_redirect_within_the_server_is_followed(revision: str, tmp_path: Path) -> None:
    def move(site: Site) -> None:
        handle = site.handle
        moved = Said(307, b"Moved", {"Location": "/mcp/?tenant=1"})
        site.handle = lambda asked: moved if asked.target == "/mcp" else handle(asked)

    names = ("handshake", "session-id")
    result = over_http("stateful", "", tmp_path, names, revision=revision, change=move)
    assert result.is_valid
    assert check(result, "session-id").status == "passed"
    assert [one.name for one in result.checks].count("connect") == len(result.revisions)
    assert len(set(result.revisions)) == len(result.revisions)
    assert result.target.endswith("/mcp")
    [note] = result.notes
    assert re.fullmatch(r"(http://127.0.0.1:\d+/mcp) redirects to \1/\?tenant=1, which was tested: .*", note)


@pytest.mark.parametrize("moves", [False, True])
def test_a_server_that_does_not_answer_discover_is_told(moves: bool, tmp_path: Path) -> None:
    def change(site: Site) -> None:
        handle = site.handle

        def hang(asked: Asked) -> Said:
            if moves and asked.target == "/mcp":
                return Said(307, b"Moved", {"Location": "/mcp/?tenant=1"})
            is_discovery = b'"server/discover"' in asked.body
            return Said(200, events=[], lasts=asyncio.Queue()) if is_discovery else handle(asked)

        site.handle = hang

    result = over_http("stateful", "", tmp_path, ("handshake",), 0.5, revision="auto", change=change)
    assert (result.revisions, result.is_valid) == (("2025-11-25",), True)
    told_of = check(result, "discover")
    assert (told_of.status, told_of.revision) == ("info", "2025-11-25")
    assert told_of.conclusion.message == (
        "server/discover was not answered within 0.5 s; clients that ask it first wait before they use the "
        "handshake of 2025-11-25"
    )
    recording = Path(told_of.trace).read_text()
    assert "server/discover" in recording
    assert '"status":307' not in recording.replace(" ", "")


def forgetting(at: set[int], refusal: Said) -> Callable[[Site], None]:
    """A server that has forgotten its sessions before these requests, counted from 1."""

    def change(site: Site) -> None:
        handle, numbers = site.handle, count(1)

        def forget(asked: Asked) -> Said:
            if next(numbers) in at:
                site.sessions.clear()
            return handle(asked)

        site.handle = forget
        site.unknown_session = lambda _: refusal

    return change


GONE: Final = told({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Gone"}}, 404)
ODD: Final = Said(200, events=['data: {"error":"no session"}\n\n'])
PAGE: Final = Said(400, b"<html><title>No session</title></html>", {"Content-Type": "text/html"})
WALK: Final = ("lifecycle", "tools", "resources", "prompts", "logging", "jsonrpc")


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (GONE, ": HTTP status 404: Gone"),
        (PAGE, ": HTTP status 400: No session"),
        (ODD, " came something that is not a message: the object has no method, result or error"),
    ],
)
def test_a_session_that_the_server_forgot_fails_one_check_and_is_begun_anew(
    refusal: Said, words: str, tmp_path: Path
) -> None:
    result = over_http("stateful", "", tmp_path, WALK, change=forgetting({14}, refusal))
    [failed] = [one for one in result.checks if one.status == "failed" and one.name in CHECKS]
    assert failed.conclusion.message.startswith("the session is lost: ")
    assert failed.conclusion.message.endswith(words)
    assert failed.conclusion.frames
    later = result.checks[result.checks.index(failed) + 1 :]
    assert len([one for one in later if one.name in CHECKS and one.status == "passed"]) > 9


def test_a_server_that_forgets_every_session_is_tried_twice(tmp_path: Path) -> None:
    result = over_http("stateful", "", tmp_path, WALK, change=forgetting({14, 24}, GONE))
    failed = [one for one in result.checks if one.status == "failed"]
    assert [one.conclusion.message[:19] for one in failed] == ["the session is lost"] * 2
    why = f"the session was lost 2 times, at last at {failed[1].name}: no answer to "
    later = [one for one in result.checks[result.checks.index(failed[1]) + 1 :] if one.name in CHECKS]
    assert len(later) > 9
    assert {one.conclusion.message.startswith(why) for one in later} == {True}
    [note] = result.notes
    assert note.startswith(f"{len(later)} checks skipped: {why}")


def test_a_server_that_hangs_up_is_asked_for_no_more_sessions(tmp_path: Path) -> None:
    def change(site: Site) -> None:
        answer, numbers = site.answer, count(1)

        async def hang_up(said: Said, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if next(numbers) > 14:
                raise ConnectionError
            await answer(said, reader, writer)

        site.answer = hang_up

    result = over_http("stateful", "", tmp_path, WALK, change=change)
    lost, refused = [one.conclusion.message for one in result.checks if one.status == "failed"]
    cut = "it cut the exchange short (it closed the connection without a response"
    kept = f"{cut}; it had been kept open)"
    assert re.fullmatch(rf"the session is lost: no answer to \S+: {re.escape(kept)}", lost)
    assert refused == f"no answer to initialize: {cut})"
    skipped = Counter(one.conclusion.message for one in result.checks if one.status == "skipped")
    assert skipped[f"no other session can be opened: {refused}"] > 9


def test_a_server_with_a_limit_of_requests_has_lost_no_session(tmp_path: Path) -> None:
    def change(site: Site) -> None:
        handle, numbers = site.handle, count(1)
        site.handle = lambda asked: Said(429, b"slow down") if next(numbers) > 14 else handle(asked)

    result = over_http("stateful", "", tmp_path, WALK, change=change)
    assert [one for one in result.checks if one.status == "failed"] == []
    skipped = [one.conclusion.message for one in result.checks if one.status == "skipped"]
    assert len([text for text in skipped if text.startswith("the server refuses so many requests")]) > 9
    assert not [text for text in (*skipped, *result.notes) if "lost" in text or "opened" in text]


def test_a_server_that_drops_kept_connections_fails_one_check(tmp_path: Path) -> None:
    def change(site: Site) -> None:
        answer, served = site.answer, Counter[asyncio.StreamWriter]()

        async def drop(said: Said, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            served[writer] += 1
            if served[writer] == 3:  # the second is a notification, which nobody misses
                raise ConnectionError
            await answer(said, reader, writer)

        site.answer = drop

    result = over_http("stateful", "", tmp_path, WALK, change=change)
    [failed] = [one.conclusion.message for one in result.checks if one.status == "failed"]
    assert failed.endswith("(it closed the connection without a response; it had been kept open)")


def test_redirects_in_a_circle_end(tmp_path: Path) -> None:
    def turn(site: Site) -> None:
        site.handle = lambda asked: Said(308, b"", {"Location": "/b" if asked.target == "/a" else "/a"})

    with pytest.raises(CouldNotStartError, match=r"HTTP status 308 to http://127.0.0.1:\d+/[ab]; try that"):
        over_http("stateful", "", tmp_path, revision="auto", change=turn)


def test_a_request_is_served_before_anything_else_on_stdio(tmp_path: Path) -> None:
    good = tried(target(), tmp_path / "good", ("first-request",), "2026-07-28")
    assert check(good, "first-request").status == "passed"
    bad = tried(target("discovery-first"), tmp_path / "bad", ("first-request",), "2026-07-28")
    assert check(bad, "first-request").status == "failed"
    assert check(bad, "first-request").conclusion.rule == "STAT-009"


def test_who_goes_by_the_first_request_is_not_blamed_for_one_without_version(tmp_path: Path) -> None:
    names = ("request-without-version", "unsupported-version-request", "result-type")
    result = tried(target("era-by-opening"), tmp_path, names, "2026-07-28")
    assert check(result, "request-without-version").conclusion.message.startswith("refused with -32601")
    assert {name: check(result, name).status for name in names} == dict.fromkeys(names, "passed")


def test_a_served_request_in_an_unlisted_version_fails_one_check(tmp_path: Path) -> None:
    result = over_http("stateless", "any-version", tmp_path, ("unsupported-version-request",))
    found = [one for one in result.checks if one.status in ("failed", "warning")]
    assert [one.name for one in found] == ["unsupported-version-request"]
    says = "a request in version 1900-01-01 was served with 200, not refused with -32022"
    assert found[0].conclusion.message == says


def test_a_stream_of_http_sse_that_begins_with_something_else(tmp_path: Path) -> None:
    result = over_http("older", "late-endpoint", tmp_path, ("sse-endpoint",))
    assert any(one.conclusion.rule == "HTTP-001" and one.status == "failed" for one in result.checks)


def test_no_probe_is_without_its_flaw() -> None:
    broken = {case.probe for case in CASES if case.status in ("failed", "warning", "info")} | {
        "first-request"
    }
    not_of_http_alone = {"huge-message", "handshake", "invalid-params"}
    assert {probe.name for probe in PROBES} == broken - not_of_http_alone
    used = {case.flaw for case in CASES}
    assert set(FLAWS) - used == set(), http_flaws.__name__


@pytest.mark.parametrize("kind", ["stateful", "stateless"])
def test_not_to_speak_the_other_era_is_no_fault_among_all_revisions(kind: Kind, tmp_path: Path) -> None:
    result = over_http(kind, "", tmp_path, ("handshake",), revision="all")
    found = [one.status for one in result.checks if one.name == "handshake"]
    spoken = STATEFUL if kind == "stateful" else STATELESS
    assert found == ["passed" if revision in spoken else "skipped" for revision in REVISIONS]
    assert result.is_valid


def test_a_server_that_lets_nobody_in_is_not_judged(tmp_path: Path) -> None:
    with pytest.raises(CouldNotStartError, match="HTTP status 401; give credentials with --header"):
        over_http("stateful", "guarded", tmp_path, ("handshake",), revision="all")


def test_what_is_known_of_a_server_that_lets_nobody_in_is_reported(tmp_path: Path) -> None:
    result = over_http("stateful", "guarded", tmp_path, ("handshake", "oauth-metadata", "invalid-token"))
    assert {one.name for one in result.checks if one.status == "passed"} == {
        "connect",
        "oauth-metadata",
        "invalid-token",
    }
    assert "HTTP status 401; give credentials" in result.untested
    assert (result.verdict, result.exit_code) == ("undecided", 2)
