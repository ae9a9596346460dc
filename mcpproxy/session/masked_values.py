"""Masks of credentials: what a recording contains in place of their values.

By default a recording masks the values of credential headers. A mask has what a rule may need: the length in
bytes, whether all bytes are visible ASCII, and a hash, so that equal values have equal masks within one
recording. ``as_mask`` returns the same for a value that was not masked.
"""

from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON

_HASH_BYTES: Final = 6

_MASK: Final = pattern(r"masked\(len=(\d{1,9}),visible=(yes|no),hash=([0-9a-f]{12})\)")

ANY: Final = pattern(r"masked\(len=\d{1,9},visible=(?:yes|no),hash=[0-9a-f]{12}\)")
"""Finds a mask within a text."""

_INVISIBLE: Final = pattern(r"[^\x21-\x7E]")


@slotted(frozen=True)
class Mask:
    """What is known about a credential. Its ``str`` is what a recording contains in place of the value."""

    length: int
    visible: bool  # all bytes are within 0x21 to 0x7E
    hash: str

    def __str__(self) -> str:
        return f"masked(len={self.length},visible={'yes' if self.visible else 'no'},hash={self.hash})"


def mask(value: str, key: bytes = b"") -> Mask:
    """Return the mask of a header value, its bytes decoded as Latin-1.

    ``key`` (up to 64 bytes) is secret and belongs to one recording: without it, a short value could be found
    by trying all values.
    """
    from hashlib import blake2b  # Imported here: it loads OpenSSL, which most sessions do not need.

    raw = value.encode("latin-1", "backslashreplace")
    digest = blake2b(raw, digest_size=_HASH_BYTES, key=key).hexdigest()
    return Mask(len(raw), _INVISIBLE.search(value) is None, digest)


def as_mask(value: str) -> Mask:
    """Return the mask of ``value``, which is a credential or already a mask."""
    if found := _MASK.fullmatch(value):
        return Mask(int(found[1]), found[2] == "yes", found[3])
    return mask(value)


def is_masked(value: str) -> bool:
    """Whether ``value`` is a mask."""
    return _MASK.fullmatch(value) is not None


MARK: Final = "masked(len="
"""The beginning of every mask."""


def holds_mask(value: JSON) -> bool:
    """Whether a JSON value contains a mask anywhere in its strings."""
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
    """Return the scheme of an Authorization value in lower case, and what follows it (masked or not)."""
    scheme, _, rest = authorization.strip(" \t").partition(" ")
    return scheme.lower(), rest.strip(" \t")
