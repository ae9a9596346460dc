"""Folders that somebody else made: whatever they hold, reading them changes nothing anywhere else.

Each attack aims at a victim: a folder of the user's own with files in it. It must stay as it was, to the
names, the contents and the times, whichever command is pointed at the recordings.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

import mcpproxy
from mcpproxy.cli.main import main
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import Frame
from mcpproxy.read.opening import follow, open_trace
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.relay import journal
from mcpproxy.testing import McpRecording
from tests.recorder.journals import SESSION, STARTED_NS, JournalFolder, record

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs links, pipes and owners")

OLD: Final = (1_500_000_000, 1_500_000_000)


class Stage:
    """``folder`` comes from elsewhere, ``victim`` is the user's."""

    def __init__(self, where: Path) -> None:
        self.folder, self.victim = where / "f", where / "victim"
        self.trace = self.folder / "a.jsonl"
        self.journal = Path(journal.folder(str(self.trace)))
        self.folder.mkdir()
        self.victim.mkdir()
        for name in ("00000001", "checkpoint", ".profile"):
            (self.victim / name).write_text(f"precious {name}")
            os.utime(self.victim / name, OLD)
        os.utime(self.victim, OLD)

    def whole(self) -> bytes:
        """What the session is as a trace."""
        other = self.folder.parent / "other"
        other.mkdir()
        JournalFolder(other / "a.jsonl", SESSION)
        record(other / "a.jsonl")
        content = (other / "a.jsonl").read_bytes()
        shutil.rmtree(other)
        return content


def seen(folder: Path) -> dict[str, object]:
    """Everything about a folder, including the times of last change."""
    found: dict[str, object] = {".": folder.stat().st_mtime_ns}
    for path in sorted(folder.iterdir()):
        found[path.name] = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
    return found


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def closed_beside_a_link(stage: Stage) -> None:
    stage.trace.write_bytes(stage.whole())
    stage.journal.symlink_to(stage.victim)


def open_beside_a_link(stage: Stage) -> None:
    stage.trace.write_bytes(stage.whole()[:700])
    stage.journal.symlink_to(stage.victim)


def trace_linked_to_nothing(stage: Stage) -> None:
    JournalFolder(stage.trace, SESSION)
    stage.trace.symlink_to(stage.victim / "new")


def trace_linked_to_a_file(stage: Stage) -> None:
    JournalFolder(stage.trace, SESSION)
    (stage.victim / "empty").touch()
    os.utime(stage.victim / "empty", OLD)
    stage.trace.symlink_to(stage.victim / "empty")


def trace_is_a_second_name(stage: Stage) -> None:
    JournalFolder(stage.trace, SESSION)
    (stage.victim / "empty").touch()
    os.utime(stage.victim / "empty", OLD)
    stage.trace.hardlink_to(stage.victim / "empty")


def linked_in_the_journal(name: str, target: str) -> Callable[[Stage], None]:
    def plant(stage: Stage) -> None:
        JournalFolder(stage.trace, SESSION[:4], SESSION[4:])
        (stage.journal / name).unlink(missing_ok=True)
        (stage.journal / name).symlink_to(stage.victim / target)

    plant.__name__ = f"{name}_linked_to_{target}"
    return plant


def a_stranger_among_the_segments(stage: Stage) -> None:
    JournalFolder(stage.trace, SESSION)
    (stage.journal / "thesis.txt").write_text("all I have")


def goes_on_in_a_file_of_the_user(stage: Stage) -> None:
    JournalFolder(stage.trace, SESSION)
    first = stage.whole().splitlines(keepends=True)[0]
    goes_on = {"type": "continued", "t": 1, "in": "mine.jsonl", "frames": {"client": 0, "server": 0}}
    stage.trace.write_bytes(first + json.dumps(goes_on, separators=(",", ":")).encode() + b"\n")
    (stage.folder / "mine.jsonl").write_bytes(stage.whole().replace(b'"label":"srv"', b'"label":"mine"'))


ATTACKS: Final = [
    closed_beside_a_link,
    open_beside_a_link,
    trace_linked_to_nothing,
    trace_linked_to_a_file,
    trace_is_a_second_name,
    *(linked_in_the_journal(name, "new") for name in ("checkpoint", "checkpoint.new", "lock", "hand")),
    *(linked_in_the_journal(name, ".profile") for name in ("checkpoint", "checkpoint.new", "lock", "hand")),
    linked_in_the_journal("00000002", ".profile"),
    a_stranger_among_the_segments,
    goes_on_in_a_file_of_the_user,
]

