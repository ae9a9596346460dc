"""Recordings that are damaged: a sentence for each, never a traceback, and the others are read."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from mcpproxy.record.relay import journal
from tests.attacks.folders import Scene
from tests.attacks.stage import DEADLINE_S, PYTHON, Stage, Table, hold, is_line, read
from tests.cli import recordings
from tests.cli.recordings import HANDSHAKE, close, frame
from tests.fuzzers import mutations
from tests.recorder.journals import SESSION, STARTED_NS, Entry, JournalFolder, mark, packed, start

TABLE: Final = Table()


@TABLE
def journal_ends_in_zeros(stage: Stage) -> str:
    """A journal that ends in zeros, as after a power cut: it is judged up to there."""
    for zeros in (1, 20, 300_000):
        scene = Scene(stage.folder)
        JournalFolder(scene.trace, SESSION[:-1]).append(1, bytes(zeros))
        done = stage.run("check", "f/a.jsonl", doing=f"check after {zeros} zeros")
        hold("7 frames" in done.out, f"{zeros} zeros: exit {done.code}, {(done.err or done.out)[:90]!r}")
    return "all frames before them are judged"


@TABLE
def trace_ends_in_zeros(stage: Stage) -> str:
    """A trace that ends in zeros: judged up to there, or a sentence says why not; others are judged."""
    scene = Scene(stage.folder)
    scene.write_whole_trace("b.jsonl")
    text = "".join(record + "\n" for record in recordings.CLEAN)
    scene.trace.write_bytes(text.encode()[:-40] + bytes(4096))
    (scene.folder / "c.jsonl").write_bytes(bytes(9000))
    (scene.folder / "d.jsonl").write_bytes(text.encode() + bytes(4096) + b"\n")
    return _others_are_judged(stage, scene)


def _others_are_judged(stage: Stage, scene: Scene) -> str:
    """``b.jsonl`` is sound, all others are damaged in some way."""
    done = stage.run("check", "--format", "json", "f", doing="check FOLDER")
    hold(done.out, f"nothing is judged: {done.err.strip()[-90:]!r}")
    judged = [Path(trace["path"]).name for trace in json.loads(done.out)["traces"]]
    hold("b.jsonl" in judged, f"the sound trace is not judged: {done.err.strip()[-90:]!r}")
    hold(done.code == 2, f"exit {done.code}")
    named = {path.name.removesuffix(".journal") for path in scene.folder.iterdir()}
    silent = sorted(name for name in named if name not in judged and f"/{name}" not in done.err)
    hold(not silent, f"no word about {', '.join(silent[:4])}")
    said = sum(line.startswith("mcpproxy: ") for line in done.err.splitlines())
    return f"{len(judged)} judged, {said} sentences, exit 2"


NO_RECORDS: Final[dict[str, Entry]] = {
    "a gap that is no JSON": mark(journal.GAP, b"[" * 9),
    "a gap of text": mark(journal.GAP, b'{"reason":1,"client":"x","server":[],"stderr":null}'),
    "an exit that is a list": mark(journal.EXIT, b"[]"),
    "an exit of text": mark(journal.EXIT, b'{"ending":1,"code":"x","signal":{}}'),
    "a signal that is no text": mark(journal.SIGNAL, b"\xff\xfe"),
    "an unknown kind": mark(200, b"x"),
    "a time beyond 63 bits": (journal.CLIENT, b"{}\n", (1 << 64) - 1, 0),
    "a connection that nobody opened": (journal.CLIENT, b"{}\n", STARTED_NS + 5, 77),
    "a second start": SESSION[0],
}
STARTS: Final = {
    "a start that is no JSON": b"{",
    "a start that is a list": b"[]",
    "a start without members": b"{}",
    "a start of other types": b'{"transport":1,"command":"x","pid":"x","started_ns":"x","started_at":5}',
    "a start with a huge pid": SESSION[0][1].replace(b'"pid": 0', b'"pid": 18446744073709551616'),
    "a start with a negative pid": SESSION[0][1].replace(b'"pid": 0', b'"pid": -1'),
}


def _damaged_journals() -> dict[str, bytes]:
    found = {name: packed(*SESSION[:5], entry) for name, entry in NO_RECORDS.items()}
    found |= {
        name: packed((journal.START, payload, STARTED_NS, 0), *SESSION[1:])
        for name, payload in STARTS.items()
    }
    for seed in range(60):
        found[f"at random {seed}"] = mutations.damaged(packed(*SESSION), mutations.RECORDS, Random(seed))
    return found


@TABLE
def malformed_journals(stage: Stage) -> str:
    """75 malformed journals in one folder: no traceback, the sound trace is judged, exit 2."""
    scene = Scene(stage.folder)
    scene.write_whole_trace("b.jsonl")
    for number, content in enumerate(_damaged_journals().values()):
        JournalFolder(scene.folder / f"{number}.jsonl").append(1, content)
    return _others_are_judged(stage, scene)


@TABLE
def malformed_beside_a_trace(stage: Stage) -> str:
    """A trace whose journal is damaged: it is judged without it, which a sentence says."""
    scene = Scene(stage.folder)
    records = recordings.CLEAN[:-1]
    recordings.write(scene.trace, records)
    scene.write_whole_trace("b.jsonl")
    JournalFolder(scene.trace, [*SESSION[:5], NO_RECORDS["a gap that is no JSON"]])
    (scene.journal / "checkpoint").write_bytes(b'{"segment":[],"offset":"x"}')
    done = stage.run("check", "f")
    hold("in 2 traces" in done.out, f"{done.out.strip().splitlines()[0]!r}, {done.err.strip()[-60:]!r}")
    hold(done.code == 2 and "a.jsonl" in done.err, f"exit {done.code}, {done.err.strip()[-90:]!r}")
    return "judged, said, exit 2"


@TABLE
def malformed_traces(stage: Stage) -> str:
    """80 malformed traces in one folder: no traceback, the sound trace is judged, exit 2."""
    scene = Scene(stage.folder)
    scene.write_whole_trace("b.jsonl")
    whole = "".join(record + "\n" for record in recordings.CLEAN).encode()
    for seed in range(80):
        damaged = mutations.damaged(whole, mutations.JSON, Random(seed))
        (scene.folder / f"{seed}.jsonl").write_bytes(damaged)
    return _others_are_judged(stage, scene)


BIG: Final = "18446744073709551616"
HALVED: Final = '"\\ud800"'


def _batches(path: Path, text: str) -> None:
    """A session with batches that hold ``text``, as arguments, ids and results."""
    call = (
        f'{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"a","arguments":{{"x":{text}}}}}}}'
    )
    answer = f'{{"jsonrpc":"2.0","id":4,"result":{{"content":[],"structuredContent":{{"x":{text}}}}}}}'
    odd = f'{{"jsonrpc":"2.0","id":{text},"method":"tools/list","params":{{"cursor":{text}}}}}'
    listed = f'{{"jsonrpc":"2.0","id":{text},"result":{{"tools":[],"nextCursor":{text}}}}}'
    said = (("client", f"[{call},{odd},{text}]"), ("server", f"[{answer},{listed},{text}]"))
    frames = [frame(seq, sender, message) for seq, (sender, message) in enumerate(said, start=4)]
    recordings.write(path, (*HANDSHAKE, *frames, close(3, 2)))


def _in_batches(stage: Stage, play: Callable[[Scene], None]) -> str:
    for text in (BIG, HALVED):
        scene = Scene(stage.folder)
        _batches(scene.trace, text)
        _batches(scene.folder / "b.jsonl", "1")
        play(scene)
    return "no traceback"


@TABLE
def diff_of_batches(stage: Stage) -> str:
    """diff on a batch with an integer over 64 bits or half a surrogate pair."""

    def play(scene: Scene) -> None:
        for one, other in (("a", "b"), ("b", "a"), ("a", "a")):
            done = stage.run("diff", f"f/{one}.jsonl", f"f/{other}.jsonl")
            hold(done.code in (0, 1), f"exit {done.code}: {done.err[:80]!r}")

    return _in_batches(stage, play)


@TABLE
def replay_server_of_batches(stage: Stage) -> str:
    """replay server on such a batch, asked as it was then."""

    def play(scene: Scene) -> None:
        lines = scene.trace.read_text().splitlines()
        sent = [line.partition('"message":')[2][:-1] for line in lines if '"from":"client"' in line]
        done = stage.run(
            "replay", "server", "f/a.jsonl", stdin="".join(f"{line}\n" for line in sent).encode(),
            doing="replay server",
        )  # fmt: skip
        hold(done.out.count("\n") == 2, f"{done.out.count(chr(10))} of 2 answers: {done.err[:80]!r}")

    return _in_batches(stage, play)


@TABLE
def replay_client_of_batches(stage: Stage) -> str:
    """replay client on such a batch."""

    def play(scene: Scene) -> None:
        server = (stage.mcpproxy, "replay", "server", "f/b.jsonl")
        done = stage.run(
            "replay", "client", "--timeout", "20", "f/a.jsonl", "--", *server, doing="replay client"
        )
        hold(done.code in (0, 1), f"exit {done.code}: {done.err[:80]!r}")

    return _in_batches(stage, play)


@TABLE
def number_of_a_dead_relay(stage: Stage) -> str:
    """A recording cut, its relay's number taken by a later process: it is not "still recording"."""
    scene = Scene(stage.folder)
    with subprocess.Popen([*PYTHON, "-c", "input()"], stdin=subprocess.PIPE) as later:
        JournalFolder(scene.trace, [start(later.pid), *SESSION[1:-1]])
        done = stage.run("check", "f/a.jsonl")
        later.communicate(b"\n", timeout=DEADLINE_S)
    hold("7 frames" in done.out, f"it counts as alive: {(done.err or done.out).strip()[-90:]!r}")
    hold("cut" in done.out, "judged, but not said to be cut")
    return "completed, and said to be cut"


