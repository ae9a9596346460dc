"""Open a recording to export: its secrets are masked or kept, and notes tell what is missing."""

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.edit.redact import Redaction, RedactionScope
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.copy import write_trace
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import not_judged


class ExportedTrace:
    """The recording ``original``, read from ``trace``, which is ``original`` or a copy without secrets.

    ``name`` is the name of its file, safe to show, and ``started_ns`` its start in nanoseconds since 1970.
    """

    def __init__(self, original: Trace, trace: Trace) -> None:
        self._original: Final = original
        self.trace: Final = trace
        self.header: Final = trace.header
        self.name: Final = visible(os.path.basename(original.path))
        self.started_ns: Final = trace.header.started_unix_ns

    @property
    def notes(self) -> list[str]:
        """What is missing from the recording, was not judged, or was only counted, each note a clause.

        The notes are complete after ``trace`` has been read to its end once.
        """
        notes = [visible(note) for note in self._original.notes]
        tally = self.trace.tally
        if reason := not_judged(self.header, tally):
            notes.append(visible(reason))
        if more := sum(repeated.count for repeated in tally.more) if tally else 0:
            notes.append(f"{more} more findings of the same causes were only counted")
        return notes


@contextmanager
def open_exported(original: Trace, *, keep_secrets: bool) -> Generator[ExportedTrace]:
    """Open a recording to export it; secrets are masked unless ``keep_secrets``.

    Raises:
        TraceError: the recording cannot be read.
    """
    if keep_secrets:
        yield ExportedTrace(original, original)
        return
    with masked_copy(original) as path:
        yield ExportedTrace(original, open_trace(path))


@contextmanager
def masked_copy(trace: Trace) -> Generator[str]:
    """Yield the path of a temporary copy in which secrets are masked.

    A copy is needed because masking reads a recording in order, and exports read its findings first.

    Raises:
        TraceError: the recording cannot be read.
    """
    redaction = Redaction(RedactionScope(secrets=True))
    with tempfile.TemporaryDirectory(prefix="mcpproxy-") as folder:
        path = os.path.join(folder, os.path.basename(trace.path))
        write_trace(path, redaction.header(trace.header), redaction.lines(trace))
        yield path


def finding_text(finding: Finding) -> str:
    """Return a finding on one line, safe to show: ``error PROTO-007 server: ...``."""
    return visible(f"{finding.severity} {finding.rule} {finding.blame}: {finding.message}")