COMMANDS: Final[dict[str, Callable[[Stage], list[str]]]] = {
    "check": lambda s: ["check", str(s.trace)],
    "check the folder": lambda s: ["check", str(s.folder)],
    "show": lambda s: ["show", str(s.trace)],
    "show --follow": lambda s: ["show", "--follow", str(s.trace)],
    "versions": lambda s: ["versions", str(s.folder)],
    "list": lambda s: ["list", str(s.folder)],
    "diff": lambda s: ["diff", str(s.trace), str(s.trace)],
    "trim": lambda s: ["trim", str(s.trace), "--frames", "1-", "-o", str(s.folder.parent / "out.jsonl")],
    "redact": lambda s: ["redact", str(s.trace), "--key", "x", "-o", str(s.folder.parent / "out.jsonl")],
    "import": lambda s: ["import", str(s.trace), "-o", str(s.folder.parent / "out.jsonl")],
    "pin": lambda s: ["pin", str(s.trace), "-o", str(s.folder.parent / "pins.json")],
}  # fmt: skip

REPLAYS: Final[dict[str, Callable[[Stage], list[str]]]] = {
    "replay client": lambda s: ["replay", "client", str(s.trace), "--", sys.executable, "-c", "pass"],
    "replay server": lambda s: ["replay", "server", str(s.trace)],
}
"""They talk to their standard streams, so each has a process."""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_touches_what_links_lead_to(
    stage: Stage, attack: Callable[[Stage], None], command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    attack(stage)
    before = seen(stage.victim)
    of_user = {path.name: path.read_bytes() for path in stage.folder.glob("mine*")}
    main(COMMANDS[command](stage))
    said = "".join(capfd.readouterr())
    assert seen(stage.victim) == before
    assert {path.name: path.read_bytes() for path in stage.folder.glob("mine*")} == of_user
    assert "Traceback" not in said
    if attack is a_stranger_among_the_segments:
        assert (stage.journal / "thesis.txt").read_text() == "all I have"


@pytest.mark.parametrize("attack", [closed_beside_a_link, trace_linked_to_nothing])
@pytest.mark.parametrize("command", REPLAYS)
def test_no_replay_touches_what_links_lead_to(
    stage: Stage, attack: Callable[[Stage], None], command: str
) -> None:
    attack(stage)
    before = seen(stage.victim)
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy", *REPLAYS[command](stage)],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, text=True,
    )  # fmt: skip
    assert seen(stage.victim) == before
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_api_and_plugin_touch_nothing_that_links_lead_to(
    stage: Stage, attack: Callable[[Stage], None]
) -> None:
    attack(stage)
    before = seen(stage.victim)
    for read in (
        lambda: list(mcpproxy.open_trace(stage.trace).frames()),
        lambda: mcpproxy.check(stage.trace),
        lambda: McpRecording(stage.trace, "replay", stage.folder.parent, adds=False),
        lambda: recover(str(stage.trace)),
    ):
        with suppress(McpProxyError, OSError):
            read()
    assert seen(stage.victim) == before


@pytest.mark.parametrize("attack", [trace_linked_to_nothing, a_stranger_among_the_segments])
def test_what_is_not_ours_is_read_all_the_same(stage: Stage, attack: Callable[[Stage], None]) -> None:
    attack(stage)
    trace = open_trace(stage.trace)
    frames = [event for event in trace.events() if isinstance(event, Frame)]
    assert len(frames) == 7
    assert trace.tally is not None
    assert trace.tally.frames == {"client": 3, "server": 4}
    assert trace.notes[0].startswith("completed in a copy, nothing was written here: ")
    assert trace.place[0] == str(stage.trace)
    assert (stage.journal / "00000001").exists()


