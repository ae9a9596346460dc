"""Mask values in a copy of a recording; the other bytes of its messages are unchanged.

The recorder masks credentials in the same way (``judge.session.masked_values``). A mask is made from a value
with a random key that is not stored, so equal values have equal masks within a file, and other masks in
another file. A replay matches a masked value with any value, and no rule judges a masked value.

The members of JSON-RPC that tell what a message is, and to which request it belongs, are never masked.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.base.secret_names import names_option
from mcpproxy.base.secret_values import PATTERNS, mask_secrets, value_after
from mcpproxy.judge.session.frame import (
    Close,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    Headers,
    Note,
    RequestHead,
    ResponseHead,
    Sender,
    SseEvent,
    Stderr,
)
from mcpproxy.judge.session.masked_values import MARK, is_masked, mask
from mcpproxy.protocol.header_names import PARAM_PREFIX
from mcpproxy.protocol.jsonrpc import NOT_JSON, Malformed, read
from mcpproxy.protocol.jsontext import unescaped
from mcpproxy.record.recorder.masking import Masker
from mcpproxy.record.recorder.model.argument_pieces import argument_pieces
from mcpproxy.record.recorder.secret_arguments import ArgumentMasking, mask_arguments
from mcpproxy.record.trace.encode import encode, encode_finding
from mcpproxy.record.trace.json_masking import (
    NAMING_MEMBERS,
    VALUE_MEMBER,
    JsonMasking,
    kind_of_name,
    names_credential,
)
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import Encoded, Header
from mcpproxy.record.trace.session_labels import SessionNames

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
"""JSON Pointers of the members that tell a message's kind, its request and its protocol revision."""

_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"\s*+(:)?|\\?\Z)', re.DOTALL)
"""Matches a string of a JSON text, and the colon after it if it is the name of a member. The text may end
within the string."""
_QUOTED: Final = re.compile(r"(['\"]).*\1", re.DOTALL)
"""Matches from the first quote in the message of a finding to the last quote of the same kind."""


@dataclass(frozen=True, slots=True)
class RedactionScope:
    """The values to mask.

    ``keys`` are names of members, headers, parameters and options of commands, case-insensitive. Text that
    matches a pattern in ``values`` is masked; if the pattern has groups, only the first group that matched is
    masked. ``pointers`` are JSON Pointers in which ``*`` stands for one step and ``**`` for any number of
    steps. With ``secrets``, everything that looks like a credential is masked.
    """

    keys: Sequence[str] = ()
    values: Sequence[re.Pattern[str]] = ()
    pointers: Sequence[str] = ()
    secrets: bool = False

    @property
    def kinds(self) -> str:
        """The kinds of values to mask, separated by commas, for the header of the copy."""
        kinds = {"keys": self.keys, "values": self.values, "pointers": self.pointers, "secrets": self.secrets}
        return ",".join(kind for kind, option in kinds.items() if option)


