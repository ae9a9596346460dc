"""Records of bodies that repeat earlier ones, also as somebody wrote them who means harm."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import CLIENT, Frame
from mcpproxy.read.view.view import open_view
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.encode import encode_shortened
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.repeated_bodies import Shortened

HEADER = '{"type":"header","format":1,"transport":"http","model":"any","kept":"tools"}'


def frame(seq: int, message: Any, again: Any = None) -> str:
    record = {"type": "frame"} | ({} if again is None else {"again": again})
    record |= {"seq": seq, "t": seq, "from": "client", "exchange": seq, "connection": 1, "message": message}
    return json.dumps(record, separators=(",", ":"))


def recording(folder: Path, *lines: str) -> str:
    path = folder / "m.jsonl"
    path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return str(path)


def test_a_record_is_read_as_it_was_written() -> None:
    short = Shortened(Frame(5, CLIENT, b'{"a":[7]}', 9, exchange=2, connection=1), 3, ((6, 6, 4), (20, 9, 1)))
    for session in ("", "1a2b"):
        line = encode_shortened(short, session)
        assert json.loads(line)["again"] == {"frame": 3, "runs": [[6, 6, 4], [20, 9, 1]]}
        assert decode(line) == short
    for raw in (
        b'{"a":[\n]}',
        b'{"a":["\\ud800"]}',
        b'{"a":[1e400]}',
        b'{"a":["\xff"]}',
        b"[" * 2000 + b"]" * 2000,
    ):
        odd = Shortened(Frame(5, CLIENT, raw, 9, exchange=2, connection=1), 3, ((6, 6, 4),))
        assert decode(encode_shortened(odd, "")) == odd


def test_bodies_that_build_on_each_other(tmp_path: Path) -> None:
    path = recording(
        tmp_path,
        frame(1, {"a": [1]}),
        frame(2, {"a": [2]}, {"frame": 1, "runs": [[6, 6, 1]]}),
        frame(3, {"a": [3]}, {"frame": 2, "runs": [[6, 6, 2]]}),
    )
    whole = [event.raw for event in read_trace(path).events() if isinstance(event, Frame)]
    assert whole == [b'{"a":[1]}', b'{"a":[12]}', b'{"a":[123]}']
    with open_view(path) as view:
        assert [view.raw(seq) for seq in (1, 2, 3)] == whole


@pytest.mark.parametrize(
    ("base", "runs"),
    [
        (1, [[6, 6, 100]]),
        (1, [[60, 0, 1]]),
        (1, [[6, 6, -1]]),
        (1, [[6, 6]]),
        (1, ["x"]),
        (1, [[6, 0, 9], [7, 0, 9]]),
        (2, [[6, 6, 1]]),
        (9, [[6, 6, 1]]),
        ("1", [[6, 6, 1]]),
    ],
)
def test_what_does_not_fit_is_damage(tmp_path: Path, base: Any, runs: Any) -> None:
    path = recording(tmp_path, frame(1, {"a": [1]}), frame(2, {"a": [2]}, {"frame": base, "runs": runs}))
    with pytest.raises(TraceError, match=r"line 3|m\.jsonl:3"):
        list(read_trace(path).events())


def test_bodies_do_not_grow_without_end(tmp_path: Path) -> None:
    lines = [frame(1, {"a": "x" * 1000})]
    size = len(json.dumps({"a": "x" * 1000}, separators=(",", ":")))
    for seq in range(2, 40):
        again = {"frame": seq - 1, "runs": [[0, 0, size], [size, 0, size]]}
        lines.append(frame(seq, {}, again))
        size = 2 * size + 2
    with pytest.raises(TraceError, match="a body that repeats"):
        list(read_trace(recording(tmp_path, *lines)).events())


def test_before_a_server_nothing_is_repeated(tmp_path: Path) -> None:
    path = recording(tmp_path, frame(1, {"a": [1]}), frame(2, {"a": []}, {"frame": 1, "runs": [[6, 6, 1]]}))
    Path(path).write_text(Path(path).read_text().replace('"model":"any",', ""))
    with pytest.raises(TraceError, match="repeats an unknown one"):
        list(read_trace(path).events())
