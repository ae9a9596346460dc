"""Findings about models' prompts, when recordings are judged among which is one of a model's interface."""

from collections.abc import Callable, Iterable, Iterator

from mcpproxy.errors import TraceError
from mcpproxy.opening import read_untouched
from mcpproxy.prompt.findings import PROMPTS, TOOLS_LOST, prompt_findings
from mcpproxy.prompt.run import is_beside, is_of_a_model, read_run
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.session.frame import Finding
from mcpproxy.trace.reader import Trace
from mcpproxy.view.folder import recording
from mcpproxy.view.recording_entry import RecordingEntry


def findings_of_runs(
    paths: Iterable[str], catalogue: Catalogue, takes: Callable[[str], bool]
) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Yield the path of each recording of a server with the findings of the rules that ``takes`` accepts.

    Two models that were open beside a server may be two of one host, which does not offer each tool to both.
    """
    if not any(map(takes, PROMPTS)):
        return
    entries = [recording(path) for path in paths]
    models = [(entry, trace) for entry in entries if (trace := _of_a_model(entry)) is not None]
    for own, trace in models:
        servers = [entry.path for entry in entries if is_beside(entry, own)]
        found = prompt_findings(read_run(trace, servers, only_reads=True), own.path, catalogue)
        for number, path in enumerate(servers):
            is_alone = sum(is_beside(recording(path), each) for each, _ in models) == 1
            taken = tuple(
                one.finding
                for one in found
                if one.server == number
                and takes(one.finding.rule)
                and (is_alone or one.finding.rule not in TOOLS_LOST)
            )
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
