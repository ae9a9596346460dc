"""Read the logins in a recording over HTTP: their steps, the first one that failed, and why.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-flow-steps
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.view.login.documents import origin, shown
from mcpproxy.read.view.login.meanings import ORDER, Stage
from mcpproxy.read.view.login.steps import LoginRemark, LoginStep, StepReader
from mcpproxy.read.view.login.web_exchanges import web_exchanges
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import Header

MOST_STEPS: Final = 500
"""Further steps are only counted."""


@dataclass(frozen=True, slots=True)
class Login:
    """The steps of all logins of a recording.

    ``failed`` is the first step that failed and was not made good later, ``None`` if there is none.
    ``conclusion`` is a clause on how the login ended. ``revision`` is the protocol revision that applies.
    ``left_out`` counts the steps after the first ``MOST_STEPS``.
    """

    steps: tuple[LoginStep, ...]
    failed: LoginStep | None
    conclusion: str
    revision: str
    left_out: int = 0


def read_login(trace: Trace) -> Login:
    """Read the logins in a recording.

    Raises:
        TraceError: the recording cannot be read.
    """
    reader = StepReader(trace.header)
    steps: list[LoginStep] = []
    left_out = 0
    for exchange in web_exchanges(trace):
        step = reader.read(exchange)
        last = steps[-1] if steps else None
        if step is None:
            continue
        if last and (last.stage, last.asked, last.answered) == (step.stage, step.asked, step.answered):
            last.again += 1
            last.last_seq = step.last_seq
        elif len(steps) < MOST_STEPS:
            step.number = len(steps) + 1
            steps.append(step)
        else:
            left_out += 1
    _add_findings(steps, trace.findings())
    failed = next((step for step in steps if step.fault and not _is_mended(step, steps)), None)
    conclusion = _conclusion(steps, failed, trace.header, reader.named)
    return Login(tuple(steps), failed, conclusion, reader.revision, left_out)


def _add_findings(steps: list[LoginStep], findings: Iterable[Finding]) -> None:
    """Add the errors and warnings of the judge about the messages of the steps."""
    for finding in findings:
        step = next((step for step in steps if step.seq <= finding.frame <= step.last_seq), None)
        if step and finding.severity != "info":
            step.remarks.append(
                LoginRemark(finding.blame, f"{finding.rule} {shown(finding.message)}", finding.source)
            )


def _is_mended(failed: LoginStep, steps: list[LoginStep]) -> bool:
    """Whether the login continued: a later step of this stage, or of a stage after it, succeeded."""
    later = [step.stage for step in steps[failed.number :] if not step.fault]
    return any(stage in ORDER[ORDER.index(failed.stage) :] for stage in later)


def _conclusion(
    steps: list[LoginStep], failed: LoginStep | None, header: Header, named: Iterable[str]
) -> str:
    if not steps:
        return "no login: no refusal for want of a token, and no request for metadata or a token"
    if failed:
        return f"it failed at step {failed.number}, {failed.stage}: {failed.fault}"
    if accepted := next((step for step in reversed(steps) if step.stage is Stage.RETRY), None):
        return f"the server takes the token (step {accepted.number})"
    last = max(steps, key=lambda step: ORDER.index(step.stage))
    clause = f"it ends with step {last.number}, {last.stage}; next comes the {_next_stage(last.stage)}"
    elsewhere = sorted({origin(url) for url in named} - {origin(header.upstream), origin(header.listen)})
    if header.mode == "reverse" and elsewhere:
        origins = ", ".join(map(shown, elsewhere[:3]))
        clause += f"; what goes to {origins} does not pass here, and mcpproxy http --forward records it"
    return clause


def _next_stage(stage: Stage) -> str:
    after = ORDER[ORDER.index(stage) + 1]
    return after if after is not Stage.REGISTRATION else f"{after}, or authorization with a known client id"
