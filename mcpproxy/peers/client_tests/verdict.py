"""The verdict on a client in one scenario.

A client that breaks a MUST of the specification, crashes, hangs, exits with an error where it must go on, or
repeats refused requests without end has failed. Breaking a SHOULD is a warning. Behaviour that the
specification leaves open is an info of the whole run (see ``behaviour``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.base.system_words import end_text
from mcpproxy.judge.session.frame import WORST_FIRST, Finding
from mcpproxy.peers.client_tests.client_process import Stay
from mcpproxy.peers.client_tests.peer import ANSWER_S
from mcpproxy.peers.client_tests.rows.authorized import REFUSALS
from mcpproxy.peers.client_tests.scenario import CANCELLED, Scenario
from mcpproxy.peers.client_tests.seen import SeenClient
from mcpproxy.peers.validate.outcome import Conclusion, conclusion_of
from mcpproxy.protocol.rules import Catalogue

_PING: Final = "LIFE-004/R-040"
"""The requirement that a ping is answered: its rule and its id."""

_SESSION_ID: Final = "PROTO-010/R-091"
"""The requirement that a client sends the id of its session."""

LATE_S: Final = 2.0
"""If our server takes this long to answer, beyond the ``delay_s`` of its scenario, the machine is too
busy."""


@dataclass(frozen=True, slots=True)
class Played:
    """One scenario that was played: what the client did, how it ended, and which rules it broke.

    ``findings`` are errors and warnings about the client, each with the path of its recording. ``trouble`` is
    what went wrong between a host and the scripted model beside its server, empty if nothing did.
    """

    scenario: Scenario
    seen: SeenClient
    stay: Stay
    findings: Sequence[tuple[str, Finding]]
    trouble: str = ""


def lacking(played: Played) -> str:
    """Return what the client did not do that the scenario needs; empty if it did all."""
    scenario, seen = played.scenario, played.seen
    if not seen.sessions:
        return "the client did not start its server"
    if not seen.has_sent(scenario.needs):
        return f"the client sent no {scenario.needs}"
    if scenario.declared and not any(name in seen.capabilities for name in scenario.declared):
        return f"the client declares none of {', '.join(scenario.declared)}"
    return ""


def verdict(
    played: Played, ordinary: Played | None, reported: set[str], catalogue: Catalogue, revision: str
) -> tuple[Conclusion, str]:
    """Return the conclusion about one scenario, and the path of the recording with its frames, if any.

    ``ordinary`` is the play with the ordinary server, which does nothing odd, or ``None`` if this is that
    play: a hang, or an exit with an error, counts only if the client exits with 0 there. ``reported`` are the
    requirements that an earlier scenario has reported; those of this one are added. ``catalogue`` has the
    rules; how severe they are depends on ``revision``.

    If our server was late, a failure that may be the effect is only a warning, and a later scenario may
    report it again.
    """
    reported_before = set(reported)
    conclusion, path = _conclusion(played, ordinary, reported, catalogue, revision)
    words = lateness(played)
    if conclusion.status != "failed" or not words or _has_crashed(played.stay):
        return conclusion, path
    if not _may_follow_from_lateness(played, path, conclusion):
        return conclusion, path
    reported.intersection_update(reported_before)
    advice = "try again with --jobs 1, or when the machine is less busy"
    text = f"{conclusion.message}; but {words}, so that the client may only have given up: {advice}"
    return replace(conclusion, status="warning", message=text), path


def lateness(played: Played) -> str:
    """Return a clause: how late our server answered the client's last request.

    It is empty if the answer was not late, or if none was due.
    """
    last, scenario = played.seen.last, played.scenario
    is_due = last and (last.is_answered or scenario.reaction == "goes on" or last.method != scenario.awaited)
    if last is None or not is_due or last.waited_ns / 1e9 - scenario.delay_s < LATE_S:
        return ""
    return f"our server took {last.waited_ns / 1e9:.1f} s to answer {last.method}"


def of_another_era(played: Played) -> bool:
    """Whether a client sends stateless requests only, although it was answered in time.

    A client that gave up ``server/discover`` may have meant to send ``initialize`` next.
    """
    return played.seen.knows_no_session and not lateness(played)


def _may_follow_from_lateness(played: Played, path: str, conclusion: Conclusion) -> bool:
    """Whether a conclusion may be the effect of a late answer.

    It may be if it has no frames, or if the first of them, where the fault is, comes after the last request.
    """
    last, frames = played.seen.last, conclusion.frames
    return not frames or (last is not None and path == last.path and frames[0] > last.frame)


def _conclusion(
    played: Played, ordinary: Played | None, reported: set[str], catalogue: Catalogue, revision: str
) -> tuple[Conclusion, str]:
    """Return what ``verdict`` returns, before lateness makes a failure a warning."""
    new = [pair for pair in played.findings if pair[1].requirement not in reported]
    reported.update(finding.requirement for _, finding in new)
    is_late = bool(lateness(played))

    def rank(pair: tuple[str, Finding]) -> tuple[int, bool]:
        path, finding = pair
        is_unsure = is_late and _may_follow_from_lateness(played, path, conclusion_of(finding))
        return WORST_FIRST.index(finding.severity), is_unsure

    new.sort(key=rank)
    if new and new[0][1].severity == "error":
        return _judged_conclusion(new)
    if unanswered := _verdict_on_pings(played.seen, catalogue, revision):
        return unanswered
    if bare := _verdict_on_session_id(played.seen, reported, catalogue, revision):
        return bare
    if reason := failure(played, ordinary):
        return Conclusion("failed", reason), ""
    if new:
        return _judged_conclusion(new)
    if reason := lacking(played):
        told_by_model = f" (its model: {played.trouble})" if played.trouble else ""
        return Conclusion("skipped", reason + told_by_model), ""
    known = " (what it breaks is told above)" if played.findings else ""
    return Conclusion("passed", f"{count(played.seen.messages, 'message')} judged{known}"), ""


def _verdict_on_pings(seen: SeenClient, catalogue: Catalogue, revision: str) -> tuple[Conclusion, str] | None:
    """Return the verdict on a client that answers none of two or more pings, for which the server waited.

    Return ``None`` for any other client, and in a revision that does not demand the answers. The judge has no
    finding about them, because it does not know that the server waited.
    """
    if not _answers_no_ping(seen):
        return None
    text = f"client answered none of {seen.pings} pings, each of which waited {ANSWER_S:.0f} s"
    return _verdict_on_violation(_PING, text, list(seen.open_pings.values()), catalogue, revision)


def _answers_no_ping(seen: SeenClient) -> bool:
    return seen.pings >= 2 and len(seen.open_pings) >= seen.pings


def _verdict_on_session_id(
    seen: SeenClient, reported: set[str], catalogue: Catalogue, revision: str
) -> tuple[Conclusion, str] | None:
    """Return the verdict on a client that leaves out the id of its session, unless it is in ``reported``.

    Return ``None`` otherwise, and in a revision that does not demand the id. The judge has no finding about a
    request on another connection than that of ``initialize``: such a request may come from another client.
    """
    requirement = _SESSION_ID.partition("/")[2]
    if not seen.without_session or requirement in reported:
        return None
    reported.add(requirement)
    text = "client sent messages without the session id that it was given"
    return _verdict_on_violation(_SESSION_ID, text, seen.without_session, catalogue, revision)


def _verdict_on_violation(
    name: str, text: str, evidence: Sequence[tuple[str, int]], catalogue: Catalogue, revision: str
) -> tuple[Conclusion, str] | None:
    """Return the verdict that a requirement is violated; ``None`` if it is not a MUST of this revision.

    ``name`` is the rule and the id of the requirement. ``evidence`` are pairs of recording and frame; only
    the frames of the first recording are cited.
    """
    requirement = catalogue.requirements.get(name)
    if requirement is None or requirement.severity([revision]) != "error":
        return None
    path = evidence[0][0]
    frames = tuple(frame for where, frame in evidence if where == path)
    source = requirement.source([revision])
    return Conclusion("failed", text, frames, requirement.rule, source, requirement.id), path


def _judged_conclusion(findings: Sequence[tuple[str, Finding]]) -> tuple[Conclusion, str]:
    path, first = findings[0]
    others = len({finding.requirement for _, finding in findings}) - 1
    more = f" (and {others} more: mcpproxy check)" if others else ""
    return conclusion_of(first, more), path


def _hangs(played: Played, ordinary: Played | None) -> bool:
    """Whether the client had to be ended, although it exits with 0 by itself with the ordinary server.

    A client that may wait, or that did not cancel the call that the scenario is about, does not hang.
    """
    if ordinary is None or ordinary.stay.code != 0 or played.stay.code is not None:
        return False
    return played.scenario.reaction != "may wait" and not (
        played.scenario.needs == CANCELLED and lacking(played)
    )


def may_be_late(played: Played, ordinary: Played | None) -> bool:
    """Whether a failure may be the effect of a machine that was too slow for so many clients at once."""
    has_errors = any(finding.severity == "error" for _, finding in played.findings)
    is_late = has_errors and bool(lateness(played))
    return bool(failure(played, ordinary)) or _answers_no_ping(played.seen) or is_late


def _has_crashed(stay: Stay) -> bool:
    return stay.code is not None and stay.code < 0


def failure(played: Played, ordinary: Played | None) -> str:
    """Return how the client crashed, hung, gave up or repeated refused requests, as a clause; else empty."""
    stay, reaction = played.stay, played.scenario.reaction
    words = f": {stay.last_words}" if stay.last_words else ""
    if _has_crashed(stay):
        return f"the client {end_text(stay.code)}{words}"
    if (refusals := played.seen.refusals) > REFUSALS:
        return f"the client asks again and again: it was refused with 401 {refusals} times"
    if ordinary is None or ordinary.stay.code != 0:
        return ""
    if _hangs(played, ordinary):
        return f"the client hangs: it was ended after {stay.seconds:.0f} s; --timeout gives it longer"
    if stay.code and reaction == "goes on":
        return f"the client {end_text(stay.code)}, and with the ordinary server with 0{words}"
    return ""