def _summary_after(stage: Stage, harm: Callable[[Path], None]) -> str:
    """What stderr says at the end of a session after something was done to its trace."""
    scene = Scene(stage.folder)
    process = stage.start("run", "--trace", str(scene.trace), "--", "cat")
    assert process.stdin is not None
    for number in range(1, 4):
        process.stdin.write(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number)
        process.stdin.flush()
        read(process.stdout, is_line)
    for _ in stage.looks("a trace of some length"):
        if scene.trace.exists() and scene.trace.stat().st_size > 600:
            break
    harm(scene.trace)
    _, err = process.communicate(timeout=DEADLINE_S)
    return err.decode(errors="replace").strip().splitlines()[-1]


@TABLE
def trace_deleted_meanwhile(stage: Stage) -> str:
    """The trace is deleted while the session runs: the summary says so."""
    said = _summary_after(stage, lambda trace: trace.unlink())
    hold("deleted" in said, f"it says only: ...{said[-80:]}")
    return "said"


@TABLE
def trace_cut_meanwhile(stage: Stage) -> str:
    """The trace is cut short while the session runs: the summary says so."""
    said = _summary_after(stage, lambda trace: os.truncate(trace, 100))
    hold("cut short" in said, f"it says only: ...{said[-80:]}")
    return "said"
