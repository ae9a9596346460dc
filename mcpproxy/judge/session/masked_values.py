"""Masks: the texts that a recording contains in place of credentials.

By default a recording masks the values of credential headers. A mask contains what rules need: the length in
bytes, whether all bytes are visible ASCII, and a hash, so that equal values have equal masks within one
recording. ``as_mask`` also makes a mask of a value that was not masked, so that rules handle masks only.
"""

from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON

_HASH_BYTES: Final = 6

_MASK: Final = pattern(r"masked\(len=(\d{1,9}),visible=(yes|no),hash=([0-9a-f]{12})\)")

ANY_MASK: Final = pattern(r"masked\(len=\d{1,9},visible=(?:yes|no),hash=[0-9a-f]{12}\)")
"""A mask within a text."""

_INVISIBLE: Final = pattern(r"[^\x21-\x7E]")


@slotted(frozen=True)
class Mask:
    """The known facts about a masked credential. ``length`` is in bytes; ``str`` gives the recorded text."""

    length: int
    visible: bool  # all bytes are within 0x21 to 0x7E
    hash: str

    def __str__(self) -> str:
        return f"masked(len={self.length},visible={'yes' if self.visible else 'no'},hash={self.hash})"


def mask(value: str, key: bytes = b"") -> Mask:
    """Return the mask of ``value``, a header value whose bytes were decoded as Latin-1.

    ``key`` (up to 64 bytes) is secret and belongs to one recording: without it, a short value could be found
    by trying all values.
    """
    from hashlib import blake2b  # Imported late: it loads OpenSSL, which most sessions do not need.

    raw = value.encode("latin-1", "backslashreplace")
    digest = blake2b(raw, digest_size=_HASH_BYTES, key=key).hexdigest()
    return Mask(len(raw), _INVISIBLE.search(value) is None, digest)


def as_mask(value: str) -> Mask:
    """Return the mask of ``value``, which is a credential or already a mask."""
    if match := _MASK.fullmatch(value):
        return Mask(int(match[1]), match[2] == "yes", match[3])
    return mask(value)


def is_masked(value: str) -> bool:
    """Whether ``value`` is a mask."""
    return _MASK.fullmatch(value) is not None


MARK: Final = "masked(len="
"""The beginning of every mask."""


def holds_mask(value: JSON) -> bool:
    """Whether a JSON value contains a mask in any string, except the names of members."""
    stack = [value]
    while stack:
        match stack.pop():
            case str(text):
                if MARK in text and _MASK.search(text):
                    return True
            case dict(members):
                stack += members.values()
            case list(items):
                stack += items
            case _:
                pass
    return False


def credential(authorization: str) -> tuple[str, str]:
    """Return the scheme of an Authorization value in lower case, and the credential (masked or not)."""
    scheme, _, value = authorization.strip(" \t").partition(" ")
    return scheme.lower(), value.strip(" \t")
