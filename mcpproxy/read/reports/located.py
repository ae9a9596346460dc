"""Find the places of findings (the file and line of the frame's record) and their fingerprints.

Build servers show a finding beside a line of a file, and distinguish new findings from known findings. For
both, the recording must be read again, so that is done only if there are findings and the report needs it.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import Finding, Frame, RequestHead, ResponseHead
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.read.reports.fingerprint import NOTHING, Subject, fingerprint
from mcpproxy.record.trace.conversation import Conversation, Turn
from mcpproxy.record.trace.members import NotARecordError, read_object
from mcpproxy.record.trace.reader import Trace

__all__ = ["Located", "Place", "Remark", "RemarkKind", "locate", "recording_name", "relative"]


@slotted(frozen=True)
class Place:
    """The place of a frame's record: the number of the frame, the file, and the line, counted from 1.

    ``line`` is 0 in recordings of other programs, because their lines are not records. A finding about the
    whole session (``frame`` 0) is placed in the first line.
    """

    frame: int
    path: str
    line: int


@slotted(frozen=True)
class Located:
    """A finding, the place of its frame, and its fingerprint.

    ``line`` is 0 if it is not known. ``occurrence`` counts, from 1, how often this fingerprint has occurred
    in the recording so far. ``related`` are the places of ``finding.related``. ``is_known`` is set if a
    baseline accepts the finding, and ``why`` is the reason given there.
    """

    finding: Finding
    path: str
    line: int
    related: tuple[Place, ...] = ()
    fingerprint: str = ""
    occurrence: int = 1
    is_known: bool = False
    why: str = ""


RemarkKind: TypeAlias = Literal[
    "incomplete recording", "more findings", "not judged", "failed before any message", "note"
]
"""What a remark is about: missing parts of a recording, findings that are not listed, a recording that was
not judged, a server that failed before any message, or anything else. Reports use these words as titles."""


@slotted(frozen=True)
class Remark:
    """A sentence about a recording; it is no finding."""

    path: str
    text: str
    kind: RemarkKind = "incomplete recording"


def locate(trace: Trace, findings: Iterable[Finding]) -> tuple[Located, ...]:
    """Return the ``findings`` of ``trace`` with their places, in the same order. This reads the trace again.

    Raises:
        TraceError: the trace can no longer be read.
    """
    findings = tuple(findings)
    wanted = {number for finding in findings for number in (finding.frame, *finding.related)}
    places, subjects = _read_places(trace, wanted - {0}) if findings else ({}, {})
    counts: Counter[str] = Counter()
    located: list[Located] = []
    for finding in findings:
        digest = fingerprint(finding, _subject(finding, subjects))
        counts[digest] += 1
        place = _place(places, finding.frame, trace)
        related = tuple(_place(places, number, trace) for number in finding.related)
        located.append(Located(finding, place.path, place.line, related, digest, counts[digest]))
    return tuple(located)


def recording_name(path: str) -> str:
    """Return the name of a recording without its folder and without the suffix ``.jsonl``."""
    return os.path.basename(path).removesuffix(".jsonl")


def relative(path: str, base: str) -> str:
    """Return ``path`` relative to ``base``; its absolute path if it is not inside. Separators are ``/``."""
    absolute = os.path.abspath(path)
    try:
        is_inside = os.path.commonpath([absolute, os.path.abspath(base)]) == os.path.abspath(base)
    except ValueError:  # another drive
        is_inside = False
    return (os.path.relpath(absolute, base) if is_inside else absolute).replace(os.sep, "/")


def _place(places: Mapping[int, Place], number: int, trace: Trace) -> Place:
    return places.get(number) or Place(number, trace.path, 0 if number or trace.is_import else 1)


@slotted(frozen=True)
class _FrameSubjects:
    """What the messages in a frame are about (their ``Subject``); a batch has several messages."""

    subjects: tuple[Subject, ...]

    def subject_of(self, finding: Finding) -> Subject:
        """Return the subject of the message that a finding points into; the first subject by default."""
        index = 0
        if len(self.subjects) > 1:  # in a batch, a pointer begins with the position of the message
            first_token = (finding.pointer or "").split("/")[1:2]
            index = int(first_token[0]) if first_token and first_token[0].isdecimal() else 0
        return self.subjects[index] if index < len(self.subjects) else NOTHING


def _subject(finding: Finding, subjects: Mapping[int, _FrameSubjects]) -> Subject:
    """Return the subject of a finding.

    If its message has no method (a response with a wrong id), method and name are those of the first related
    frame.
    """
    subject = subjects.get(finding.frame, _UNKNOWN).subject_of(finding)
    if not subject.method and finding.related:
        request = subjects.get(finding.related[0], _UNKNOWN).subjects[0]
        return Subject(request.method, request.name, subject.value)
    return subject


_UNKNOWN: Final = _FrameSubjects((NOTHING,))


def _read_places(trace: Trace, wanted: set[int]) -> tuple[dict[int, Place], dict[int, _FrameSubjects]]:
    """Read the trace, and return the places and the subjects of the ``wanted`` frames and heads."""
    conversation = Conversation()
    places: dict[int, Place] = {}
    subjects: dict[int, _FrameSubjects] = {}
    missing = set(wanted)
    for event in trace.events() if wanted else ():
        conversation.track_session(event)
        if not isinstance(event, Frame | RequestHead | ResponseHead):
            continue
        turns = () if not isinstance(event, Frame) or event.by_proxy else conversation.turns(event)
        if event.seq not in missing:
            continue
        path, line = trace.place
        places[event.seq] = Place(event.seq, path, 0 if trace.is_import else line)
        subjects[event.seq] = _subjects_of(event, turns)
        missing.discard(event.seq)
        if not missing:
            break
    return places, subjects


def _subjects_of(event: Frame | RequestHead | ResponseHead, turns: tuple[Turn, ...]) -> _FrameSubjects:
    if isinstance(event, RequestHead):
        return _FrameSubjects((Subject(f"HTTP {event.method}"),))
    if isinstance(event, ResponseHead):
        return _FrameSubjects((Subject("HTTP response"),))
    value = _value(event)
    subjects = (Subject(turn.method or "", turn.target or "", value) for turn in turns)
    return _FrameSubjects(tuple(subjects) or (NOTHING,))


def _value(frame: Frame) -> JSON:
    """Return the frame's message as a JSON value; ``None`` if it is not JSON."""
    try:
        # ``read_object`` accepts only objects, and a message may be any JSON value.
        return read_object(b'{"value":%b}' % frame.raw).get("value")
    except NotARecordError:
        return None
