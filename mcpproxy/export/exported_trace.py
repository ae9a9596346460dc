"""A recording that is exported: with or without what looks like a secret, and what is missing from it."""

import os
import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

from mcpproxy.base.visible import visible
from mcpproxy.edit.redact import Redaction, RedactionScope
from mcpproxy.importers.import_source import unix_ns
from mcpproxy.opening import open_trace
from mcpproxy.session.exchanges import Fields
from mcpproxy.session.frame import Finding, RequestHead
from mcpproxy.trace.copy import write_trace
from mcpproxy.trace.reader import Trace
from mcpproxy.trace.records import Header

_AUTHORITY: Final = r"(?:[A-Za-z0-9._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
_HOST: Final = re.compile(_AUTHORITY)
_ABSOLUTE: Final = re.compile(rf"https?://{_AUTHORITY}(?:[/?].*)?", re.IGNORECASE)
_URL_CHARACTERS: Final = "!#$%&'()*+,/:;=?@[]~"
_NOT_JUDGED: Final = "it was recorded by another program and not judged; mcpproxy check judges it"


class ExportedTrace:
    """The recording of ``original``, read from ``trace``, which may be a copy of it without secrets."""

    def __init__(self, original: Trace, trace: Trace) -> None:
        self._original: Final = original
        self.trace: Final = trace
        self.header: Final = trace.header
        self.name: Final = visible(os.path.basename(original.path))
        self.started_ns: Final = unix_ns(trace.header.started_at) or 0
        """When it began, as nanoseconds since 1970; 0 if it does not say so."""

    @property
    def notes(self) -> list[str]:
        """What is missing from the recording, each as a part of a sentence.

        Known when ``trace`` has been read to its end once.
        """
        notes = [visible(note) for note in self._original.notes]
        tally = self.trace.tally
        if self.header.imported:
            notes.append(_NOT_JUDGED)
        elif tally and tally.not_judged:
            notes.append(visible(tally.not_judged))
        if more := sum(repeated.count for repeated in tally.more) if tally else 0:
            notes.append(f"{more} more findings of the same causes were only counted")
        return notes


@contextmanager
def open_exported(original: Trace, *, keep_secrets: bool) -> Generator[ExportedTrace]:
    """Open a recording to export it. Unless ``keep_secrets``, what looks like a secret is masked.

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
    """Yield the path of a copy in which everything that looks like a secret is masked.

    A copy is made because the findings about a frame may come long after the frame.

    Raises:
        TraceError: the recording cannot be read.
    """
    redaction = Redaction(RedactionScope(secrets=True))
    with tempfile.TemporaryDirectory(prefix="mcpproxy-") as folder:
        path = os.path.join(folder, os.path.basename(trace.path))
        write_trace(path, redaction.header(trace.header), redaction.lines(trace))
        yield path


def place_url(header: Header, request: RequestHead) -> str:
    """Return the URL that a request was sent to, as its client saw it.

    The ``Host`` header says more than the address on which the proxy listened, which may be ``0.0.0.0``.
    An imported recording has no such address; there the URL of the server is used.
    """
    target = quote(request.target, safe=_URL_CHARACTERS, encoding="latin-1", errors="replace")
    if _ABSOLUTE.fullmatch(target):
        return target
    scheme, _, place = (header.listen or header.upstream or "http://").partition("://")
    host = Fields(request.headers).get("host") or ""
    if not _HOST.fullmatch(host):
        host = place.partition("/")[0]
    # Other programs open no archive in which one URL cannot be read.
    return f"{scheme}://{host}{'' if target.startswith('/') else '/'}{target}"


def finding_text(finding: Finding) -> str:
    """Return a finding on one line, safe to show: ``error PROTO-007 server: ...``."""
    return visible(f"{finding.severity} {finding.rule} {finding.blame}: {finding.message}")