def test_the_copy_goes_with_the_trace(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    (stage.folder.parent / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(stage.folder.parent / "tmp"))
    a_stranger_among_the_segments(stage)
    trace = open_trace(stage.trace)
    assert len(list((stage.folder.parent / "tmp").iterdir())) == 1
    del trace
    assert list((stage.folder.parent / "tmp").iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_journal_that_others_may_write_into_is_left_as_it_is(stage: Stage, mode: int) -> None:
    names = JournalFolder(stage.trace, SESSION).names()
    stage.journal.chmod(mode)
    trace = open_trace(stage.trace)
    assert sum(isinstance(event, Frame) for event in trace.events()) == 7
    assert trace.notes[0].endswith("the journal beside it is not ours, others may write into it")
    assert not stage.trace.exists()
    assert sorted(os.listdir(stage.journal)) == names


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give files away")
def test_a_journal_of_somebody_else_is_left_as_it_is(stage: Stage) -> None:
    JournalFolder(stage.trace, SESSION)
    os.chown(stage.journal, 4711, 4711)
    trace = open_trace(stage.trace)
    assert sum(isinstance(event, Frame) for event in trace.events()) == 7
    assert trace.notes[0].endswith("is not ours, it belongs to another user")
    assert not stage.trace.exists()


def test_our_own_journal_is_completed_as_ever(stage: Stage) -> None:
    JournalFolder(stage.trace, SESSION)
    assert open_trace(stage.trace).notes == []
    assert stage.trace.read_bytes().startswith(b'{"type":"header"')
    assert not stage.journal.exists()


def odd_files(folder: Path) -> None:
    """One of each kind that is no regular file, and names that lead to what never ends."""
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "zero.jsonl").symlink_to("/dev/zero")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "dir.jsonl").mkdir()


@pytest.mark.parametrize("command", ["check", "versions", "list"])
def test_pipes_devices_and_loops_are_passed_over_with_a_word(
    stage: Stage, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    stage.trace.write_bytes(stage.whole())
    odd_files(stage.folder)
    code = main([command, str(stage.folder)])
    said = "".join(capfd.readouterr())
    assert code == (0 if command == "list" else 2)
    assert "is a pipe, not a regular file" in said
    assert "is a device, not a regular file" in said


@pytest.mark.parametrize("name", ["pipe", "zero", "loop", "dir"])
def test_show_says_what_it_cannot_show(stage: Stage, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    odd_files(stage.folder)
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "show", str(stage.folder / f"{name}.jsonl")],
        capture_output=True, timeout=60, text=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("mcpproxy: ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["checkpoint", "00000001", "hand", "lock"])
@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_nothing_in_a_journal_is_waited_for(stage: Stage, name: str, kind: str) -> None:
    JournalFolder(stage.trace, SESSION)
    (stage.journal / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(stage.journal / name)
    else:
        (stage.journal / name).symlink_to("/dev/zero")
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "check", str(stage.trace)],
        capture_output=True, timeout=60, text=True,
    )  # fmt: skip
    assert ran.returncode in (0, 1, 2)
    assert "Traceback" not in ran.stderr


def going_on(trace: Path, name: str) -> None:
    """A trace whose last record names ``name`` as the next file."""
    header = {"type": "header", "format": 1, "started_ns": STARTED_NS}
    last = {"type": "continued", "t": 1, "in": name, "frames": {"client": 0, "server": 0}, "findings": {}}
    trace.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in (header, last)))


@pytest.mark.parametrize("name", ["a.jsonl", "../a.jsonl", "..", "", "x/y", "a\0b"])
def test_a_trace_that_goes_on_nowhere_is_refused(stage: Stage, name: str) -> None:
    going_on(stage.trace, name)
    with pytest.raises(McpProxyError, match="the next file that it names is itself"):
        list(open_trace(stage.trace).events())
    with pytest.raises(McpProxyError, match="the next file that it names is itself"):
        list(follow(stage.trace, 0.01))


def test_a_circle_of_traces_is_refused(stage: Stage) -> None:
    going_on(stage.trace, "b.jsonl")
    going_on(stage.folder / "b.jsonl", "a.jsonl")
    with pytest.raises(McpProxyError, match="the next file that it names is itself"):
        list(open_trace(stage.trace).events())
    with pytest.raises(McpProxyError, match="the next file that it names is itself"):
        list(follow(stage.trace, 0.01))


