"""Wireshark's own reader, by which exported packets are read again."""

import shutil
import subprocess
from pathlib import Path

import pytest

_STRICT = tuple(
    word
    for preference in ("tcp.check_checksum:TRUE", "ip.check_checksum:TRUE", "http.desegment_body:TRUE")
    for word in ("-o", preference)
)


def fields(capture: Path, *names: str, where: str = "") -> list[list[str]]:
    """Return these fields of the packets that the display filter ``where`` lets through, or of all."""
    wanted = [word for name in names for word in ("-e", name)]
    printed = _run(
        capture, "-T", "fields", "-E", "separator=\x1f", "-E", "aggregator=\x1e", *wanted, "-Y", where
    )
    return [line.split("\x1f") for line in printed.split("\n")[:-1]]


def http_bodies(capture: Path, folder: Path) -> list[bytes]:
    """Return all bodies of HTTP messages that are complete, sorted; ``folder`` is a new one for them."""
    _run(capture, "-q", "--export-objects", f"http,{folder}")
    return sorted(filter(None, (path.read_bytes() for path in folder.iterdir())))


def _run(capture: Path, *options: str) -> str:
    program = shutil.which("tshark")
    if program is None:
        pytest.skip("tshark is not installed")
    command = [program, "-r", str(capture), *_STRICT, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
