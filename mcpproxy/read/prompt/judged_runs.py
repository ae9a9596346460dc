"""Find what hosts did to prompts (rules PROMPT), given recordings of servers and of models' interfaces.

A run is one conversation with a model, and the sessions with servers that its host had open beside it.
"""

from collections.abc import Callable, Iterable, Iterator

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import Finding
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.read.opening import read_untouched
from mcpproxy.read.prompt.findings import PROMPTS, TOOLS_LOST, PromptFinding, prompt_findings
from mcpproxy.read.prompt.report import PromptReport
from mcpproxy.read.prompt.run import is_beside, is_of_a_model, read_run
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.record.trace.reader import Trace


def findings_of_run(
    report: PromptReport, own: RecordingEntry, entries: Iterable[RecordingEntry], catalogue: Catalogue
) -> tuple[PromptFinding, ...]:
    """Return the findings of the run that ``report`` describes.

    ``own`` is the recording of the model's interface, and one of ``entries``. If another model's recording
    was open beside a server too, no tool of that server is reported as lost: both models may be of one host,
    which need not offer every tool to both.
    """
    findings = prompt_findings(report, own.path, catalogue)
    lost = {lost_tool.server for lost_tool in findings if lost_tool.finding.rule in TOOLS_LOST}
    if not lost:
        return findings
    servers = {number: recording(report.servers[number].server.path) for number in lost}
    others = [
        entry
        for entry in entries
        if entry.path != own.path
        and any(is_beside(server, entry) for server in servers.values())
        and _model_trace(entry) is not None
    ]
    shared = {
        number for number, server in servers.items() if any(is_beside(server, other) for other in others)
    }
    return tuple(
        prompt_finding
        for prompt_finding in findings
        if prompt_finding.server not in shared or prompt_finding.finding.rule not in TOOLS_LOST
    )


def findings_of_runs(
    paths: Iterable[str], catalogue: Catalogue, takes: Callable[[str], bool]
) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Yield the path of each server's recording with its PROMPT findings, if ``takes`` accepts their rules.

    A path comes once for each recording of a model's interface that gives it findings.

    Raises:
        TraceError: a recording cannot be read.
    """
    if not any(map(takes, PROMPTS)):
        return
    entries = [recording(path) for path in paths]
    models = [(entry, trace) for entry in entries if (trace := _model_trace(entry)) is not None]
    for own, trace in models:
        servers = [entry.path for entry in entries if is_beside(entry, own)]
        report = read_run(trace, servers, only_reads=True)
        findings = findings_of_run(report, own, [entry for entry, _ in models], catalogue)
        for number, path in enumerate(servers):
            taken = tuple(
                prompt_finding.finding
                for prompt_finding in findings
                if prompt_finding.server == number and takes(prompt_finding.finding.rule)
            )
            if taken:
                yield path, taken


def _model_trace(entry: RecordingEntry) -> Trace | None:
    """Return the trace if ``entry`` is a readable recording of a model's interface; otherwise ``None``."""
    if entry.transport != "http" or entry.client:
        return None
    try:
        trace = read_untouched(entry.path)
        return trace if is_of_a_model(trace) else None
    except TraceError:
        return None
