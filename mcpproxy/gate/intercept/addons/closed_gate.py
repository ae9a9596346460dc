"""If an addon fails closed, withhold every message that no addon can be asked about.

Such messages are batches, bytes that are not JSON-RPC but that a lenient peer may accept, objects with a
repeated member, which two peers may read differently, and messages that are too long to hold. The peer that
waits for an answer gets an error, if the id of the request can be found; without an id, only a client gets
one, for ``null``. To find the id, the text is read leniently: it need not be JSON, and may be only the
beginning and the end of a message.
"""

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.frame import CLIENT, Sender
from mcpproxy.protocol.error_message import INVALID_REQUEST, PARSE_ERROR, error_message
from mcpproxy.protocol.jsonrpc import Batch, Flaw, Malformed, Message, parse_leniently, read
from mcpproxy.protocol.jsontext import repeated_names
from mcpproxy.protocol.raw_json import elements, readable_members

LIMIT_BYTES: Final = 16 << 20
"""The longest message that is held for a decision; a longer one passes, or is withheld as too long."""
TOO_LONG: Final = f"it is longer than {LIMIT_BYTES >> 20} MiB"
NOT_COMPLETE: Final = "it is not complete"
A_FAULT: Final = "a fault of mcpproxy"
_TWICE: Final = "two members of an object in it have the same name"
"""Reasons why addons cannot see a message; in them, the message is "it"."""

_UNKNOWN_ID_START: Final = b'{"jsonrpc":"2.0","id":null,'
"""The beginning of an error for a request whose id is not known."""

ENDS_BYTES: Final = 64 << 10
"""How much of the beginning and of the end of a message is read for its id."""
_MOST_ITEMS: Final = 10_000
"""How many messages of a batch are answered."""

# The last member of an object, or the one before the version: some peers write the id there.
_ID_AT_THE_END: Final = re.compile(
    rb'[{,]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*+"|-?[0-9]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z', re.DOTALL
)


class _Recipient(NamedTuple):
    """The peer that gets the error for a withheld message, its receiver or its sender, and the id in JSON."""

    peer: Literal["receiver", "sender"]
    id: bytes


@slotted(frozen=True)
class Withheld:
    """Why a message does not pass; ``given`` goes to its receiver instead, and ``answer`` to its sender."""

    why: str
    given: bytes | None = None
    answer: bytes | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is an answer, other than a single error for the id ``null``."""
        return self.answer is not None and not self.answer.startswith(_UNKNOWN_ID_START)


class ClosedGate:
    """Withholds messages for ``addons``, the names of the addons that fail closed; without any, it is open.

    ``say`` writes a line to stderr; it is called once for each sender and reason.
    """

    def __init__(self, addons: str = "", say: Callable[[str], None] = lambda _: None) -> None:
        self.addons: Final = addons
        self._say = say
        self._said: set[tuple[Sender, str]] = set()

    def withhold_unseen(self, sender: Sender, raw: bytes, message: Message) -> Withheld | None:
        """Withhold a message if no addon can be asked about it; otherwise return ``None``."""
        if not self.addons or not (why := _why_unseen(raw, message)):
            return None
        return self.withhold(sender, raw, why)

    def withhold(self, sender: Sender, raw: bytes, why: str, end: bytes | None = None) -> Withheld:
        """Return what the peers get instead of a message that must not pass.

        ``why`` is the reason, a clause for the error and for stderr. Unless the message is a batch, only its
        beginning and its end are read. If ``end`` is given, ``raw`` is only the beginning.
        """
        self.say_once(sender, why)
        if end is None and raw.lstrip()[:1] == b"[":
            recipients = [_recipient(sender, item, why) for item in islice(elements(raw), _MOST_ITEMS)]
            if not recipients and sender == CLIENT:
                recipients = [_Recipient("sender", b"null")]
            given, answer = (
                [self.error(item.id, why) for item in recipients if item is not None and item.peer == peer]
                for peer in ("receiver", "sender")
            )
            return Withheld(why, _batch(given), _batch(answer))
        recipient = _recipient(sender, raw, why, end)
        if recipient is None:
            return Withheld(why)
        error = self.error(recipient.id, why)
        return Withheld(why, error, None) if recipient.peer == "receiver" else Withheld(why, None, error)

    def say_once(self, sender: Sender, why: str) -> None:
        """Say on stderr, once for each sender and reason, why a message does not pass."""
        if (sender, why) not in self._said:
            self._said.add((sender, why))
            self._say(f"a message of the {sender} does not pass {self.addons}: {why}")

    def error(self, id: bytes, why: str) -> bytes:
        """Return the JSON-RPC error for a message withheld because of ``why``; ``id`` is its id, in JSON."""
        code = PARSE_ERROR if why in _UNREADABLE else INVALID_REQUEST
        text = f"mcpproxy: {self.addons} cannot see this message, and fails closed: {why}"
        return error_message(code, text, id)


def _reason_of(flaw: Flaw) -> str:
    return flaw.value.replace("the frame", "it", 1)


_UNREADABLE: Final = set(map(_reason_of, (Flaw.NOT_JSON, Flaw.NOT_UTF8, Flaw.TOO_DEEP)))
"""Reasons for which it is not known whether a message without an id is a notification."""


def _why_unseen(raw: bytes, message: Message) -> str:
    """Return why no addon can be asked about a message; empty if one can be, or if the message is empty."""
    if isinstance(message, Malformed):
        return "" if message.flaw is Flaw.EMPTY else _reason_of(message.flaw)
    if isinstance(message, Batch):
        return "it is a batch"
    return _TWICE if message.repeats and repeated_names(raw, message.value) else ""


def is_message(raw: bytes, message: Message) -> bool:
    """Whether a lenient peer may read these bytes as a message, or as a batch."""
    lenient = parse_leniently(raw) if isinstance(message, Malformed) else message
    return lenient is not None and not isinstance(lenient, Malformed)


def _batch(errors: Sequence[bytes]) -> bytes | None:
    return b"[%b]" % b",".join(errors) if errors else None


def _recipient(sender: Sender, start: bytes, why: str, end: bytes | None = None) -> _Recipient | None:
    """Return who gets the error for a message; ``None`` for a notification, and if that cannot be known.

    A client whose message has no id, but is not known to be a notification, gets an error for ``null``.
    """
    is_whole = end is None and len(start) <= ENDS_BYTES
    members = readable_members(start[:ENDS_BYTES].removeprefix(b"\xef\xbb\xbf"))
    id, has_method = members.get("id", b""), "method" in members
    if not _is_id(id) and (found := _ID_AT_THE_END.search((start if end is None else end)[-ENDS_BYTES:])):
        id = found[1]
    if not _is_id(id):
        is_notification = is_whole and has_method and "id" not in members and why not in _UNREADABLE
        return None if sender != CLIENT or is_notification else _Recipient("sender", b"null")
    # A message that is both a request and an answer, or neither: the error goes to the client.
    if has_method == ("result" in members or "error" in members):
        return _Recipient("sender" if sender == CLIENT else "receiver", id)
    return _Recipient("sender" if has_method else "receiver", id)


def _is_id(text: bytes) -> bool:
    return bool(text) and type(read(text)) in (str, int, float)
