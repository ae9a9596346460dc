"""Findings about models' prompts among recordings, of which one or more are of a model's interface."""

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
    """Return the findings of the run of ``own``, the recording of a model's interface, one of ``entries``.

    Two models that were open beside a server may be two of one host, which does not offer each tool to both.
    """
    found = prompt_findings(report, own.path, catalogue)
    lost = {one.server for one in found if one.finding.rule in TOOLS_LOST}
    if not lost:
        return found
    servers = {number: recording(report.servers[number].server.path) for number in lost}
    others = [
        each
        for each in entries
        if each.path != own.path
        and any(is_beside(server, each) for server in servers.values())
        and _of_a_model(each) is not None
    ]
    shared = {number for number, server in servers.items() if any(is_beside(server, each) for each in others)}
    return tuple(one for one in found if one.server not in shared or one.finding.rule not in TOOLS_LOST)


def findings_of_runs(
    paths: Iterable[str], catalogue: Catalogue, takes: Callable[[str], bool]
) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Yield the path of each recording of a server with the findings of the rules that ``takes`` accepts."""
    if not any(map(takes, PROMPTS)):
        return
    entries = [recording(path) for path in paths]
    models = [(entry, trace) for entry in entries if (trace := _of_a_model(entry)) is not None]
    for own, trace in models:
        servers = [entry.path for entry in entries if is_beside(entry, own)]
        report = read_run(trace, servers, only_reads=True)
        found = findings_of_run(report, own, [each for each, _ in models], catalogue)
        for number, path in enumerate(servers):
            taken = tuple(one.finding for one in found if one.server == number and takes(one.finding.rule))
            if taken:
                yield path, taken


def _of_a_model(entry: RecordingEntry) -> Trace | None:
    """Return the recording, if it is one of a model's interface."""
    if entry.transport != "http" or entry.client:
        return None
    try:
        trace = read_untouched(entry.path)
        return trace if is_of_a_model(trace) else None
    except TraceError:
        return None
