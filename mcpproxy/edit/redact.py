"""A copy of a recording in which values are masked; all other bytes are unchanged.

The recorder masks credentials with the same masks (``mcpproxy.session.masked_values``). Here they are made
with a random key that is not kept: equal values have equal masks in one file, and different masks in another.
A replay matches a masked value with any value, and no rule judges a masked value.

The members that determine the kind of a message (``jsonrpc``, ``id``, ``method``, versions) are never masked.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.base.secret_values import PATTERNS, names_credential, value_after
from mcpproxy.protocol.jsonrpc import Flaw, Malformed
from mcpproxy.protocol.jsontext import unescaped
from mcpproxy.protocol.wording import token
from mcpproxy.recorder.masking import Masker
from mcpproxy.recorder.secret_arguments import ArgumentMasking, arguments, names_option
from mcpproxy.session.frame import (
    Close,
    Event,
    Finding,
    Frame,
    Gap,
    Headers,
    Note,
    RequestHead,
    ResponseHead,
    SseEvent,
    Stderr,
)
from mcpproxy.session.masked_values import MARK, is_masked, mask
from mcpproxy.trace.encode import encode, encode_finding
from mcpproxy.trace.reader import Trace
from mcpproxy.trace.records import Encoded, Header
from mcpproxy.trace.session_labels import SessionNames

PROTECTED: Final = (
    "/jsonrpc",
    "/id",
    "/method",
    "/error/code",
    "/params/requestId",
    "/params/protocolVersion",
    "/result/protocolVersion",
    "/params/_meta/io.modelcontextprotocol~1protocolVersion",
)
"""Members that determine the kind of a message."""

_JSON_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
_QUOTED: Final = re.compile(r"(['\"]).*\1", re.DOTALL)
_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Members of a JSON Schema whose members are schemas, under the names of the values they describe."""

_ARGUMENT_HEADER_PREFIX: Final = "mcp-param-"
_NESTED: Final = 3
"""How many levels of JSON inside JSON strings are searched."""


@dataclass(frozen=True, slots=True)
class RedactionScope:
    """The values to mask.

    ``keys`` are names of members, headers and parameters, case-insensitive. What a pattern in ``values``
    matches is masked; if the pattern has groups, only the first group that matched. In ``pointers``, ``*``
    stands for one step and ``**`` for any number. ``secrets`` masks everything that looks like a credential.
    """

    keys: Sequence[str] = ()
    values: Sequence[re.Pattern[str]] = ()
    pointers: Sequence[str] = ()
    secrets: bool = False

    @property
    def kinds(self) -> str:
        """The kinds of values to mask, as the header of the copy says them; empty if there are none."""
        kinds = {"keys": self.keys, "values": self.values, "pointers": self.pointers, "secrets": self.secrets}
        return ",".join(kind for kind, given in kinds.items() if given)


