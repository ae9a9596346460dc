"""Packs a file of a recording for the store: masks it if that is wanted, compresses, counts and hashes it."""

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hmac import digest
from typing import IO, Final, cast

import zstandard

from mcpproxy.base.files import open_regular
from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.edit.redact import Redaction, RedactionScope
from mcpproxy.record.trace.encode import encode_header
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.records import CloseRecord, Continued, Header
from mcpproxy.send.fleet import urls
from mcpproxy.send.fleet.closed_files import ClosedFile, record_of
from mcpproxy.send.fleet.manifest import FILES
from mcpproxy.send.fleet.store import SINGLE_PUT_BYTES

_LEVEL: Final = 6
"""The level of compression of zstd."""
_FINDING: Final = b'"finding"'
_CONTINUED: Final = b'{"type":"continued"'
_START_BYTES: Final = 96
"""How many bytes at the start of a line have the kind and the time of its record."""
_TIME: Final = re.compile(rb'"t":(\d{1,20})[,}]')
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_LABEL_CHARACTERS: Final = 60
"""How many characters of a label a key has."""


@dataclass(slots=True)
class Facts:
    """Counts and digests of a file; the members are as in ``Manifest``."""

    bytes: int = 0
    sha256: str = ""
    packed_bytes: int = 0
    packed_sha256: str = ""
    first_ns: int = 0
    last_ns: int = 0
    ending: str = ""
    frames: Mapping[str, int] | None = None
    findings: Mapping[str, int] | None = None
    rules: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True)
class Packed:
    """A file that is ready to be shipped. ``content`` has its compressed bytes, in memory if they are few.

    ``content`` is positioned at its end, and the caller of ``pack`` closes it.
    """

    content: IO[bytes]
    header: Header
    facts: Facts


def recording_id(file: ClosedFile) -> str:
    """Return the id that the files of one recording share: 16 hex digits."""
    header = file.header
    parts = (header.started_at, header.started_ns, header.pid, header.ppid, header.boot, header.label)
    own_name = file.name if header.imported else ""  # imports have no process
    return hashlib.sha256("\0".join(map(str, (*parts, own_name))).encode()).hexdigest()[:16]


def key_of(file: ClosedFile, label: str) -> str:
    """Return the key under which a file is stored; ``label`` is the result of ``label_of``."""
    date = file.header.started_at[:10]
    return "/".join(
        (
            FILES,
            f"date={date if _DATE.fullmatch(date) else 'unknown'}",
            f"server={urls.escaped(label[:_LABEL_CHARACTERS]) or 'unknown'}",
            recording_id(file),
            f"{urls.escaped(file.name)}.zst",
        )
    )


def pack(file: ClosedFile, mask_key: bytes | None) -> Packed:
    """Compress a file; with ``mask_key``, mask secrets first.

    Equal values of one recording get equal masks, and packing a file again gives the same content.

    Raises:
        McpProxyError: the file cannot be masked.
        OSError: it cannot be read, or the folder for temporary files is full.
    """
    content = cast("IO[bytes]", tempfile.SpooledTemporaryFile(SINGLE_PUT_BYTES))  # noqa: SIM115 # the caller closes it
    header, lines = file.header, _plain_lines(file.path)
    if mask_key is not None:
        redaction = Redaction(
            RedactionScope(secrets=True), mask_key=digest(mask_key, recording_id(file).encode(), "sha256")
        )
        header = redaction.header(header)
        lines = _masked_lines(file, redaction, header)
    facts = Facts()
    try:
        _write_packed(lines, content, facts)
    except BaseException:
        content.close()
        raise
    return Packed(content, header, facts)


def label_of(file: ClosedFile, mask_key: bytes | None) -> str:
    """Return a recording's label; with ``mask_key``, secrets in it are masked, alike in all recordings."""
    if mask_key is None:
        return file.header.label
    return Redaction(RedactionScope(secrets=True), mask_key=mask_key).header(file.header).label


def _plain_lines(path: str) -> Iterator[bytes]:
    with open(open_regular(path), "rb") as file:
        yield from file


def _masked_lines(file: ClosedFile, redaction: Redaction, header: Header) -> Iterator[bytes]:
    yield encode_header(header)
    trace = read_trace(file.path)
    trace.files[:] = [file.path]
    for _, line in redaction.lines(trace):
        yield line
    with open(open_regular(file.path), "rb") as source:
        source.seek(0, 2)
        source.seek(-min(source.tell(), 64 << 10), 2)
        last = source.read().rstrip(b"\n").rpartition(b"\n")[2]
    if last.startswith(_CONTINUED):  # redaction reads a whole recording, which has no such record
        yield last + b"\n"


def _write_packed(lines: Iterable[bytes], content: IO[bytes], facts: Facts) -> None:
    """Compress ``lines`` into ``content``, and set ``facts`` about them."""
    plain, packed = hashlib.sha256(), hashlib.sha256()
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj()
    rules: Counter[str] = Counter()
    times: list[int] = []
    last = b""
    for line in lines:
        last = line
        plain.update(line)
        facts.bytes += len(line)
        if piece := compressor.compress(line):
            packed.update(piece)
            facts.packed_bytes += content.write(piece)
        if match := _TIME.search(line, 0, _START_BYTES):
            times[1:] = [int(match[1])]
        elif line.find(_FINDING, 0, _START_BYTES) >= 0 and isinstance(record := record_of(line), Finding):
            rules[record.rule] += 1
    piece = compressor.flush()
    packed.update(piece)
    facts.packed_bytes += content.write(piece)
    facts.sha256, facts.packed_sha256 = plain.hexdigest(), packed.hexdigest()
    facts.rules = dict(sorted(rules.items()))
    if times:
        facts.first_ns, facts.last_ns = times[0], times[-1]
    closing = record_of(last)
    if isinstance(closing, CloseRecord | Continued) and (tally := closing.tally):
        facts.frames, facts.findings = {**tally.frames}, {**tally.total_findings}
    if isinstance(closing, CloseRecord):
        facts.ending = closing.close.ending
    elif isinstance(closing, Continued):
        facts.ending = "continued"
