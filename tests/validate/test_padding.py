"""The recording of a large message has a mask of its padding, and is judged like the message."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import mcpproxy
from mcpproxy.judge.session.frame import SERVER, Frame
from mcpproxy.judge.session.masked_values import is_masked
from mcpproxy.peers.validate.outcome import Validation
from mcpproxy.peers.validate.padding import PADDING_MEMBER, padding, without_padding
from tests.validate.test_http_probes import over_http
from tests.validate.trial import check, target, tried

PROBES = ("large-message", "huge-message")


def on_stdio(folder: Path) -> Validation:
    return tried(target(), folder, PROBES)


def on_http(folder: Path) -> Validation:
    return over_http("stateful", "", folder, PROBES)


@pytest.mark.parametrize("play", [on_stdio, on_http])
def test_the_recording_of_large_messages_is_small(play: Callable[[Path], Validation], tmp_path: Path) -> None:
    result = play(tmp_path)
    assert [check(result, name).status for name in PROBES] == ["passed", "passed"]
    files = sorted(tmp_path.rglob("*.jsonl"))
    assert sum(file.stat().st_size for file in files) < 100_000
    text = "".join(file.read_text() for file in files)
    lengths = [part.partition(",")[0] for part in text.split(f'"{PADDING_MEMBER}":"masked(len=')[1:]]
    assert lengths == ["98304", "4194304"]
    for file in files:
        records = [json.loads(line) for line in file.read_text().splitlines()]
        found = [(record["rule"], record["frame"]) for record in records if record["type"] == "finding"]
        report = mcpproxy.check(str(file))
        assert [(finding.rule, finding.frame) for finding in report.findings] == found


def test_what_a_server_repeats_is_masked_too() -> None:
    said = json.dumps({"text": json.dumps({PADDING_MEMBER: padding(1 << 20)}), "long": "x" * 4000})
    written = without_padding(Frame(7, SERVER, said.encode(), 12))
    text, long = json.loads(written.raw).values()
    assert is_masked(json.loads(text)[PADDING_MEMBER])
    assert long == "x" * 4000
    assert (written.seq, written.sender, written.observed_at_ns) == (7, SERVER, 12)


def test_a_frame_without_padding_is_recorded_as_it_is() -> None:
    frame = Frame(1, SERVER, b'{"a":"' + b"xy" * 100_000 + b'"}')
    assert without_padding(frame) is frame