class Redaction:
    """Masks the records of one trace, in order."""

    def __init__(self, scope: RedactionScope) -> None:
        self.masked = 0
        """How many values were masked."""
        self.text_pieces = 0
        """How many pieces of overlong messages there are; in those only ``values`` are searched for."""
        self._scope = scope
        self._mask_key: Final = os.urandom(32)
        self._names: Final = frozenset(key.lower() for key in scope.keys)
        texts = [*scope.values, *(PATTERNS if scope.secrets else ())]
        # In texts that are not JSON, a key is found as ``name=value`` or ``name: value``.
        self._texts: Final = [*texts, value_after(scope.keys)] if scope.keys else texts
        self._pointers: Final = [re.compile(_expression(pointer)) for pointer in scope.pointers]
        self._credentials: Final = Masker(self._mask_key, keep=not scope.secrets)  # ``keep``: masks nothing
        self._altered: Final[set[int]] = set()  # the numbers of frames and heads with masked values
        # The name of a session is derived from its id, so it changes if the id is masked.
        self._session_names_before: Final = SessionNames()
        self._session_names_after: Final = SessionNames()

    def header(self, header: Header) -> Header:
        """Return the header of the copy, which says which kinds of values are masked.

        ``boot`` and ``ppid`` would identify the machine and its processes.
        """
        before = () if header.redaction == "none" else (header.redaction,)
        urls = {name: self._url(getattr(header, name)) for name in ("listen", "upstream")}
        command = tuple(self._command(header.command))
        label, cwd = self.text(header.label), self.text(header.cwd)
        redaction = ",".join((*before, self._scope.kinds))
        return replace(
            header, redaction=redaction, command=command, label=label, cwd=cwd, boot="", ppid=0, **urls
        )

    def lines(self, trace: Trace) -> Iterator[tuple[Event | Finding | Encoded, bytes]]:
        """Yield the records of the copy, each with its line. Of encoded bodies only the decoded form is kept.

        Raises:
            TraceError: the trace cannot be read.
        """
        for record, line in trace.lines():
            if isinstance(record, Encoded):
                continue
            new = self.record(record)
            session = self._session_names_after.of(new)
            if new is record and session == self._session_names_before.of(record):
                yield record, line
            elif isinstance(new, Finding):
                yield new, encode_finding(new)
            else:
                assert not isinstance(new, Close)  # ``record`` returns it unchanged
                yield new, encode(new, session)

    def record(self, record: Event | Finding) -> Event | Finding:
        """Return the record with its values masked; the same object if there is nothing to mask."""
        match record:
            case Frame():
                new = self._frame(record)
            case Stderr():
                raw = self._plain(record.raw)
                return record if raw == record.raw else replace(record, raw=raw)
            case RequestHead():
                headers, target = self._headers(record.headers), self._url(record.target)
                same = (headers, target) == (record.headers, record.target)
                new = record if same else replace(record, headers=headers, target=target)
            case ResponseHead():
                headers = self._headers(record.headers)
                new = record if headers == record.headers else replace(record, headers=headers)
            case Finding():
                return self._finding(record)
            case Note():
                why = self._url(record.why)
                return record if why == record.why else replace(record, why=why)
            case Gap():
                reason = self.text(record.reason)
                return record if reason == record.reason else replace(record, reason=reason)
            case _:
                return record
        if new is not record:
            self._altered.add(record.seq)
        return new

    # Texts

    def text(self, text: str) -> str:
        """Return the text with its values masked."""
        for pattern in self._texts:
            text = pattern.sub(self._mask_match, text)
        return text

    def _mask_match(self, found: re.Match[str]) -> str:
        group = next((n for n in range(1, found.re.groups + 1) if found[n] is not None), 0)
        if found[group].startswith(MARK):
            return found[0]
        start, end = (index - found.start() for index in found.span(group))
        return found[0][:start] + self._mask(found[group]) + found[0][end:]

    def _mask(self, value: str) -> str:
        if not value or is_masked(value):
            return value
        self.masked += 1
        return str(mask(value, self._mask_key))

    def _has_secret_name(self, name: str) -> bool:
        return name.lower() in self._names or (self._scope.secrets and names_credential(name))

    def _url(self, text: str) -> str:
        return self.text(self._count_change(text, self._credentials.url(text)))

    def _count_change(self, before: str, after: str) -> str:
        self.masked += before != after
        return after

    def _command(self, command: tuple[str, ...]) -> Iterator[str]:
        masking = ArgumentMasking(self._credentials, self._names_option, self._mask, self.text)
        for before, after in zip(command, arguments(command, masking), strict=True):
            yield self._count_change(before, after)

    def _names_option(self, name: str) -> bool:
        named = self._has_secret_name(name) or self._has_secret_name(name.replace("-", "_"))
        return named or (self._scope.secrets and names_option(name))

    def _headers(self, headers: Headers) -> Headers:
        credentials = self._credentials.headers(headers)
        return tuple(
            (
                name,
                self._mask(value) if self._masks_header(name) else self.text(self._count_change(old, value)),
            )
            for (_, old), (name, value) in zip(headers, credentials, strict=True)
        )

    def _masks_header(self, header: str) -> bool:
        """Whether the value of a header is to be masked; ``Mcp-Param-*`` headers repeat tool arguments."""
        name = header.lower()
        return name in self._names or (
            name.startswith(_ARGUMENT_HEADER_PREFIX)
            and self._has_secret_name(name.removeprefix(_ARGUMENT_HEADER_PREFIX))
        )

    def _plain(self, raw: bytes) -> bytes:
        """Return bytes that are not JSON, with their values masked."""
        try:
            text, coding = raw.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, coding = raw.decode("latin-1"), "latin-1"
        new = self.text(text)
        return raw if new == text else new.encode(coding)

    def _finding(self, finding: Finding) -> Finding:
        said = self.text(finding.message)
        if self._altered.intersection((finding.frame, *finding.related)):
            said = _QUOTED.sub(r"\1…\1", said)  # The finding quotes a value that is now masked.
        return finding if said == finding.message else replace(finding, message=said)

    # Frames

    def _frame(self, frame: Frame) -> Frame:
        event = frame.event
        is_endpoint = event is not None and event.name == "endpoint"
        if is_endpoint:
            raw = self._plain(self._credentials.endpoint(frame.raw))
        elif isinstance(frame.message, Malformed) and frame.message.flaw in _NOT_JSON:
            if frame.continues:
                self.text_pieces += 1
            is_on_stdio = frame.exchange == 0
            raw = self._plain(frame.raw if is_on_stdio else self._credentials.body(frame.raw))
        else:
            raw = self._json_bytes(frame.raw)
        if event is not None:
            event = self._event(event, frame.raw, raw)
        if raw == frame.raw and event == frame.event:
            return frame
        return _with(frame, raw, event)

    def _event(self, event: SseEvent, before: bytes, after: bytes) -> SseEvent:
        """Return an event with the fields around its data masked.

        If the data was on several lines, they are among those fields (see ``SseEvent``) and are replaced by
        the masked data.
        """
        around = event.before
        if event.after is None and before != after:
            lines = [line for line in around.splitlines(keepends=True) if line.strip(b"\r\n")]
            kept = [line for line in lines if not line.startswith(b"data")]
            around = b"".join(kept) + b"".join(b"data: %b\n" % line for line in after.split(b"\n")) + b"\n"
        around = self._plain(around)
        id = event.id if event.id is None else self.text(event.id)
        return event if (around, id) == (event.before, event.id) else replace(event, before=around, id=id)

    def _json_bytes(self, raw: bytes) -> bytes:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return self._plain(raw)
        new = self._json(text, self._pointers, 0, PROTECTED if b'"jsonrpc"' in raw else ())
        return raw if new is text else new.encode("utf-8")

    def _json(
        self, text: str, pointers: Sequence[re.Pattern[str]], depth: int, protected: Sequence[str] = ()
    ) -> str:
        """Return JSON with its values masked; the same object if there is nothing to mask."""
        parts: list[str] = []
        copied = 0
        names: list[str | int] = []  # for each open container, the current member or element
        key_names: list[str] = [""]  # for each open container, the nearest member name around its values
        hidden: int | None = None  # the depth at which a container masked as a whole begins
        is_name = False  # the next string is the name of a member
        for found in _JSON_TOKEN.finditer(text):
            match found[0][0]:
                case "}" | "]":
                    if names:
                        names.pop()
                        key_names.pop()
                    hidden = None if hidden is not None and len(names) <= hidden else hidden
                    is_name = False
                case ",":
                    is_name = bool(names) and isinstance(names[-1], str)
                    if names and isinstance(names[-1], int):
                        names[-1] += 1
                case ":":
                    is_name = False
                case '"' if is_name:
                    names[-1] = key_names[-1] = unescaped(found[1])
                case first:
                    safe = _protected(names, protected)
                    whole = not safe and (
                        hidden is not None or self._is_selected(key_names[-1], names, pointers)
                    )
                    if first in "{[":
                        if whole and hidden is None and not _is_described(names):
                            hidden = len(names)
                        names.append("" if first == "{" else 0)
                        key_names.append("" if first == "{" else key_names[-1])
                        is_name = first == "{"
                        continue
                    if safe or (new := self._value(found, whole, depth)) == found[0]:
                        continue
                    parts += (text[copied : found.start()], new)
                    copied = found.end()
        return "".join((*parts, text[copied:])) if parts else text

    def _is_selected(self, name: str, names: list[str | int], pointers: Sequence[re.Pattern[str]]) -> bool:
        """Whether the value here is masked because of its name or its pointer."""
        if name and self._has_secret_name(name):
            return True
        if not pointers:
            return False
        # In a batch, pointers start at the element.
        path = names[1:] if names and isinstance(names[0], int) else names
        pointer = "".join(map(token, path))
        return any(pattern.fullmatch(pointer) for pattern in pointers)

    def _value(self, found: re.Match[str], whole: bool, depth: int) -> str:
        """Return the replacement for a string, a number or a literal."""
        if found[1] is None:
            is_number = found[0][0] in "-0123456789"
            return f'"{self._mask(found[0])}"' if whole and is_number else found[0]
        value = unescaped(found[1])
        if whole:
            return f'"{self._mask(value)}"' if value and not is_masked(value) else found[0]
        new = value
        if depth < _NESTED and value[:1] in ("{", "[") and _is_json(value):
            new = self._json(value, (), depth + 1)
        new = self.text(new)
        if new == value:
            return found[0]
        # Lone surrogates can only be written as escapes.
        as_ascii = found[1].isascii() or any("\ud800" <= char <= "\udfff" for char in new)
        return json.dumps(new, ensure_ascii=as_ascii)


_NOT_JSON: Final = (Flaw.EMPTY, Flaw.NOT_JSON, Flaw.NOT_UTF8)


def _with(frame: Frame, raw: bytes, event: SseEvent | None) -> Frame:
    return Frame(
        frame.seq,
        frame.sender,
        raw,
        frame.observed_at_ns,
        terminated=frame.terminated,
        continues=frame.continues,
        exchange=frame.exchange,
        connection=frame.connection,
        event=event,
        by_proxy=frame.by_proxy,
        refused=frame.refused,
    )


def _protected(names: list[str | int], protected: Sequence[str]) -> bool:
    if not protected or len(names) > 4:  # every protected pointer is shorter
        return False
    path = names[1:] if names and isinstance(names[0], int) else names
    return "".join(map(token, path)) in protected


def _is_described(names: list[str | int]) -> bool:
    """Whether the value here is the JSON Schema of a member with a secret name, instead of its value."""
    return len(names) > 1 and names[-2] in _SCHEMA_MAPS


def _expression(pointer: str) -> str:
    steps = {"*": "/[^/]*", "**": "(?:/[^/]*)*"}
    return "".join(steps.get(step, "/" + re.escape(step)) for step in pointer.split("/")[1:])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
