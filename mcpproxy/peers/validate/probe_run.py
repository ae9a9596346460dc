"""Runs one probe (a test of a server), and turns what it returns or raises into a result.

While a probe runs, the judge checks all messages against the rules. The conclusion is the worse of two: what
the probe returned, and the findings of the judge. If the probe itself fails, which is a fault of mcpproxy,
the result says so, and the other probes still run.
"""

import asyncio
import time
import traceback
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import Finding
from mcpproxy.peers.validate.errors import (
    CouldNotStartError,
    GoneError,
    HttpStatusError,
    Skipped,
    TimedOutError,
    UnansweredError,
    ValidateError,
)
from mcpproxy.peers.validate.outcome import CheckResult, Conclusion, Status, conclusion_of
from mcpproxy.peers.validate.passive import worst_finding
from mcpproxy.peers.validate.probe import Probe
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.protocol.wording import shown

_ABOUT_SERVER: Final[tuple[Status, ...]] = ("failed", "warning", "info")
"""The statuses that say something against the server, even if only as a remark."""

_MOST_LOSSES: Final = 2
"""After this many lost sessions over HTTP, the other checks are skipped."""

_SLOW_METHODS: Final = ("tools/call", "prompts/get", "resources/read", "completion/complete")
"""Methods whose response may take long, because it depends on the work of the server."""


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """The result of one probe.

    ``is_silent`` is true if the server gave no answer in time to a request that should not take long.
    ``fault`` says how mcpproxy itself failed; it is empty otherwise.
    """

    result: CheckResult
    is_silent: bool = False
    fault: str = ""


async def run_probe(
    probe: Probe, context: ProbeContext, claimed: set[int], *, remaining_s: float, skip_because: str = ""
) -> ProbeRun:
    """Run ``probe`` for at most ``remaining_s`` seconds, or skip it because of ``skip_because``.

    The time to open the shared session before the probe is not limited by ``remaining_s``.

    ``claimed`` contains the ``id()`` of each finding that belongs to a probe: it is about one of the probe's
    rules, and was made while the probe ran. This function adds the findings that belong to ``probe``.

    Raises:
        CouldNotStartError: there is no server.
        McpProxyError: the options do not fit the server, or a recording cannot be written.
    """
    started = time.monotonic()
    context.probe_recordings.clear()
    findings_before = {
        id(finding) for recording in context.session_recordings for finding in recording.findings
    }
    limits_before = len(context.limits())
    is_silent, fault = False, ""
    try:
        if skip_because:
            raise Skipped(skip_because)
        await _prepare(probe, context)
        async with asyncio.timeout(remaining_s):
            conclusion = await _run_alone_if_needed(probe, context)
    except Skipped as reason:
        conclusion = Conclusion("skipped", str(reason))
    except CouldNotStartError:
        raise
    except ValidateError as failure:
        is_silent = isinstance(failure, TimedOutError) and not _may_take_long(failure)
        if context.exhausted:  # a limit of ours, which no revision has
            conclusion = Conclusion("skipped", f"the server {context.exhausted}")
        else:
            is_unlawful = probe.unlawful and not context.open_failure
            conclusion = _failure_conclusion(failure, is_unlawful=is_unlawful, ping_fails=context.ping_fails)
        if probe.name == "ping" and isinstance(failure, UnansweredError):
            context.ping_fails = True
            context.inventory.failures["ping"] = str(failure)
        if isinstance(failure, TimedOutError):
            await context.drop_session()
    except TimeoutError:
        conclusion = Conclusion("skipped", "the time for the whole run ended during this check")
        await context.drop_session()
    except McpProxyError:
        raise
    except Exception as error:  # a fault of mcpproxy must not lose the results of the other probes
        fault = f"the check {probe.name} failed in mcpproxy itself: {described(error)}"
        conclusion = Conclusion("skipped", f"not a fault of the server: {described(error)}")
        await context.drop_session()
    if probe.unlawful:
        context.mark_provoked()
    is_lasting = probe.session and not probe.disruptive
    if is_lasting and conclusion is not None and conclusion.status in ("failed", "warning"):
        conclusion = await _unless_lost(probe, context, conclusion, limits_before)
    new_limits = context.limits()[limits_before:]
    if new_limits and context.server and conclusion is not None and conclusion.status in _ABOUT_SERVER:
        text = f"the server refuses so many requests: {shown(new_limits[0])}"
        conclusion = Conclusion("skipped", text, conclusion.frames)
    path = context.probe_recordings[-1].path if context.probe_recordings else context.session_path
    if probe.disruptive:
        await context.close_session()
    findings = [
        (recording.path, finding)
        for recording in context.session_recordings
        for finding in recording.server_findings
        if finding.rule in probe.rules and id(finding) not in findings_before
    ]
    conclusion, path = _worse(conclusion, findings, path)
    claimed.update(id(finding) for _, finding in findings)
    result = CheckResult(
        probe.name,
        probe.category,
        conclusion,
        duration_ms=(time.monotonic() - started) * 1e3,
        rules=probe.rules,
        revision=context.revision,
        trace=path,
    )
    return ProbeRun(result, is_silent, fault)


