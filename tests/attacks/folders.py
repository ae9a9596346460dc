"""Folders that somebody else made: whatever they hold, reading them writes nothing elsewhere and ends.

Each attack aims at a victim, a folder of the user's own, which must stay as it was.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mcpproxy.record.relay import journal
from tests.attacks.stage import BrokenError, Stage, Table, hold
from tests.cli import recordings
from tests.house import CHECKS, build
from tests.recorder import journals
from tests.recorder.journals import SESSION, Entry, JournalFolder

TABLE: Final = Table()

OLD_NS: Final = 1_500_000_000 * 10**9

READERS: Final[dict[str, tuple[str, ...]]] = {
    "check": ("check", "f/a.jsonl"),
    "show": ("show", "f/a.jsonl"),
    "versions": ("versions", "f"),
    "list": ("list", "f"),
}


class Scene:
    """``folder`` comes from elsewhere, ``victim`` is the user's."""

    def __init__(self, where: Path) -> None:
        self.where, self.folder, self.victim = where, where / "f", where / "victim"
        self.trace = self.folder / "a.jsonl"
        self.journal = Path(journal.folder(str(self.trace)))
        for folder in (self.folder, self.victim):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        for name in ("00000001", "checkpoint", ".profile", "empty"):
            (self.victim / name).write_text("" if name == "empty" else f"precious {name}")
            os.utime(self.victim / name, ns=(OLD_NS, OLD_NS))

    def write_whole_trace(self, name: str = "a.jsonl") -> None:
        recordings.write(self.folder / name, recordings.CLEAN)

    def seen(self) -> dict[str, object]:
        return {
            path.name: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
            for path in self.victim.iterdir()
        }

    def harm(self, before: dict[str, object]) -> str:
        """What of the victim is not as it was."""
        now = self.seen()
        found = [f"{name} deleted" for name in before if name not in now]
        found += [f"{name} made" for name in now if name not in before]
        found += [f"{name} overwritten" for name in now if name in before and now[name] != before[name]]
        return ", ".join(sorted(found))


Plant = Callable[[Scene], None]


def _all_readers_spare(stage: Stage, plant: Plant) -> str:
    """Play it against each command that reads."""
    harmed: dict[str, list[str]] = {}
    for command, arguments in READERS.items():
        scene = Scene(stage.folder)
        plant(scene)
        before = scene.seen()
        stage.run(*arguments)
        if harm := scene.harm(before):
            harmed.setdefault(harm, []).append(command)
    hold(not harmed, "; ".join(f"{', '.join(commands)}: {harm}" for harm, commands in harmed.items()))
    return "nothing of the victim changed"


@TABLE
def journal_is_a_link(stage: Stage) -> str:
    """A closed trace whose journal is a link to a folder: no file in that folder is deleted."""

    def plant(scene: Scene) -> None:
        scene.write_whole_trace()
        scene.journal.symlink_to(scene.victim)

    return _all_readers_spare(stage, plant)


def _trace_is_a_link(target: str) -> Plant:
    def plant(scene: Scene) -> None:
        JournalFolder(scene.trace, SESSION)
        scene.trace.symlink_to(scene.victim / target)

    return plant


@TABLE
def trace_links_to_nothing(stage: Stage) -> str:
    """A trace that is a link to a missing file, with a journal: the file is not made."""
    return _all_readers_spare(stage, _trace_is_a_link("login"))


@TABLE
def trace_links_to_a_file(stage: Stage) -> str:
    """A trace that is a link to an empty file, with a journal: the file stays empty."""
    return _all_readers_spare(stage, _trace_is_a_link("empty"))


def _link_in_journal(name: str, *entries: list[Entry]) -> Callable[[str], Plant]:
    def to(target: str) -> Plant:
        def plant(scene: Scene) -> None:
            JournalFolder(scene.trace, *(entries or (SESSION,)))
            (scene.journal / name).symlink_to(scene.victim / target)

        return plant

    return to


@TABLE
def lock_is_a_link(stage: Stage) -> str:
    """A journal whose lock is a link to a missing file: the file is not made."""
    return _all_readers_spare(stage, _link_in_journal("lock")("made"))


@TABLE
def checkpoint_draft_is_a_link(stage: Stage) -> str:
    """A journal of three segments whose checkpoint.new is a link: neither made nor overwritten."""
    to = _link_in_journal("checkpoint.new", SESSION[:3], SESSION[3:6], SESSION[6:])
    _all_readers_spare(stage, to("made"))
    return _all_readers_spare(stage, to(".profile"))


@TABLE
def hand_is_a_link(stage: Stage) -> str:
    """A journal whose hand is a link to a file of the user: its text is not taken into the trace."""
    secret = b"of-the-user-alone"
    scene = Scene(stage.folder)
    JournalFolder(scene.trace, SESSION[:-1])
    record = journal.HEAD.pack(len(secret), journal.CLIENT, 0, journals.STARTED_NS + 5000) + secret
    (scene.victim / "hand").write_bytes(record)
    (scene.journal / "hand").symlink_to(scene.victim / "hand")
    shown = stage.run("show", "--full", "f/a.jsonl")
    taken = scene.trace.read_bytes() if scene.trace.exists() else b""
    hold(secret not in taken and secret.decode() not in shown.out, "the file's text is in the trace")
    return "not read"


