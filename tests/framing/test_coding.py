"""Content codings: every split into chunks gives the same content, and no bytes raise an exception."""

import gzip
import sys
import zlib
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.record.framing.coding import Chain, Decoder, decoder

TEXT = b'{"jsonrpc": "2.0", "method": "notifications/message"}\n' * 100


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


ENCODED: dict[str, tuple[str, bytes]] = {
    "gzip": ("gzip", gzip.compress(TEXT, mtime=0)),
    "its old name, in capitals": (" X-GZIP ", gzip.compress(TEXT, mtime=0)),
    "gzip in two members": ("gzip", gzip.compress(TEXT[:99], mtime=0) + gzip.compress(TEXT[99:], mtime=0)),
    "gzip, zeros behind it": ("gzip", gzip.compress(TEXT, mtime=0) + bytes(100)),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate, something behind it": ("deflate", zlib.compress(TEXT) + b"more"),
    "deflate without zlib's head": ("deflate", raw_deflate(TEXT)),
    "two codings": ("deflate, identity, gzip", gzip.compress(zlib.compress(TEXT))),
}


def made(name: str, free: int = 1 << 20) -> Decoder | Chain:
    made = decoder(name, free)
    assert made is not None
    return made


def decoded(undo: Decoder | Chain, data: bytes, step: int) -> bytes:
    content = b"".join(undo.feed(data[at : at + step]) for at in range(0, len(data), step))
    undo.end()
    return content


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(("name", "data"), ENCODED.values(), ids=ENCODED)
def test_the_content_comes_back(name: str, data: bytes, step: int) -> None:
    undo = made(name)
    assert decoded(undo, data, step) == TEXT
    assert undo.why == ""


@pytest.mark.parametrize("name", ["", "identity", ",", "compress", "gzip, compress", "gzip,gzip,gzip,gzip"])
def test_unknown_codings_stay_encoded(name: str) -> None:
    assert decoder(name) is None


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_a_flushed_event_is_there_at_once(name: str) -> None:
    packer = zlib.compressobj(wbits={"gzip": 31, "deflate": 15}[name])
    undo = made(name)
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        assert undo.feed(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)) == event


@pytest.mark.parametrize(
    ("name", "data", "content", "why"),
    [
        ("gzip", b"", b"", ""),
        ("gzip", b"hello", b"", "the content is not gzip"),
        ("gzip", gzip.compress(b"abc", mtime=0)[:-1], b"abc", "the gzip content ends too early"),
        ("gzip", gzip.compress(b"abc", mtime=0) + b"\x1f?", b"", "the content is not gzip"),
        ("gzip", gzip.compress(b"abc", mtime=0)[:-8] + bytes(8), b"", "the content is not gzip"),
        ("deflate", b"x", b"", "the deflate content ends too early"),
        ("deflate", b"\xff\xff\xff", b"", "the content is not deflate"),
        ("deflate, gzip", gzip.compress(b"\xff\xff\xff", mtime=0), b"", "the content is not deflate"),
    ],
)
def test_what_is_wrong_is_said(name: str, data: bytes, content: bytes, why: str) -> None:
    undo = made(name)
    assert decoded(undo, data, 1 << 20) == content
    assert undo.why == why
    assert undo.feed(b"more") == b""


def test_a_decompression_bomb_is_stopped() -> None:
    undo = made("gzip", free=1 << 20)
    content = undo.feed(gzip.compress(bytes(64 << 20)))
    assert len(content) < 2 << 20
    assert undo.why == "the gzip content expands too far"


def test_many_tiny_members_are_read_in_time() -> None:
    undo = made("gzip")
    assert undo.feed(gzip.compress(b"", mtime=0) * 3000 + gzip.compress(b"a", mtime=0)) == b"a"


def test_a_long_stream_that_expands_little_is_decoded() -> None:
    text = b"".join(b"%d " % number for number in range(100_000))
    undo = made("gzip", free=0)
    assert decoded(undo, gzip.compress(text, mtime=0), 1000) == text
    assert undo.why == ""


@given(st.sampled_from(["gzip", "deflate", "gzip, deflate"]), st.lists(st.binary(), max_size=5))
def test_no_bytes_raise(name: str, chunks: list[bytes]) -> None:
    undo = made(name)
    for chunk in chunks:
        undo.feed(chunk)
    undo.end()


# What the optional libraries offer, on top of zlib: no test may depend on what happens to be installed.


class FakeBrotli:
    """Like brotli.Decompressor since 1.2: it may stop early, and then has to be called again."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj()
        self._tail = b""

    def process(self, data: bytes, output_buffer_limit: int) -> bytes:
        content = self._inner.decompress(self._tail + data, min(output_buffer_limit, 1000))
        self._tail = self._inner.unconsumed_tail
        return content

    def can_accept_more_data(self) -> bool:
        return not self._tail

    def is_finished(self) -> bool:
        return self._inner.eof


class OldBrotli:
    """Like brotli.Decompressor before 1.2, which has no limit."""

    def process(self, data: bytes) -> bytes:
        return data


def new_zstd(options: dict[str, int]) -> object:
    """Like compression.zstd.ZstdDecompressor, which has the methods of zlib's."""
    assert options == {"window_log_max": 23}
    return zlib.decompressobj()


def module(name: str, **names: object) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(names)
    return made


BROTLI = module("brotli", Decompressor=FakeBrotli, error=zlib.error)
OLD_BROTLI = module("brotli", Decompressor=OldBrotli, error=zlib.error)
ZSTD = module(
    "zstd",
    ZstdDecompressor=new_zstd,
    ZstdError=zlib.error,
    DecompressionParameter=SimpleNamespace(window_log_max="window_log_max"),
)
INSTALLED: dict[str, tuple[str, dict[str, ModuleType]]] = {
    "br by a package": ("br", {"brotli": BROTLI}),
    "zstd by the standard library": ("zstd", {"compression.zstd": ZSTD}),
    "zstd by a package": ("zstd", {"backports.zstd": ZSTD}),
}
MISSING: dict[str, tuple[str, dict[str, ModuleType]]] = {
    "no br": ("br", {}),
    "br without a limit": ("br", {"brotli": OLD_BROTLI}),
    "no zstd": ("zstd", {}),
}


def install(monkeypatch: pytest.MonkeyPatch, modules: dict[str, ModuleType]) -> None:
    """Make exactly these optional modules importable."""
    for name in ("brotli", "compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, cast("ModuleType", modules.get(name)))


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize(("name", "modules"), INSTALLED.values(), ids=INSTALLED)
def test_installed_libraries_are_used(
    name: str, modules: dict[str, ModuleType], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, modules)
    undo = made(name)
    assert decoded(undo, zlib.compress(TEXT), step) == TEXT
    assert undo.why == ""
    cut_short = made(name)
    decoded(cut_short, zlib.compress(TEXT)[:-1], step)
    assert cut_short.why == f"the {name} content ends too early"


@pytest.mark.parametrize(("name", "modules"), MISSING.values(), ids=MISSING)
def test_codings_without_a_library_stay_encoded(
    name: str, modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, modules)
    assert decoder(name) is None


@pytest.mark.parametrize(("name", "modules"), INSTALLED.values(), ids=INSTALLED)
def test_a_decompression_bomb_of_an_optional_coding_is_stopped(
    name: str, modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, modules)
    undo = made(name)
    assert len(undo.feed(zlib.compress(bytes(16 << 20)))) < 2 << 20
    assert undo.why == f"the {name} content expands too far"
