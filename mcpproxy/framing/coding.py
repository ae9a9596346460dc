"""Content codings undone: gzip and deflate, and br and zstd where this Python or an installed package can.

The bytes come from a peer, so nothing here raises on any of them, and what they may expand to is bounded:
a few kilobytes can stand for gigabytes.

Source: RFC 9110, section 8.4.1; RFC 1950 to 1952; RFC 7932 (br); RFC 8878 and 9659 (zstd).
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Final, Protocol

FREE_BYTES: Final = 64 << 20
"""What any body may expand to."""

RATIO: Final = 16
"""What each byte received may stand for beyond that: endless streams are no bombs."""

_SLICE_BYTES: Final = 4 << 10
"""Taken at a time: what a library leaves unread it copies, so tiny members must not come by the megabyte."""

_MOST_AT_ONCE: Final = 8 << 20
"""What one of these slices may expand to: twice as much as gzip can say in so few bytes."""

_ZSTD_WINDOW_LOG: Final = 23
"""8 MiB, all that zstd over HTTP may ask a receiver to keep (RFC 9659)."""


class Decompressor(Protocol):
    """One library's incremental decompressor; ``errors`` are what it raises on bytes it cannot read."""

    @property
    def errors(self) -> tuple[type[Exception], ...]: ...
    @property
    def over(self) -> bool:
        """Whether the content may end here."""
        ...

    def feed(self, data: bytes, limit: int) -> bytes:
        """All content that ``data`` brings, or at least the first ``limit`` bytes of it; not many more."""
        ...


class Decoder:
    """Undoes one coding of one body, chunk by chunk.

    ``why`` is empty while all is well. Once it is not, it says what is wrong, as a sentence fragment,
    and nothing comes out any more.
    """

    def __init__(self, coding: str, engine: Decompressor, free: int) -> None:
        self.why = ""
        self._coding = coding
        self._engine = engine
        self._allowed = free
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """The content that ``data`` brings."""
        return b"".join(self.parts(data))

    def parts(self, data: bytes) -> Iterator[bytes]:
        """The same little by little: a few kilobytes may stand for more than one wants to hold."""
        for start in range(0, len(data), _SLICE_BYTES):
            if self.why:
                break
            if content := self._decode(data[start : start + _SLICE_BYTES]):
                yield content

    def end(self) -> None:
        """The body is over: ``why`` tells if its content is not."""
        if self._begun and not self.why and not self._engine.over:
            self.why = f"the {self._coding} content ends too early"

    def _decode(self, data: bytes) -> bytes:
        self._begun = True
        self._allowed += RATIO * len(data)
        limit = min(self._allowed, _MOST_AT_ONCE)
        try:
            content = self._engine.feed(data, limit + 1)
        except self._engine.errors:
            self.why = f"the content is not {self._coding}"
            return b""
        self._allowed -= len(content)
        if len(content) > limit:
            self.why = f"the {self._coding} content expands too far"
            return b""
        return content


def _through(decoder: Decoder, parts: Iterable[bytes]) -> Iterator[bytes]:
    for part in parts:
        yield from decoder.parts(part)


class Chain:
    """Undoes several codings, the last one applied first. Same use as a `Decoder`."""

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
            parts = _through(decoder, parts)
        yield from parts

    def end(self) -> None:
        for decoder in self._decoders:
            decoder.end()


def decoder(content_encoding: str, free: int = FREE_BYTES) -> Decoder | Chain | None:
    """What undoes the codings that a Content-Encoding field names.

    Each may expand to ``free`` bytes, and to `RATIO` times what it is fed beyond that.
    ``None`` where there are none, or where one is unknown or cannot be undone here: the body stays as it is.
    """
    names = [name.strip(" \t").lower() for name in content_encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    decoders: list[Decoder] = []
    for name in reversed(names[:_MOST_CODINGS]):
        engine = _ENGINES[name]() if name in _ENGINES else None
        if engine is None:
            return None
        decoders.append(Decoder(name, engine, free))
    if not decoders or len(names) > _MOST_CODINGS:
        return None
    return decoders[0] if len(decoders) == 1 else Chain(decoders)


class _Inner(Protocol):
    """What zlib's decompressors and those of zstd have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Members:
    """Compressed members one after another, as gzip and zstd allow; what else follows is ignored."""

    def __init__(self, new: Callable[[], _Inner], first_bytes: bytes, error: type[Exception]) -> None:
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
    """What is called deflate: with zlib's two bytes in front, as it should be, or without."""

    errors = (zlib.error,)

    def __init__(self) -> None:
        self._inner: _Inner | None = None
        self._first = b""

    @property
    def over(self) -> bool:
        return self._inner is not None and self._inner.eof

    def feed(self, data: bytes, limit: int) -> bytes:
        if self._inner is None:
            data = self._first = self._first + data
            if len(data) < 2:
                return b""
            # RFC 1950: method 8, and the two bytes are a multiple of 31.
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inner = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        return b"" if self._inner.eof else self._inner.decompress(data, limit)


class _Brotli:
    def __init__(self, module: Any) -> None:
        self.errors: tuple[type[Exception], ...] = (module.error,)
        self._inner: Any = module.Decompressor()
        # Releases before 1.2 have no limit and raise TypeError here.
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
    # A frame begins like this, or one to be skipped.
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
_ENGINES: Final[dict[str, Callable[[], Decompressor | None]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _Deflate,
    "br": _brotli,
    "zstd": _zstd,
}