@TABLE
def only_known_names_are_deleted(stage: Stage) -> str:
    """A journal with a file that is none of ours: it is read, that is said, and nothing is deleted."""
    scene = Scene(stage.folder)
    JournalFolder(scene.trace, SESSION)
    (scene.journal / "thesis.txt").write_text("all I have")
    return _is_left_and_said(stage, scene)


def _is_left_and_said(stage: Stage, scene: Scene) -> str:
    names = sorted(os.listdir(scene.journal))
    told = stage.run("check", "f/a.jsonl")
    left = sorted(os.listdir(scene.journal)) if scene.journal.exists() else []
    gone = ", ".join(name for name in names if name not in left)
    hold(not gone, f"check deletes {gone} and completes the trace")
    hold(not scene.trace.exists(), "check writes the trace")
    hold("is not ours" in told.out + told.err, "no word about it")
    hold("7 frames" in told.out, f"not judged: {told.out[-80:]!r}")
    return "judged from a copy, and said"


@TABLE
def journal_of_others(stage: Stage) -> str:
    """A journal that others may write into, or own: it is judged, that is said, and it stays."""
    for mode in (0o770, 0o707):
        scene = Scene(stage.folder)
        JournalFolder(scene.trace, SESSION).path.chmod(mode)
        _is_left_and_said(stage, scene)
    if os.getuid() == 0:
        scene = Scene(stage.folder)
        os.chown(JournalFolder(scene.trace, SESSION).path, 4711, 4711)
        _is_left_and_said(stage, scene)
    return "judged from a copy, and said"


@TABLE
def journal_link_is_said(stage: Stage) -> str:
    """A recording whose journal is a link to another recording's: it is not completed from there."""
    scene = Scene(stage.folder)
    (scene.where / "mine").mkdir(mode=0o700, exist_ok=True)
    own = JournalFolder(scene.where / "mine" / "a.jsonl", SESSION)
    scene.journal.symlink_to(own.path)
    stage.run("check", "f/a.jsonl")
    hold(own.path.exists() and own.names() == ["00000001"], "the other recording's journal is deleted")
    return "the other recording is untouched"


@TABLE
def links_in_the_state_folder(stage: Stage) -> str:
    """Links in the state folder by the names of files that will be made: nothing is written through them."""
    scene = Scene(stage.folder)
    state = stage.state / "mcpproxy"
    state.mkdir(mode=0o777, parents=True)
    house = build(stage.folder, CHECKS)
    before = scene.seen()
    last = int(Path("/proc/sys/kernel/ns_last_pid").read_text())
    for pid in range(last, last + 2000):
        (state / f"journal.key.{pid}").symlink_to(scene.victim / ".profile")
    done = stage.run("run", "--rules", house, "--trace", str(stage.folder / "t.jsonl"), "--", "true")
    hold(done.code == 0, done.err[:80])
    harm = scene.harm(before)
    hold(not harm, f"run --rules: {harm}")
    return "nothing was written through them"


@TABLE
def rotation_goes_on_elsewhere(stage: Stage) -> str:
    """A rotated recording goes on in a file of the user's: completing it does not delete that file."""

    scene = Scene(stage.folder)
    JournalFolder(scene.trace, SESSION)
    stage.run("check", "f/a.jsonl")
    first = scene.trace.read_text().splitlines()[0]  # the header that the journal's trace will have

    def plant(scene: Scene) -> None:
        JournalFolder(scene.trace, SESSION)
        _going_on(scene.trace, "mine.jsonl", first)
        header = recordings.HEADER.replace('"label":"weather"', '"label":"mine"')
        recordings.write(scene.victim / "mine.jsonl", (header, *recordings.CLEAN[1:-1]))
        (scene.folder / "mine.jsonl").hardlink_to(scene.victim / "mine.jsonl")

    harmed: list[str] = []
    for command, arguments in READERS.items():
        scene = Scene(stage.folder)
        plant(scene)
        before = scene.seen()
        stage.run(*arguments)
        if scene.harm(before) or not (scene.folder / "mine.jsonl").exists():
            harmed.append(command)
    hold(not harmed, f"{', '.join(harmed)}: the user's file is deleted")
    return "the user's file is there"


