"""A whole validation: chooses the revisions, runs every probe, and reports findings that belong to no probe.

A probe is one test of the server. Every wait for the server is limited, and so is the whole run: when the
time is over, the remaining probes are skipped, and their results say so. If the run is interrupted, the
results so far are kept.

The revisions are of two eras: those with a handshake, and those without one.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.errors import McpProxyError, UsageError
from mcpproxy.judge.session.frame import SERVER, Finding
from mcpproxy.peers.validate import era_choice, passive
from mcpproxy.peers.validate.check_list import CheckList, ProgressCallbacks
from mcpproxy.peers.validate.errors import CouldNotStartError, MovedError
from mcpproxy.peers.validate.outcome import (
    ANSWER_RULES,
    STATUS_OF,
    CheckResult,
    Conclusion,
    JudgedRecording,
    Status,
    Validation,
)
from mcpproxy.peers.validate.probe import Probe
from mcpproxy.peers.validate.probe_context import ProbeContext, ValidateOptions
from mcpproxy.peers.validate.probe_run import described, run_probe
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.peers.validate.transports.reachability import check_reachable
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS
from mcpproxy.protocol.wording import shown

_MOST_REDIRECTS: Final = 5
_MAX_SILENT_PROBES: Final = 3
"""After this many consecutive probes without an answer the server is assumed to hang."""


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
    """Test ``target`` in one ``revision``, in ``all``, or once for each era that it supports (``auto``).

    With ``strict``, warnings count as failures. The functions in ``progress`` are called while it runs.

    Raises:
        CouldNotStartError: the command cannot be run, or there is no MCP server at the URL.
        McpProxyError: the recordings cannot be written, the options do not fit the server, or ``revision`` is
            not a revision.
    """
    run = Run(target, probes, recordings, options=options, strict=strict, progress=progress)
    await run.test(revision)
    return run.result()


class Run:
    """One validation. ``test`` runs it; ``result`` returns the results so far, even after an interruption.

    The arguments are those of ``validate``.
    """

    def __init__(
        self,
        target: Target,
        probes: Sequence[Probe],
        recordings: Recordings,
        *,
        options: ValidateOptions | None = None,
        strict: bool = False,
        progress: ProgressCallbacks | None = None,
    ) -> None:
        self._target = target
        self._name: Final = target.name
        self._redirects = 0
        self._probes: Final = probes
        self._recordings: Final = recordings
        self._options: Final = options or ValidateOptions()
        self._strict: Final = strict
        self._progress: Final = progress or ProgressCallbacks()
        self._checks: Final = CheckList(self._progress)
        self._started: Final = time.monotonic()
        self._rules: Final = {
            code: rule
            for code, rule in recordings.rules.catalogue.rules.items()
            if not rule.opt_in and passive.rule_applies(code, target.transport)
        }
        self._revisions: Final[list[str]] = []
        self._judged: Final[list[JudgedRecording]] = []
        self._notes: Final[list[str]] = []
        self._faults: Final[list[str]] = []
        self._untested = ""
        self._is_dual: bool | None = None
        self._never_answers = False
        self._runs_alone = False
        self._silence = ""
        """The recording in which ``server/discover`` was not answered in time."""
        self._has_opened = False
        """Whether a session was opened in any revision so far."""

    async def test(self, revision: str = "auto") -> None:
        """Run all probes in one ``revision``, in ``all``, or once for each era of the server (``auto``).

        If there is no server any more after some results, the result says so.

        Raises:
            CouldNotStartError: the command cannot be run, or there is no MCP server at the URL.
            McpProxyError: as ``validate``.
        """
        try:
            if self._target.url:
                await check_reachable(self._target.url, self._target.upstream)
            while True:
                try:
                    await self._test_revisions(revision)
                    break
                except MovedError as fault:
                    self._follow_redirect(fault)
            self._checks.report_all()
        except CouldNotStartError as fault:
            if not self._checks.has_results:
                raise
            self._untested = str(fault)
        except McpProxyError:
            raise
        except Exception as error:  # a fault of mcpproxy must not lose the results so far
            self._faults.append(f"the validation failed in mcpproxy itself: {described(error)}")

    def result(self, *, is_interrupted: bool = False) -> Validation:
        """Return the result so far."""
        return Validation(
            self._name,
            self._target.transport,
            self._checks.server,
            revisions=tuple(self._revisions),
            checks=tuple(self._checks.checks),
            traces=tuple(self._judged),
            notes=tuple(dict.fromkeys(self._notes)),
            faults=tuple(dict.fromkeys(self._faults)),
            untested=self._untested,
            is_interrupted=is_interrupted,
            strict=self._strict,
            duration_ms=(time.monotonic() - self._started) * 1e3,
        )

    async def _test_revisions(self, wanted: str) -> None:
        for revision in await self._choose_revisions(wanted):
            is_exact, is_one_of_all = wanted != "auto", wanted == "all"
            await self._test_revision(revision, is_exact=is_exact, is_one_of_all=is_one_of_all)

    def _follow_redirect(self, moved: MovedError) -> None:
        """Start again at the URL to which the server redirects the first request, as clients do.

        Raises:
            CouldNotStartError: it redirects too often, or after other checks.
        """
        self._redirects += 1
        if self._redirects > _MOST_REDIRECTS or self._checks.has_results:
            raise CouldNotStartError(f"{self._target.name}: {moved}", moved.frames) from None
        before = self._target.name
        self._target = replace(self._target, url=moved.url)
        self._notes.append(
            f"{before} redirects to {self._target.name}, which was tested: SDKs follow, other clients may not"
        )
        self._checks.clear()
        self._revisions.clear()

    async def _choose_revisions(self, wanted: str) -> list[str]:
        """Return the revisions to test. A server that supports both eras is tested in both.

        Raises:
            UsageError: ``wanted`` is not a revision.
        """
        if wanted == "all":
            return list(REVISIONS)
        if wanted != "auto":
            if wanted not in REVISIONS:
                raise UsageError(
                    "--revision", f"{wanted!r} is not a revision", f"one of {', '.join(REVISIONS)}"
                )
            return [wanted]
        discovery = await self._try_era("discover", STATELESS[-1])
        if discovery in ("no", "silent"):
            self._silence = self._judged[-1].path if discovery == "silent" else ""
            return [STATEFUL[-1]]  # if the server does not support this era either, the probes report it
        has_handshake = await self._try_era("handshake", STATEFUL[-1]) == "yes"
        self._is_dual = has_handshake and discovery == "yes"
        if not has_handshake:
            return [STATELESS[-1]]
        if discovery == "unclear":
            self._notes.append(
                "the server answers unknown methods with a result, so its answer to server/discover does not "
                f"say that it speaks {STATELESS[-1]}; --revision {STATELESS[-1]} tests that"
            )
            return [STATEFUL[-1]]
        return [STATELESS[-1], STATEFUL[-1]]

    async def _try_era(self, name: str, revision: str) -> era_choice.Opening:
        """Return whether the server opens a session in the era of ``revision``, recorded as ``name``."""
        context = self._new_context(revision)
        try:
            async with context.new_session(name) as client:
                return await era_choice.try_era(client)
        finally:
            await context.close()
            self._collect_recordings(context, set())

    async def _test_revision(self, revision: str, *, is_exact: bool, is_one_of_all: bool) -> None:
        """Run all probes in one revision, and add the checks for findings that belong to none.

        ``is_one_of_all`` says whether all revisions are tested; a server need not support each of them.
        """
        context = self._new_context(revision, is_exact=is_exact)
        # A server has to support at least one revision. So if no earlier revision worked, the last one must.
        context.is_optional = is_one_of_all and (self._has_opened or revision != REVISIONS[-1])
        claimed: set[int] = set()  # the id() of each finding that belongs to a probe
        self._checks.begin_revision()
        try:
            await self._run_probes(context, claimed)
            if self._silence and context.server:
                self._checks.add(self._unanswered_discovery(context.revision))
        finally:
            await context.close()
            remaining = self._collect_recordings(context, claimed)
            self._revisions.append(context.revision)
        if not any(recording.tally.frames[SERVER] for recording in context.session_recordings):
            return  # the server sent nothing that could be judged
        counts = passive.message_counts(context.session_recordings)
        rules_with_findings = {finding.rule for _, finding in remaining}
        rules = {
            code: rule.name
            for code, rule in self._recordings.rules.catalogue.rules.items()
            if code in rules_with_findings or (code in self._rules and rule.keywords(context.revision))
        }
        remaining = _unreported(remaining, self._checks.current_revision_checks())
        for check in passive.rule_checks(remaining, counts, context.revision, rules):
            self._checks.add(check)

    def _unanswered_discovery(self, revision: str) -> CheckResult:
        """Return the check that ``server/discover``, sent before the handshake, was not answered."""
        text = (
            f"server/discover was not answered within {self._options.timeout_s:g} s; clients that ask it "
            f"first wait before they use the handshake of {revision}"
        )
        conclusion = Conclusion("info", text)
        return CheckResult("discover", "lifecycle", conclusion, 0, revision=revision, trace=self._silence)

    async def _run_probes(self, context: ProbeContext, claimed: set[int]) -> None:
        silent_probes, left_out = 0, 0
        reason = ""  # why the remaining probes are skipped; empty while they run
        for number, probe in enumerate(self._probes, start=1):
            if self._target.transport not in probe.transports or context.revision not in probe.revisions:
                continue
            self._progress.begins(probe.name, number, len(self._probes))
            remaining_s = self._started + self._options.limit_s - time.monotonic()
            if remaining_s <= 0:
                reason = reason or f"the time for the whole run ({self._options.limit_s:g} s) is over"
            left_out += bool(reason)
            run = await run_probe(probe, context, claimed, remaining_s=remaining_s, skip_because=reason)
            if run.fault:
                self._faults.append(run.fault)
            is_excused = context.is_revision_refused and context.is_optional
            self._checks.add(_excused(run.result) if is_excused else run.result)
            self._has_opened = self._has_opened or bool(context.server)
            if context.server or context.open_failure:
                self._checks.server = self._checks.server or context.server_info
                self._checks.set_revision(context.revision)
            silent_probes = silent_probes + 1 if run.is_silent else 0
            if silent_probes >= _MAX_SILENT_PROBES:
                reason = reason or "the server does not answer any more"
            reason = reason or context.open_failure
            if context.exhausted:
                reason = reason or f"the server {context.exhausted}"
        if left_out and context.server:  # otherwise the handshake says why it failed
            self._notes.append(f"{count(left_out, 'check')} skipped: {reason}")

    def _new_context(self, revision: str, *, is_exact: bool = False) -> ProbeContext:
        context = ProbeContext(self._target, self._options, self._recordings, revision, is_exact=is_exact)
        context.is_dual = self._is_dual
        context.never_answers, context.runs_alone = self._never_answers, self._runs_alone
        context.was_seen = any(judged.server_frames for judged in self._judged)
        return context

    def _collect_recordings(self, context: ProbeContext, claimed: set[int]) -> list[tuple[str, Finding]]:
        """Collect the recordings of a context; return the findings in them that belong to no probe.

        Findings of ``ANSWER_RULES`` in a provoked session are left out.
        """
        self._never_answers = self._never_answers or context.never_answers
        if context.runs_alone and not self._runs_alone:
            self._runs_alone = True
            self._notes.append(
                "a second process of the server says nothing while the first one runs, so the checks run one "
                "at a time"
            )
        remaining: list[tuple[str, Finding]] = []
        for recording in context.session_recordings:
            server_findings = tuple(recording.server_findings)
            self._judged.append(
                JudgedRecording(recording.path, server_findings, recording.frames, recording.server_frames)
            )
            remaining += [
                (recording.path, finding)
                for finding in server_findings
                if id(finding) not in claimed
                and not (recording.was_provoked and finding.rule in ANSWER_RULES)
            ]
            if recording.limited:
                requests = count(len(recording.limited), "request")
                why = shown(next(iter(recording.limited.values())))
                self._notes.append(f"the server refused {requests}, because there were too many: {why}")
            if recording.fault:
                self._notes.append(recording.fault)
            if recording.judge_fault:
                self._faults.append(f"{recording.path}: mcpproxy stopped judging: {recording.judge_fault}")
        return remaining


def _unreported(
    findings: list[tuple[str, Finding]], reported: Sequence[CheckResult]
) -> list[tuple[str, Finding]]:
    """Return the findings that no check in ``reported`` covers.

    A check covers a finding of the same requirement if the check failed, or if both have the same status.
    """
    status_of_requirement: dict[str, Status] = {}
    for conclusion in (check.conclusion for check in reported):
        if conclusion.requirement and status_of_requirement.get(conclusion.requirement) != "failed":
            status_of_requirement[conclusion.requirement] = conclusion.status
    return [
        (path, finding)
        for path, finding in findings
        if status_of_requirement.get(finding.requirement) not in ("failed", STATUS_OF[finding.severity])
    ]


def _excused(result: CheckResult) -> CheckResult:
    """Return a failed result as skipped, because a server need not support every revision."""
    if result.status != "failed":
        return result
    return replace(result, conclusion=replace(result.conclusion, status="skipped"))