class Redaction:
    """Masks the records of one trace, in order.

    Redactions with the same ``mask_key`` mask equal values alike; without one, each has a key of its own.
    """

    def __init__(self, scope: RedactionScope, mask_key: bytes = b"") -> None:
        self.masked = 0
        """About how many values were masked: what the recorder masks as well counts once for a body or a
        URL, and some arguments of the command count twice."""
        self.text_pieces = 0
        """How many pieces of overlong messages were masked as plain text, because they cannot be parsed."""
        self._scope = scope
        self._mask_key: Final = mask_key or os.urandom(32)
        self._key_names: Final = frozenset(key.lower() for key in scope.keys)
        patterns = [*scope.values, *(PATTERNS if scope.secrets else ())]
        # In texts that are not JSON, a key is found as ``name=value`` or ``name: value``.
        self._text_patterns: Final = [*patterns, value_after(scope.keys)] if scope.keys else patterns
        self._only_secrets: Final = scope.kinds == "secrets"
        self._json: Final = JsonMasking(scope.pointers, self._masks_name, self._mask, self.text)
        self._credentials: Final = Masker(self._mask_key, keep=not scope.secrets)  # ``keep``: masks nothing
        self._unfinished: Final[set[tuple[Sender, int]]] = set()  # streams whose next frame is another piece
        self._elsewhere: Final[set[int]] = set()  # open exchanges with other targets than the MCP endpoint
        self._altered: Final[set[int]] = set()  # the numbers of frames and heads with masked values
        # The name of a session is derived from its id, so the name changes if the id is masked.
        self._original_session_names: Final = SessionNames()
        self._masked_session_names: Final = SessionNames()

    def header(self, header: Header) -> Header:
        """Return the header of the copy. Its ``redaction`` names all kinds of masked values.

        ``boot`` and ``ppid`` are removed: they would identify the machine and its processes.
        """
        earlier_kinds = () if header.redaction == "none" else (header.redaction,)
        urls = {name: self.url(getattr(header, name)) for name in ("listen", "upstream")}
        command = tuple(self.command(header.command))
        label, cwd = self.text(header.label), self.text(header.cwd)
        redaction = ",".join((*earlier_kinds, self._scope.kinds))
        return replace(
            header, redaction=redaction, command=command, label=label, cwd=cwd, boot="", ppid=0, **urls
        )

    def lines(self, trace: Trace) -> Iterator[tuple[Event | Finding | Encoded, bytes]]:
        """Yield the records of the copy, each with its line.

        Compressed bodies (``Encoded``) are left out; the frames that were decoded from them are kept.

        Raises:
            TraceError: the trace cannot be read.
        """
        for record, line in trace.lines():
            if isinstance(record, Encoded):
                continue
            masked = self.record(record)
            session = self._masked_session_names.track(masked)
            if masked is record and session == self._original_session_names.track(record):
                yield record, line
            elif isinstance(masked, Finding):
                yield masked, encode_finding(masked)
            elif isinstance(masked, Close):
                yield masked, line  # ``write_trace`` writes it, with the counts of the copy
            else:
                yield masked, encode(masked, session)

    def record(self, record: Event | Finding) -> Event | Finding:
        """Return the record with its values masked; the same object if there is nothing to mask."""
        match record:
            case Frame():
                masked = self._mask_frame(record)
            case Stderr():
                raw = self._mask_plain(record.raw)
                return record if raw == record.raw else replace(record, raw=raw)
            case RequestHead():
                if not record.endpoint:
                    self._elsewhere.add(record.exchange)
                headers, target = self._mask_headers(record.headers), self.url(record.target)
                is_same = (headers, target) == (record.headers, record.target)
                masked = record if is_same else replace(record, headers=headers, target=target)
            case ResponseHead():
                headers, reason = self._mask_headers(record.headers), self.text(record.reason)
                is_same = (headers, reason) == (record.headers, record.reason)
                masked = record if is_same else replace(record, headers=headers, reason=reason)
            case Finding():
                return self._mask_finding(record)
            case ExchangeEnd():
                self._elsewhere.discard(record.exchange)
                return record
            case Note():
                why = self.url(record.why)
                return record if why == record.why else replace(record, why=why)
            case Gap() | Close():
                reason = self.text(record.reason)
                return record if reason == record.reason else replace(record, reason=reason)
            case _:
                return record
        if masked is not record:
            self._altered.add(record.seq)
        return masked

    # Plain text

    def text(self, text: str) -> str:
        """Return the text with its values masked."""
        return mask_secrets(text, self._mask_found, self._text_patterns)

    def _mask_found(self, value: str) -> str:
        return value if value.startswith(MARK) else self._mask(value)

    def _mask(self, value: str) -> str:
        """Return the mask of ``value``, and count it; an empty value or a mask is returned unchanged."""
        if not value or is_masked(value):
            return value
        self.masked += 1
        return str(mask(value, self._mask_key))

    def _masks_name(self, name: str, value: str = "") -> bool:
        return name.lower() in self._key_names or (self._scope.secrets and names_credential(name, value))

    def url(self, text: str) -> str:
        """Return a URL, or a text with URLs, with its values masked."""
        return self.text(self._count_change(text, self._credentials.url(text)))

    def _count_change(self, before: str, after: str) -> str:
        self.masked += before != after
        return after

    def command(self, command: tuple[str, ...]) -> Iterator[str]:
        """Yield the arguments of a command with their values masked."""
        masking = ArgumentMasking(self._credentials, self._masks_option, self._mask, self.text)
        for before, after in zip(command, mask_arguments(command, masking), strict=True):
            yield self._count_change(before, after)

    def _masks_option(self, name: str) -> bool:
        is_secret = self._masks_name(name) or self._masks_name(name.replace("-", "_"))
        return is_secret or (self._scope.secrets and names_option(name))

    def _mask_headers(self, headers: Headers) -> Headers:
        credentials = self._credentials.headers(headers)
        return tuple(
            (
                name,
                self._mask(value)
                if self._masks_header(name)
                else self.text(self._count_change(recorded, value)),
            )
            for (_, recorded), (name, value) in zip(headers, credentials, strict=True)
        )

    def _masks_header(self, header: str) -> bool:
        """Whether the value of a header is to be masked; ``Mcp-Param-*`` headers repeat tool arguments."""
        name = header.lower()
        return name in self._key_names or (
            name.startswith(PARAM_PREFIX) and self._masks_name(name.removeprefix(PARAM_PREFIX))
        )

    def _mask_plain(self, raw: bytes) -> bytes:
        """Return bytes that are not JSON, with the values in them masked."""
        try:
            text, encoding = raw.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, encoding = raw.decode("latin-1"), "latin-1"
        masked = self._json.in_text(text)
        return raw if masked == text else masked.encode(encoding)

    def _mask_finding(self, finding: Finding) -> Finding:
        message = self.text(finding.message)
        if self._altered.intersection((finding.frame, *finding.related)):
            # The message may quote a value that is masked in its frame.
            message = _QUOTED.sub(r"\1…\1", message)
        return finding if message == finding.message else replace(finding, message=message)

    # Frames

    def _mask_frame(self, frame: Frame) -> Frame:
        """Return a frame with its values masked; the same object if there is nothing to mask."""
        event = frame.event
        is_endpoint = event is not None and event.name == "endpoint"
        if is_endpoint:
            raw = self._mask_plain(self._credentials.endpoint(frame.raw))
        elif isinstance(frame.message, Malformed) and frame.message.flaw in NOT_JSON:
            stream = (frame.sender, frame.exchange)
            if frame.continues or stream in self._unfinished:
                self.text_pieces += 1
            (self._unfinished.add if frame.continues else self._unfinished.discard)(stream)
            is_on_stdio = frame.exchange == 0
            raw = self._mask_plain(frame.raw if is_on_stdio else self._mask_body(frame.raw))
        elif frame.exchange in self._elsewhere:  # of an authorization server, for example
            raw = self._mask_json(self._mask_body(frame.raw))
        else:
            raw = self._mask_json(frame.raw)
        if event is not None and self._scope.secrets and not is_endpoint:
            raw = self._mask_pieces(raw)
        if event is not None:
            event = self._mask_event(event, frame.raw, raw)
        if raw == frame.raw and event == frame.event:
            return frame
        return _frame_with(frame, raw, event)

    def _mask_body(self, raw: bytes) -> bytes:
        """Return a body with the credentials masked that the recorder masks."""
        masked = self._credentials.body(raw)
        self.masked += masked != raw
        return masked

    def _mask_pieces(self, raw: bytes) -> bytes:
        """Mask each piece of a call's arguments, because a secret may continue in the next piece.

        A language model streams the arguments of a call in pieces, one in an event. A piece that is a
        complete object is not masked here: its members have been masked already.
        """
        parts: list[bytes] = []
        copied = 0
        for piece in argument_pieces(raw):
            text = unescaped(raw[piece.start : piece.end].decode("utf-8", "replace"))
            if not isinstance(read(text.encode("utf-8", "surrogatepass")), dict):
                parts += (raw[copied : piece.start], self._mask(text).encode())
                copied = piece.end
        return b"".join((*parts, raw[copied:]))

    def _mask_event(self, event: SseEvent, recorded: bytes, masked: bytes) -> SseEvent:
        """Return an SSE event with masked fields; ``recorded`` and ``masked`` are its data.

        If the data was on several lines, ``event.after`` is ``None``, and ``event.before`` contains those
        lines too (see ``SseEvent``): the masked data replaces them.
        """
        fields = event.before
        if event.after is None and recorded != masked:
            lines = [line for line in fields.splitlines(keepends=True) if line.strip(b"\r\n")]
            other_fields = b"".join(line for line in lines if not line.startswith(b"data"))
            data_fields = b"".join(b"data: %b\n" % line for line in masked.split(b"\n"))
            fields = other_fields + data_fields + b"\n"
        fields = self._mask_plain(fields)
        id = event.id if event.id is None else self.text(event.id)
        return event if (fields, id) == (event.before, event.id) else replace(event, before=fields, id=id)

    def _mask_json(self, raw: bytes) -> bytes:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return self._mask_plain(raw)
        if self._only_secrets and self._has_no_secret(text):
            return raw
        masked = self._json.masked(text, PROTECTED if b'"jsonrpc"' in raw else ())
        return raw if masked is text else masked.encode("utf-8")

    def _has_no_secret(self, text: str) -> bool:
        """Whether a JSON text certainly has no secret. It takes a sixth of the time of ``JsonMasking``.

        True for most messages. False if the text has an escape that may be any character, a string that may
        be JSON itself, or anything that looks like a secret or its name.
        """
        if "\\u" in text or "{\\" in text or "[\\" in text or '"{' in text or '"[' in text:
            return False
        folded = text.replace("\\/", "/").casefold()
        if any(pattern.may_match(folded) for pattern in PATTERNS):
            return False
        strings = _STRING.findall(text)
        names = {unescaped(name) for name, colon in strings if colon}
        folded_names = {name.lower() for name in names}
        if VALUE_MEMBER in folded_names and not folded_names.isdisjoint(NAMING_MEMBERS):
            names.update(unescaped(value) for value, colon in strings if not colon)
        return not any(map(kind_of_name, names))


def _frame_with(frame: Frame, raw: bytes, event: SseEvent | None) -> Frame:
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
        fault=frame.fault,
    )