COPIES: Final[dict[str, tuple[str, ...]]] = {
    "import": ("import", "f/a.jsonl", "-o", "f/out.jsonl"),
    "trim": ("trim", "f/a.jsonl", "--frames", "1-", "-o", "f/out.jsonl"),
    "redact": ("redact", "f/a.jsonl", "--key", "x", "-o", "f/out.jsonl"),
}
REPORTS: Final[dict[str, tuple[str, ...]]] = {
    "check --write-baseline": ("check", "f/a.jsonl", "--baseline", "f/out.jsonl", "--write-baseline"),
    "check -o": ("check", "f/a.jsonl", "--format", "json", "-o", "f/out.jsonl"),
    "pin --update": ("pin", "f/a.jsonl", "-o", "f/out.jsonl", "--update"),
}


@TABLE
def outputs_that_are_links(stage: Stage) -> str:
    """import -o, trim -o, redact -o, baselines, reports and pins on a link: it is refused."""
    _outputs_spare(stage, COPIES | REPORTS, "made")
    return _outputs_spare(stage, REPORTS, "empty")


def _outputs_spare(stage: Stage, commands: dict[str, tuple[str, ...]], target: str) -> str:
    harmed: list[str] = []
    for command, arguments in commands.items():
        scene = Scene(stage.folder)
        scene.write_whole_trace()
        (scene.folder / "out.jsonl").symlink_to(scene.victim / target)
        before = scene.seen()
        done = stage.run(*arguments)
        if harm := scene.harm(before):
            harmed.append(f"{command}: {harm}")
        elif done.code != 2:
            harmed.append(f"{command}: exit {done.code}")
    hold(not harmed, "; ".join(harmed))
    return "refused, exit 2"


@TABLE
def pipe_in_a_folder(stage: Stage) -> str:
    """A FIFO and a link to /dev/zero among recordings: list, check, versions pass them over and say so."""
    scene = Scene(stage.folder)
    scene.write_whole_trace()
    os.mkfifo(scene.folder / "pipe.jsonl")
    (scene.folder / "zero.jsonl").symlink_to("/dev/zero")
    for command in ("list", "check", "versions"):
        done = stage.run(command, "f", doing=f"{command} FOLDER")
        said = done.out + done.err
        hold("is a pipe" in said and "is a device" in said, f"{command} says no word")
    return "passed over with a word"


@TABLE
def checkpoint_is_a_pipe(stage: Stage) -> str:
    """A journal whose checkpoint is a FIFO: nobody waits for it."""

    def plant(scene: Scene) -> None:
        JournalFolder(scene.trace, SESSION)
        os.mkfifo(scene.journal / "checkpoint")

    return _all_readers_spare(stage, plant)


@TABLE
def checkpoint_is_endless(stage: Stage) -> str:
    """A journal whose checkpoint is a link to /dev/zero: it is not read."""

    def plant(scene: Scene) -> None:
        JournalFolder(scene.trace, SESSION)
        (scene.journal / "checkpoint").symlink_to("/dev/zero")

    return _all_readers_spare(stage, plant)


def _going_on(trace: Path, name: str, header: str = recordings.HEADER) -> None:
    """A trace whose last record names ``name`` as the file that it goes on in."""
    last = {"type": "continued", "t": 1, "in": name, "frames": {"client": 0, "server": 0}, "findings": {}}
    recordings.write(trace, (header, json.dumps(last, separators=(",", ":"))))


@TABLE
def trace_goes_on_in_itself(stage: Stage) -> str:
    """Traces that go on in themselves, or in each other: refused in a sentence."""
    for names in ({"a": "a"}, {"a": "b", "b": "a"}):
        scene = Scene(stage.folder)
        for name, other in names.items():
            _going_on(scene.folder / f"{name}.jsonl", f"{other}.jsonl")
        for command, arguments in READERS.items():
            done = stage.run(*arguments, doing=f"{command} on a trace that goes on in {names['a']}.jsonl")
            if command in ("check", "show"):
                hold(done.code == 2 and " itself" in done.err, f"{command}: exit {done.code}")
    return "exit 2, said in a sentence"


@TABLE
def endless_files_as_options(stage: Stage) -> str:
    """A baseline, pins or ranges linked to /dev/zero: refused."""
    scene = Scene(stage.folder)
    scene.write_whole_trace()
    (scene.folder / "mcp.json").symlink_to("/dev/zero")
    failed: list[str] = []
    for option in ("--baseline", "--pins", "--versions"):
        try:
            done = stage.run("check", "f/a.jsonl", option, "f/mcp.json", doing=f"check {option}")
        except BrokenError as broken:
            failed.append(str(broken))
        else:
            hold(done.code == 2, f"check {option}: exit {done.code}")
    hold(not failed, "; ".join(failed))
    return "refused, exit 2"


@TABLE
def folders_above_a_recording(stage: Stage) -> str:
    """Folders that are made above a recording are for their owner alone."""
    stage.run("run", "--trace", str(stage.folder / "x" / "y" / "t.jsonl"), "--", "true")
    modes = [f"{(stage.folder / name).stat().st_mode & 0o777:o}" for name in ("x", "x/y")]
    hold(modes == ["700", "700"], f"modes {' and '.join(modes)}")
    return "700 and 700"
