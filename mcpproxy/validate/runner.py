"""A whole validation: chooses the revisions, runs every probe, and reports the remaining findings.

Every wait for the server is limited, and so is the whole run; probes for which no time is left are skipped,
and their result says so.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mcpproxy.errors import UsageError
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS
from mcpproxy.session.frame import Finding
from mcpproxy.validate import passive
from mcpproxy.validate.errors import CouldNotStartError, Skipped, TimedOutError, ValidateError
from mcpproxy.validate.outcome import STATUS_OF, CheckResult, Conclusion, JudgedRecording, Status, Validation
from mcpproxy.validate.probe import Probe
from mcpproxy.validate.probe_context import ProbeContext, ValidateOptions
from mcpproxy.validate.recordings import Recordings, Target

_MAX_SILENT_PROBES: Final = 3
"""After this many consecutive probes without an answer the server is assumed to hang."""


@dataclass(slots=True)
class ProgressCallbacks:
    """``begins`` is called with the name of each probe as it starts, ``ends`` with each check as it ends."""

    begins: Callable[[str], None] = field(default=lambda _: None)
    ends: Callable[[CheckResult], None] = field(default=lambda _: None)


async def validate(
    target: Target,
    probes: Sequence[Probe],
    recordings: Recordings,
    *,
    revision: str = "auto",
    options: ValidateOptions | None = None,
    strict: bool = False,
    progress: ProgressCallbacks | None = None,
) -> Validation:
    """Test ``target`` with ``probes`` in one ``revision``, in ``all``, or in those of the server (``auto``).

    Raises:
        CouldNotStartError: the command cannot be run, or nothing listens at the URL.
        McpProxyError: the recordings cannot be written.
    """
    options = options or ValidateOptions()
    started = time.monotonic()
    if target.url:
        from mcpproxy.validate.http_endpoint import reachable

        await reachable(target.url)
    run = _Run(
        target, probes, recordings, options, progress or ProgressCallbacks(), started + options.limit_s
    )
    for wanted in await run.revisions(revision):
        await run.test_revision(wanted, is_exact=revision != "auto", is_one_of_all=revision == "all")
    return Validation(
        target.name,
        target.transport,
        run.server,
        revisions=tuple(run.tested),
        checks=tuple(run.checks),
        traces=tuple(run.judged),
        notes=tuple(dict.fromkeys(run.notes)),
        strict=strict,
        duration_ms=(time.monotonic() - started) * 1e3,
    )


class _Run:
    def __init__(
        self,
        target: Target,
        probes: Sequence[Probe],
        recordings: Recordings,
        options: ValidateOptions,
        progress: ProgressCallbacks,
        deadline: float,
    ) -> None:
        self.server: JSONObject = {}
        self.tested: Final[list[str]] = []
        self.checks: Final[list[CheckResult]] = []
        self.judged: Final[list[JudgedRecording]] = []
        self.notes: Final[list[str]] = []
        self._target: Final = target
        self._is_dual: bool | None = None
        self._probes: Final = probes
        self._recordings: Final = recordings
        self._options: Final = options
        self._progress: Final = progress
        self._deadline: Final = deadline
        self._names: Final = {
            code: rule.name
            for code, rule in recordings.rules.catalogue.rules.items()
            if not rule.opt_in and passive.applies(code, target.transport)
        }

    async def revisions(self, wanted: str) -> list[str]:
        """The revisions to test. A server of both eras is tested in both."""
        if wanted == "all":
            return list(REVISIONS)
        if wanted != "auto":
            if wanted not in REVISIONS:
                raise UsageError("--revision", f"{wanted!r} is none", f"one of {', '.join(REVISIONS)}")
            return [wanted]
        found: list[str] = []
        context = ProbeContext(self._target, self._options, self._recordings, STATELESS[-1])
        try:
            async with context.new_session("discover") as client:
                await client.discover()
                found.append(client.revision)
        except CouldNotStartError:
            raise
        except ValidateError:
            pass  # a stateful server; the probes of its era report what is wrong
        finally:
            await context.close()
            self._collect(context, set())
        if found:
            self._is_dual = await self._speaks_handshake()
        if not found or self._is_dual:
            found.append(STATEFUL[-1])
        return found

    async def _speaks_handshake(self) -> bool:
        context = ProbeContext(self._target, self._options, self._recordings, STATEFUL[-1])
        try:
            async with context.new_session("handshake") as client:
                await client.initialize()
                return True
        except ValidateError:
            return False
        finally:
            await context.close()
            self._collect(context, set())

    async def test_revision(self, revision: str, *, is_exact: bool, is_one_of_all: bool) -> None:
        """Run all probes in one revision. If it ``is_one_of_all``, a server need not speak it."""
        context = ProbeContext(self._target, self._options, self._recordings, revision, is_exact=is_exact)
        context.is_dual = self._is_dual
        claimed: set[int] = set()
        before = len(self.checks)
        silent = 0
        why = ""
        try:
            for probe in self._probes:
                if self._applies(probe, context):
                    result, is_silent = await self._run_probe(probe, context, why, claimed)
                    # A server has to speak at least one revision: after none, the last one is a failure.
                    is_left = bool(self.server) or revision != REVISIONS[-1]
                    if context.is_revision_refused and is_one_of_all and is_left:
                        result = _excused(result)
                    self._add(result)
                    silent = silent + 1 if is_silent else 0
                    if silent >= _MAX_SILENT_PROBES and not why:
                        why = "the server does not answer any more"
                    why = why or context.open_failure
        finally:
            await context.close()
        self.tested.append(context.revision)
        self.server = self.server or context.server_info
        left = _unreported(self._collect(context, claimed), self.checks[before:])
        frames = sum(recording.frames for recording in context.session_recordings)
        for check in passive.checks(left, frames, context.revision, self._names):
            self._add(check)

    def _applies(self, probe: Probe, context: ProbeContext) -> bool:
        return self._target.transport in probe.transports and context.revision in probe.revisions

    async def _run_probe(
        self, probe: Probe, context: ProbeContext, why: str, claimed: set[int]
    ) -> tuple[CheckResult, bool]:
        """Run one probe; its result, and whether the server gave no answer in time."""
        self._progress.begins(probe.name)
        started = time.monotonic()
        context.touched.clear()
        marks = {recording.path: len(recording.findings) for recording in context.session_recordings}
        is_silent = False
        try:
            left_s = self._deadline - started
            if why or left_s <= 0:
                raise Skipped(why or f"the time for the whole run ({self._options.limit_s:g} s) is over")
            await self._prepare(probe, context)
            async with asyncio.timeout(left_s):
                conclusion = await probe.run(context)
        except Skipped as reason:
            conclusion = Conclusion("skipped", str(reason))
        except CouldNotStartError:
            raise
        except ValidateError as fault:
            is_silent = isinstance(fault, TimedOutError)
            conclusion = Conclusion("failed", str(fault), tuple(n for n in fault.frames if n))
        except TimeoutError:
            is_silent = True
            conclusion = Conclusion("failed", "the time for the whole run is over in the middle of it")
        path = context.touched[-1].path if context.touched else context.session_path
        if is_silent:
            await context.drop_session()
        elif probe.disruptive:
            await context.close_session()
        found = [
            (recording.path, one)
            for recording, one in context.findings(marks)
            if one.rule in probe.rules and id(one) not in claimed
        ]
        conclusion, path = _decided(conclusion, found, path)
        claimed.update(id(one) for _, one in found)
        took_ms = (time.monotonic() - started) * 1e3
        result = CheckResult(
            probe.name,
            probe.category,
            conclusion,
            took_ms,
            rules=probe.rules,
            revision=context.revision,
            trace=path,
        )
        return result, is_silent

    async def _prepare(self, probe: Probe, context: ProbeContext) -> None:
        for path in probe.needs:
            if not context.declares(path):
                raise Skipped(f"the server does not declare {path}")
        if probe.session and not context.has_session:
            await context.open()

    def _add(self, check: CheckResult) -> None:
        self.checks.append(check)
        self._progress.ends(check)

    def _collect(self, context: ProbeContext, claimed: set[int]) -> list[tuple[str, Finding]]:
        """Collect the recordings of a context; return the findings in them that decided no probe."""
        left: list[tuple[str, Finding]] = []
        for recording in context.session_recordings:
            ours = tuple(finding for finding in recording.findings if finding.blame == "server")
            self.judged.append(JudgedRecording(recording.path, ours, recording.frames))
            left += [(recording.path, finding) for finding in ours if id(finding) not in claimed]
            if recording.fault:
                self.notes.append(recording.fault)
        return left


def _unreported(
    findings: list[tuple[str, Finding]], told: Sequence[CheckResult]
) -> list[tuple[str, Finding]]:
    """The findings that add to the probes: on other requirements, or of a higher severity."""
    known: dict[tuple[str, str], Status] = {}
    for check in told:
        place = (check.conclusion.rule, check.conclusion.source)
        if check.conclusion.rule and known.get(place) != "failed":
            known[place] = check.status
    return [
        (path, one)
        for path, one in findings
        if known.get((one.rule, one.source)) not in ("failed", STATUS_OF[one.severity])
    ]


def _excused(result: CheckResult) -> CheckResult:
    """Turn a failure into a skip: a server need not speak every revision."""
    if result.status != "failed":
        return result
    return replace(result, conclusion=replace(result.conclusion, status="skipped"))


def _decided(
    conclusion: Conclusion | None, found: list[tuple[str, Finding]], path: str
) -> tuple[Conclusion, str]:
    """The conclusion of a probe and its recording: the worse of its own conclusion and the observer's.

    ``path`` is the recording of its own conclusion.
    """
    own = conclusion or Conclusion("passed", "nothing was found")
    serious = [each for each in found if each[1].severity != "info"]
    if not serious or (own.status == "failed" and (own.rule or own.source)):
        return own, path
    where, worst = next((each for each in serious if each[1].severity == "error"), serious[0])
    frames = tuple(number for number in (worst.frame, *worst.related) if number)
    # A probe that failed without citing the specification takes the finding's message and source.
    status = "failed" if own.status == "failed" else STATUS_OF[worst.severity]
    return Conclusion(status, worst.message, frames, worst.rule, worst.source), where
