"""Decode content codings: gzip and deflate always, br and zstd if Python or an installed package supports
them.

The bytes come from a peer, so invalid bytes do not raise an exception, and the decoded size is bounded: a
few kilobytes can expand to gigabytes.

Source: RFC 9110, section 8.4.1; RFC 1950 to 1952; RFC 7932 (br); RFC 8878 and 9659 (zstd).
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final, Protocol

from mcpproxy.base.byte_budget import ByteBudget

FREE_BYTES: Final = 64 << 20
"""The decoded size that is allowed for every body, however few bytes are received."""

RATIO: Final = 16
"""How many decoded bytes are allowed, beyond ``FREE_BYTES``, for each byte received. The limit grows with the
input, so a stream that is compressed as usual never reaches it, however long it is."""

_SLICE_BYTES: Final = 4 << 10
"""How many bytes are decoded at a time. Compressed data may consist of many small members, each compressed by
itself. After each member a library copies the rest of the slice, so large slices would be slow."""

_DECODED_SLICE_BYTES: Final = 8 << 20
"""The size that a slice may have after decoding: twice what gzip can expand it to."""

_ZSTD_WINDOW_LOG: Final = 23
"""8 MiB, the largest window of zstd over HTTP (RFC 9659)."""


class Decompressor(Protocol):
    """One library's incremental decompressor; ``errors`` are the exceptions it raises on invalid bytes."""

    @property
    def errors(self) -> tuple[type[Exception], ...]: ...
    @property
    def over(self) -> bool:
        """Whether the content may end after the bytes fed so far."""
        ...

    def feed(self, data: bytes, limit: int) -> bytes:
        """Return the decoded ``data``, or only its first ``limit`` bytes if it is longer."""
        ...


class Decoder:
    """Decodes one coding of one body, chunk by chunk, with ``engine``.

    ``free`` is how many decoded bytes are allowed, besides ``RATIO`` for each byte fed.

    ``why`` is empty while the body can be decoded. After an error it is a sentence fragment that says what is
    wrong, and no more content is returned.
    """

    def __init__(self, coding: str, engine: Decompressor, free: int) -> None:
        self.why = ""
        self._coding = coding
        self._engine = engine
        self._budget = ByteBudget(free, RATIO)
        self._begun = False  # bytes were fed

    def feed(self, data: bytes) -> bytes:
        """Return the content of the next chunk."""
        return b"".join(self.parts(data))

    def parts(self, data: bytes) -> Iterator[bytes]:
        """Like ``feed``, but yield the content in parts, because it may be too large to hold at once."""
        for start in range(0, len(data), _SLICE_BYTES):
            if self.why:
                break
            if content := self._decode(data[start : start + _SLICE_BYTES]):
                yield content

    def end(self) -> None:
        """End the body; ``why`` is set if its content is incomplete. A body without bytes is complete."""
        if self._begun and not self.why and not self._engine.over:
            self.why = f"the {self._coding} content ends too early"

    def _decode(self, data: bytes) -> bytes:
        self._begun = True
        self._budget.receive(len(data))
        limit = min(self._budget.left, _DECODED_SLICE_BYTES)
        try:
            content = self._engine.feed(data, limit + 1)
        except self._engine.errors:
            self.why = f"the content is not {self._coding}"
            return b""
        if not self._budget.take(len(content)) or len(content) > limit:
            self.why = f"the {self._coding} content expands too far"
            return b""
        return content


def _decoded(decoder: Decoder, parts: Iterable[bytes]) -> Iterator[bytes]:
    for part in parts:
        yield from decoder.parts(part)


class Chain:
    """Decodes several codings: the first of ``decoders`` gets the bytes received. Used like a `Decoder`."""

    def __init__(self, decoders: list[Decoder]) -> None:
        self._decoders = decoders

    @property
    def why(self) -> str:
        return next((decoder.why for decoder in self._decoders if decoder.why), "")

    def feed(self, data: bytes) -> bytes:
        return b"".join(self.parts(data))

    def parts(self, data: bytes) -> Iterator[bytes]:
        parts: Iterable[bytes] = (data,)
        for decoder in self._decoders:
            parts = _decoded(decoder, parts)
        yield from parts

    def end(self) -> None:
        for decoder in self._decoders:
            decoder.end()


