"""Runs one probe and turns whatever happens into its result.

The conclusion is the worse of what the probe returned and what the judge found in the meantime. If the probe
itself fails, which is a fault of mcpproxy, the result says so, and the other probes go on.
"""

import asyncio
import time
import traceback
from dataclasses import dataclass
from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.session.frame import Finding
from mcpproxy.validate.errors import CouldNotStartError, GoneError, Skipped, TimedOutError, ValidateError
from mcpproxy.validate.outcome import STATUS_OF, CheckResult, Conclusion
from mcpproxy.validate.probe import Probe
from mcpproxy.validate.probe_context import ProbeContext

_WORK: Final = ("tools/call", "prompts/get", "resources/read", "completion/complete")
"""Requests for work that may take any time."""


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """The result of one probe.

    ``is_silent``: the server gave no answer in time. ``fault`` says how mcpproxy itself failed, and is empty
    if it did not.
    """

    result: CheckResult
    is_silent: bool = False
    fault: str = ""


async def run_probe(
    probe: Probe, context: ProbeContext, claimed: set[int], *, left_s: float, skip_because: str = ""
) -> ProbeRun:
    """Run ``probe`` for at most ``left_s`` seconds, or skip it because of ``skip_because``.

    The findings that decide it are added to ``claimed``, by identity.

    Raises:
        CouldNotStartError: there is no server.
        McpProxyError: the options do not fit the server, or a recording cannot be written.
    """
    started = time.monotonic()
    context.touched.clear()
    marks = {recording.path: len(recording.findings) for recording in context.session_recordings}
    is_silent, fault = False, ""
    try:
        if skip_because:
            raise Skipped(skip_because)
        await _prepare(probe, context)
        async with asyncio.timeout(left_s):
            conclusion = await probe.run(context)
    except Skipped as reason:
        conclusion = Conclusion("skipped", str(reason))
    except CouldNotStartError:
        raise
    except ValidateError as failure:
        is_silent = isinstance(failure, TimedOutError) and not _may_take_long(failure)
        conclusion = _failure(probe, failure)
        if isinstance(failure, TimedOutError):
            await context.drop_session()
    except TimeoutError:
        conclusion = Conclusion("skipped", "the time for the whole run ended in the middle of it")
        await context.drop_session()
    except McpProxyError:
        raise
    except Exception as error:  # a fault of mcpproxy must not lose the results of the other probes
        fault = f"the check {probe.name} failed in mcpproxy itself: {described(error)}"
        conclusion = Conclusion("skipped", f"not a fault of the server: {described(error)}")
        await context.drop_session()
    if probe.unlawful:
        context.mark_provoked()
    path = context.touched[-1].path if context.touched else context.session_path
    if probe.disruptive:
        await context.close_session()
    found = [
        (recording.path, one)
        for recording, one in context.findings(marks)
        if one.rule in probe.rules and id(one) not in claimed
    ]
    conclusion, path = _worse(conclusion, found, path)
    claimed.update(id(one) for _, one in found)
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


def described(error: Exception) -> str:
    """An exception of mcpproxy in one line: its type, its text, and where it was raised."""
    text = " ".join(str(error).split())
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" ({frame.name}, line {frame.lineno} of {frame.filename})" for frame in last)
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


async def _prepare(probe: Probe, context: ProbeContext) -> None:
    for path in probe.needs:
        if not context.declares(path):
            raise Skipped(f"the server does not declare {path}")
    if probe.session and not context.has_session:
        await context.open()


def _failure(probe: Probe, failure: ValidateError) -> Conclusion:
    frames = tuple(number for number in failure.frames if number)
    if probe.unlawful and isinstance(failure, GoneError | TimedOutError):
        effect = "ends" if isinstance(failure, GoneError) else "silences"
        text = f"{failure}; no sentence forbids it, but a mistake of a client {effect} the server"
        return Conclusion("warning", text, frames)
    if _may_take_long(failure):
        return Conclusion("warning", f"{failure}; no sentence says how long it may take", frames)
    return Conclusion("failed", str(failure), frames)


def _may_take_long(failure: ValidateError) -> bool:
    return isinstance(failure, TimedOutError) and failure.method in _WORK


def _worse(
    conclusion: Conclusion | None, found: list[tuple[str, Finding]], path: str
) -> tuple[Conclusion, str]:
    """The worse of the probe's own conclusion and the judge's findings, and the recording that shows it.

    ``path`` is the recording of the probe's own conclusion.
    """
    own = conclusion or Conclusion("passed", "nothing was found")
    serious = [each for each in found if each[1].severity != "info"]
    if not serious or (own.status == "failed" and (own.rule or own.source)):
        return own, path
    where, worst = next((each for each in serious if each[1].severity == "error"), serious[0])
    frames = tuple(number for number in (worst.frame, *worst.related) if number)
    # A probe that failed without citing the specification takes the finding's message and source.
    status = "failed" if own.status == "failed" else STATUS_OF[worst.severity]
    message, rule, source = worst.message, worst.rule, worst.source
    return Conclusion(status, message, frames, rule, source, worst.requirement), where