def test_one_bad_trace_does_not_keep_the_others_from_being_judged(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = stage.whole()
    stage.trace.write_bytes(whole)
    for name, content in {"b": b"\0" * 9000, "c": whole[:500] + b"\0" * 4096 + b"\n", "d": b"[]\n"}.items():
        (stage.folder / f"{name}.jsonl").write_bytes(content)
    assert main(["check", str(stage.folder)]) == 2
    out, err = capfd.readouterr()
    assert f"{stage.trace}" in out
    assert [line.count("jsonl:1: not an mcpproxy trace") for line in err.splitlines()].count(1) >= 1
    assert "Traceback" not in err


def test_a_trace_whose_journal_is_damaged_is_judged_without_it_and_that_is_said(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = stage.whole()
    cut = whole[: whole.rindex(b'{"type":"close"')]
    stage.trace.write_bytes(cut)
    (stage.folder / "b.jsonl").write_bytes(whole)
    folder = JournalFolder(stage.trace, [*SESSION[:5], (journal.GAP, b"[" * 9, STARTED_NS + 40, 0)])
    assert main(["check", str(stage.folder)]) == 2
    out, err = capfd.readouterr()
    assert "b.jsonl" in out
    assert err == (
        f"mcpproxy: {stage.trace}: the journal beside it could not be recovered: the journal is damaged: "
        "a record that is not JSON; the trace was judged without it\n"
    )
    assert "00000001" in folder.names()
    assert sum(isinstance(event, Frame) for event in open_trace(stage.trace).events()) == 4


@pytest.mark.parametrize("zeros", [1, 19, 20, 21, 300_000])
def test_a_journal_that_ends_in_zeros_is_read_up_to_there(stage: Stage, zeros: int) -> None:
    folder = JournalFolder(stage.trace, SESSION[:-1])
    folder.append(1, b"\0" * zeros)
    trace = open_trace(stage.trace)
    assert sum(isinstance(event, Frame) for event in trace.events()) == 7
    assert trace.notes[-1] == "the recording was cut: mcpproxy was killed before the session ended"


def test_a_journal_with_a_missing_segment_is_not_deleted(stage: Stage) -> None:
    folder = JournalFolder(stage.trace, SESSION[:3], SESSION[3:6], SESSION[6:])
    (stage.journal / "00000002").unlink()
    trace = open_trace_or_sentence(stage.trace)
    assert "segment 00000002 is missing" in trace or trace.endswith("no such file")
    assert {"00000001", "00000003"} <= set(folder.names())


def open_trace_or_sentence(path: Path) -> str:
    try:
        recover(str(path))
    except McpProxyError as fault:
        return str(fault)
    return ""


def test_folders_above_a_recording_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    from mcpproxy.cli import new_recording

    trace, opened = new_recording.create_recording(
        str(tmp_path / "x" / "y" / "z.jsonl"), "", "s", {"transport": '"stdio"'}
    )
    opened.discard()
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("x", "x/y")] == [0o700, 0o700]
    assert trace.endswith("z.jsonl")


@pytest.mark.parametrize("command", ["import", "trim", "redact"])
def test_an_output_that_is_a_link_is_not_written_through(stage: Stage, command: str) -> None:
    stage.trace.write_bytes(stage.whole())
    out = stage.folder.parent / "out.jsonl"
    out.symlink_to(stage.victim / "new")
    before = seen(stage.victim)
    assert main(COMMANDS[command](stage)) == 2
    assert seen(stage.victim) == before


@pytest.mark.parametrize("target", ["new", ".profile"])
def test_baselines_and_pins_are_not_written_through_links(stage: Stage, target: str) -> None:
    stage.trace.write_bytes(stage.whole())
    link = stage.folder / "mcp.json"
    link.symlink_to(stage.victim / target)
    before = seen(stage.victim)
    for argv in (
        ["check", str(stage.trace), "--baseline", str(link), "--write-baseline"],
        ["check", str(stage.trace), "-o", str(link), "--format", "json"],
        ["pin", str(stage.trace), "-o", str(link), "--update"],
    ):
        assert main(argv) == 2
    assert seen(stage.victim) == before


@pytest.mark.parametrize("option", ["--baseline", "--pins", "--versions"])
def test_an_endless_baseline_is_refused(stage: Stage, option: str) -> None:
    stage.trace.write_bytes(stage.whole())
    (stage.folder / "mcp.json").symlink_to("/dev/zero")
    assert main(["check", str(stage.trace), option, str(stage.folder / "mcp.json")]) == 2