async def _run_alone_if_needed(probe: Probe, context: ProbeContext) -> Conclusion | None:
    """Run a probe. If its process sent nothing while the shared one ran, run it again without that one.

    No revision demands that two processes of a server work side by side, and hosts start only one.
    """
    try:
        return await probe.run(context)
    except ValidateError:
        if not context.may_run_alone():
            raise
    await _prepare(probe, context)
    try:
        return await probe.run(context)
    except ValidateError:
        context.runs_alone = False
        raise


async def _unless_lost(
    probe: Probe, context: ProbeContext, conclusion: Conclusion, limits_before: int
) -> Conclusion:
    """Return ``conclusion``; if the probe lost the shared session, return a conclusion that says so instead.

    ``limits_before`` is how often the server had refused a request before the probe because there were too
    many. After a loss the next probe gets a new session; after ``_MOST_LOSSES`` no more probes run. A loss
    after a mistake of our client is only a warning, and not counted.
    """
    why = await context.why_lost()
    if not why or len(context.limits()) > limits_before:  # after too many requests, the session is not lost
        return conclusion
    await context.close_session()
    frames = conclusion.frames
    # What looks like a violation of a rule may be an effect of the loss.
    if not (conclusion.rule or conclusion.source):
        why = conclusion.message
    if probe.unlawful:
        text = f"{why}; no revision forbids it, but after a mistake of a client the session is over"
        is_said = conclusion.status == "warning" and why == conclusion.message
        return conclusion if is_said else Conclusion("warning", text, frames)
    context.losses += 1
    if context.losses >= _MOST_LOSSES:
        context.open_failure = f"the session was lost {context.losses} times, at last at {probe.name}: {why}"
    return Conclusion("failed", f"the session is lost: {why}", frames)


def described(error: Exception) -> str:
    """Describe an exception in one line: its type, its text, and where it was raised."""
    text = " ".join(str(error).split())
    last_frame = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" ({frame.name}, line {frame.lineno} of {frame.filename})" for frame in last_frame)
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


async def _prepare(probe: Probe, context: ProbeContext) -> None:
    """Check that the probe applies, and open the shared session if the probe uses it.

    Raises:
        Skipped: the server does not declare a capability that the probe needs.
        ValidateError: the session cannot be opened.
    """
    for capability in probe.needs:
        if not context.declares(capability):
            raise Skipped(f"the server does not declare {capability}")
    if probe.session and not context.has_session:
        limits_before = len(context.limits())
        try:
            await context.open()
        except (GoneError, HttpStatusError) as fault:
            was_limited = len(context.limits()) > limits_before
            if context.server and not was_limited:  # there was one before
                context.open_failure = f"no other session can be opened: {fault}"
            raise


def _failure_conclusion(failure: ValidateError, *, is_unlawful: bool, ping_fails: bool) -> Conclusion:
    """Return the conclusion for an error of the server.

    ``is_unlawful``: the probe sent messages that a client must not send. ``ping_fails``: the server answers
    no ping anyway, so an unanswered ping says nothing about the messages before it.
    """
    frames = tuple(number for number in failure.frames if number)
    if ping_fails and isinstance(failure, GoneError) and failure.method == "ping":
        return Conclusion("skipped", "it takes a ping, and the server does not survive one", frames)
    if is_unlawful and ping_fails and isinstance(failure, TimedOutError):
        text = "the server does not answer a ping without a mistake of a client either"
        return Conclusion("skipped", text, frames)
    if is_unlawful and isinstance(failure, UnansweredError):
        effect = "the session is over" if isinstance(failure, GoneError) else "nothing is answered"
        text = f"{failure}; no revision forbids it, but after a mistake of a client {effect}"
        return Conclusion("warning", text, frames)
    if _may_take_long(failure):
        return Conclusion("warning", f"{failure}; no revision says how long it may take", frames)
    return Conclusion("failed", str(failure), frames)


def _may_take_long(failure: ValidateError) -> bool:
    return isinstance(failure, TimedOutError) and failure.method in _SLOW_METHODS


def _worse(
    conclusion: Conclusion | None, findings: list[tuple[str, Finding]], path: str
) -> tuple[Conclusion, str]:
    """Return the worse of the probe's conclusion and the judge's findings, and the path of its recording.

    ``path`` is the recording of the probe's conclusion.
    """
    conclusion = conclusion or Conclusion("passed", "nothing was found")
    serious = [pair for pair in findings if pair[1].severity != "info"]
    if not serious or (conclusion.status == "failed" and (conclusion.rule or conclusion.source)):
        return conclusion, path
    worst_path, finding = worst_finding(serious)
    judged = conclusion_of(finding)
    # The finding replaces the conclusion. Only the status of a failed probe is kept: a warning does not
    # weaken it.
    return (replace(judged, status="failed") if conclusion.status == "failed" else judged), worst_path