def codings(content_encoding: str) -> list[str]:
    """Return the codings that a Content-Encoding field names, in lower case, without ``identity``."""
    names = [name.strip(" \t").lower() for name in content_encoding.split(",")]
    return [name for name in names if name not in ("", "identity")]


def decoder(content_encoding: str, free: int = FREE_BYTES) -> Decoder | Chain | None:
    """Return a decoder for the codings that a Content-Encoding field names.

    The content of each coding may have ``free`` bytes, plus `RATIO` times the bytes that are fed. ``None``
    means that there is no coding, that there are more than three, or that one is unknown or not supported
    here; the body then stays encoded.
    """
    names = codings(content_encoding)
    decoders: list[Decoder] = []
    for name in reversed(names[:_MOST_CODINGS]):
        engine = _ENGINES[name]() if name in _ENGINES else None
        if engine is None:
            return None
        decoders.append(Decoder(name, engine, free))
    if not decoders or len(names) > _MOST_CODINGS:
        return None
    return decoders[0] if len(decoders) == 1 else Chain(decoders)


class _LibraryDecompressor(Protocol):
    """The interface that decompressors of zlib and of zstd have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Members:
    """Compressed members one after another, as gzip and zstd allow. Other data after them is ignored.

    A member is compressed by itself, so each needs a new decompressor, which ``new`` makes. ``first_bytes``
    are the bytes that a member may begin with.
    """

    def __init__(
        self, new: Callable[[], _LibraryDecompressor], first_bytes: bytes, error: type[Exception]
    ) -> None:
        self.errors = (error,)
        self._new = new
        self._inner = new()
        self._first_bytes = first_bytes

    @property
    def over(self) -> bool:
        return self._inner.eof

    def feed(self, data: bytes, limit: int) -> bytes:
        content = b""
        while data and len(content) < limit:
            if self._inner.eof:
                if data[0] not in self._first_bytes:
                    break
                self._inner = self._new()
            content += self._inner.decompress(data, limit - len(content))
            data = self._inner.unused_data
        return content


class _Deflate:
    """The deflate coding: with the zlib header, as RFC 9110 demands, or without."""

    errors = (zlib.error,)

    def __init__(self) -> None:
        self._inner: _LibraryDecompressor | None = None
        self._first = b""

    @property
    def over(self) -> bool:
        return self._inner is not None and self._inner.eof

    def feed(self, data: bytes, limit: int) -> bytes:
        if self._inner is None:
            data = self._first = self._first + data
            if len(data) < 2:
                return b""
            # RFC 1950: the method is 8, and the two bytes as a number are a multiple of 31.
            has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inner = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        return b"" if self._inner.eof else self._inner.decompress(data, limit)


class _Brotli:
    """The br coding, by the package brotli."""

    def __init__(self, module: Any) -> None:
        self.errors: tuple[type[Exception], ...] = (module.error,)
        self._inner: Any = module.Decompressor()
        # Releases before 1.2 cannot limit their output and raise TypeError here.
        self._inner.process(b"", output_buffer_limit=1)

    @property
    def over(self) -> bool:
        return bool(self._inner.is_finished())

    def feed(self, data: bytes, limit: int) -> bytes:
        content = b""
        while not self.over and len(content) < limit:
            content += self._inner.process(data, output_buffer_limit=limit - len(content))
            data = b""
            if self._inner.can_accept_more_data():
                break
        return content


def _gzip() -> Decompressor:
    return _Members(lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), b"\x1f", zlib.error)


def _brotli() -> Decompressor | None:
    try:
        return _Brotli(import_module("brotli"))
    except (ImportError, TypeError):
        return None


def _zstd() -> Decompressor | None:
    module = _zstd_module()
    if module is None:
        return None
    options = {module.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    # A zstd frame begins with 0x28, a skippable frame with 0x50 to 0x5f.
    first_bytes = b"\x28" + bytes(range(0x50, 0x60))
    return _Members(lambda: module.ZstdDecompressor(options=options), first_bytes, module.ZstdError)


def _zstd_module() -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


_MOST_CODINGS: Final = 3
"""The most codings of one body that are decoded."""
_ENGINES: Final[dict[str, Callable[[], Decompressor | None]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _Deflate,
    "br": _brotli,
    "zstd": _zstd,
}
"""Coding -> the function that makes a decompressor; it returns ``None`` if no library supports the coding."""
