"""``mcpproxy prune``: old recordings go, and nothing else does."""

import fcntl
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpproxy.base.files import Folder
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, HANDSHAKE

DAY_S = 86_400


@pytest.fixture
def folder(state_dir: Path) -> Path:
    state_dir.mkdir(parents=True)
    return state_dir


def recorded(folder: Path, name: str, age_days: float, records: tuple[str, ...] = CLEAN) -> Path:
    path = folder / f"{name}.jsonl"
    recordings.write(path, records)
    aged(path, age_days)
    return path


def aged(path: Path, days: float) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


def test_old_recordings_are_deleted(mcpproxy: Mcpproxy, folder: Path) -> None:
    old, new = recorded(folder, "old", 31), recorded(folder, "new", 29)
    size = old.stat().st_size
    said = mcpproxy("prune", "--older-than", "30d", "--yes")
    assert said.code == 0
    assert said.out == f" 31 days  {size / 1000:.2f} kB  old.jsonl\n"
    assert said.err == f"mcpproxy: deleted 1 recording, {size / 1000:.2f} kB, in {folder}\n"
    assert not old.exists()
    assert new.exists()


def test_a_dry_run_deletes_nothing(mcpproxy: Mcpproxy, folder: Path) -> None:
    old = recorded(folder, "old", 31)
    said = mcpproxy("prune", "--older-than", "4w", "--dry-run")
    assert (said.code, "old.jsonl" in said.out) == (0, True)
    assert said.err.startswith("mcpproxy: would delete 1 recording, ")
    assert old.exists()


def test_without_a_terminal_it_needs_yes(mcpproxy: Mcpproxy, folder: Path) -> None:
    old = recorded(folder, "old", 31)
    said = mcpproxy("prune", "--older-than", "30d")
    assert said.code == 2
    assert said.err.endswith("; add --yes to delete without a question\n")
    assert old.exists()


def test_one_that_is_running_stays(mcpproxy: Mcpproxy, folder: Path) -> None:
    old = recorded(folder, "old", 31, HANDSHAKE)
    journal = folder / "old.jsonl.journal"
    journal.mkdir()
    with (journal / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        aged(journal / "lock", 31)
        aged(journal, 31)
        said = mcpproxy("prune", "--older-than", "30d", "--yes")
    assert (said.code, said.out) == (0, "")
    assert said.err == f"mcpproxy: nothing to delete in {folder}\n"
    assert old.exists()


def test_the_journal_of_a_killed_session_goes_too(mcpproxy: Mcpproxy, folder: Path) -> None:
    old = recorded(folder, "old", 31, HANDSHAKE)
    journal = folder / "old.jsonl.journal"
    journal.mkdir()
    (journal / "lock").touch()
    aged(journal / "lock", 31)
    aged(journal, 31)
    said = mcpproxy("prune", "--older-than", "30d", "--yes")
    assert "old.jsonl and 1 file beside it" in said.out
    assert not old.exists()
    assert not journal.exists()


def test_a_rotated_recording_goes_whole(mcpproxy: Mcpproxy, folder: Path) -> None:
    goes_on = (
        '{"type":"continued","t":5,"in":"old.2.jsonl","frames":{"client":1,"server":1},'
        '"findings":{"error":0,"warning":0,"info":0},"judge_error":null}'
    )
    first = recorded(folder, "old", 40, (recordings.HEADER, goes_on))
    header = recordings.HEADER.replace('"redaction"', '"continues":"old.jsonl","redaction"')
    second = recorded(folder, "old.2", 20, (header, *CLEAN[1:]))
    mcpproxy("prune", "--older-than", "30d", "--yes")
    assert first.exists(), "it was changed 20 days ago"
    aged(second, 31)
    mcpproxy("prune", "--older-than", "30d", "--yes")
    assert not first.exists()
    assert not second.exists()


def test_a_rotated_recording_goes_even_without_its_first_file(mcpproxy: Mcpproxy, folder: Path) -> None:
    header = recordings.HEADER.replace('"redaction"', '"continues":"old.jsonl","redaction"')
    second = recorded(folder, "old.2", 31, (header, *CLEAN[1:]))
    said = mcpproxy("prune", "--older-than", "30d", "--yes")
    assert said.code == 0
    assert said.err.startswith("mcpproxy: deleted 1 recording, ")
    assert not second.exists()


def test_only_what_was_deleted_is_counted(
    mcpproxy: Mcpproxy, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, old = recorded(folder, "kept", 32), recorded(folder, "old", 31)
    size = old.stat().st_size
    unlink = Folder.unlink

    def refuse(folder: Folder, name: str) -> None:
        if name == kept.name:
            raise PermissionError(1, "Operation not permitted", name)
        unlink(folder, name)

    monkeypatch.setattr(Folder, "unlink", refuse)
    said = mcpproxy("prune", "--older-than", "30d", "--yes")
    assert said.code == 2
    assert said.err.splitlines() == [
        "mcpproxy: kept.jsonl: operation not permitted; the rest of the recording stays",
        f"mcpproxy: deleted 1 recording, {size / 1000:.2f} kB, in {folder}; 1 could not be deleted",
    ]
    assert kept.exists()
    assert not old.exists()


@pytest.mark.parametrize("gone", ["old.jsonl", "00000001"])
def test_a_recording_that_another_process_deletes_meanwhile_is_passed_over(
    mcpproxy: Mcpproxy, folder: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    old, older = recorded(folder, "old", 31), recorded(folder, "older", 32)
    segment = folder / "old.jsonl.journal/00000001"
    segment.parent.mkdir()
    segment.touch()
    look_up, list_names = Folder.stat, Folder.names

    def stat(looked_in: Folder, name: str) -> os.stat_result:
        status = look_up(looked_in, name)
        if name == gone:
            old.unlink()
        return status

    def names(listed: Folder) -> list[str]:
        found = list_names(listed)
        segment.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Folder, "stat", stat)
    monkeypatch.setattr(Folder, "names", names)
    said = mcpproxy("prune", "--older-than", "30d", "--yes")
    assert said.code == 0
    assert not older.exists()
    assert old.exists() == (gone == segment.name)


def test_the_socket_that_a_killed_session_has_left_goes_with_its_recording(
    mcpproxy: Mcpproxy, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("old", "kept"):
        recorded(folder, name, 31)
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as left:
        left.bind("old.jsonl.control")
    (folder / "kept.jsonl.control").write_text("a file of the user")
    with socket.socket(socket.AF_UNIX) as another:
        another.bind("service.control")
    assert mcpproxy("prune", "--older-than", "30d", "--yes").code == 0
    assert sorted(os.listdir(folder)) == ["kept.jsonl.control", "service.control"]


def not_a_trace(folder: Path) -> Path:
    path = folder / "notes.jsonl"
    path.write_text('{"a": 1}\n')
    return path


def linked(folder: Path) -> Path:
    target = recorded(folder.parent, "elsewhere", 31)
    path = folder / "link.jsonl"
    path.symlink_to(target)
    return path


def hard_linked(folder: Path) -> Path:
    path = folder / "two.jsonl"
    path.hardlink_to(recorded(folder.parent, "elsewhere", 31))
    return path


def strange_journal(folder: Path) -> Path:
    path = recorded(folder, "old", 31)
    journal = folder / "old.jsonl.journal"
    journal.mkdir()
    (journal / "thesis.txt").write_text("years of work")
    aged(journal, 31)
    return path


@pytest.mark.parametrize("make", [not_a_trace, linked, hard_linked, strange_journal])
def test_what_is_not_ours_stays(mcpproxy: Mcpproxy, folder: Path, make: Callable[[Path], Path]) -> None:
    path = make(folder)
    if not path.is_symlink():
        aged(path, 31)
    said = mcpproxy("prune", "--older-than", "30d", "--yes")
    assert (said.code, said.out) == (0, "")
    assert path.exists()


def test_an_age_needs_a_unit(mcpproxy: Mcpproxy) -> None:
    said = mcpproxy("prune", "--older-than", "30")
    assert said.code == 2
    assert "'30' is not an age such as 30d, 12h or 90m" in said.err


def test_the_runs_of_validate_and_fuzz_go_too(mcpproxy: Mcpproxy, folder: Path) -> None:
    runs = [folder / "validate" / "a", folder / "validate" / "b", folder / "fuzz" / "c"]
    for run in runs:
        run.mkdir(parents=True)
    gone = [recorded(runs[0], "session", 31), recorded(runs[0], "session-2", 31), recorded(runs[2], "01", 31)]
    stays = [recorded(runs[1], "session", 29), runs[1] / "notes.txt", folder / "hosts"]
    stays[1].touch()
    stays[2].mkdir()
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (folder / "validate" / "link").symlink_to(elsewhere)
    stays.append(recorded(elsewhere, "old", 31))
    said = mcpproxy("prune", "--older-than", "30d", "--yes")
    assert (said.code, said.err.startswith("mcpproxy: deleted 3 recordings, ")) == (0, True)
    assert [line.split()[-1] for line in said.out.splitlines()] == [
        "validate/a/session-2.jsonl",
        "validate/a/session.jsonl",
        "fuzz/c/01.jsonl",
    ]
    assert not any(path.exists() for path in (*gone, runs[0], runs[2]))
    assert all(path.exists() for path in stays)


def test_a_run_of_validate_that_goes_on_stays(mcpproxy: Mcpproxy, folder: Path) -> None:
    """It has no journal; the process that the header names still writes it."""
    run = folder / "validate" / "a"
    run.mkdir(parents=True)
    header, *records = CLEAN
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        members = {**json.loads(header), "pid": process.pid, "started_ns": time.monotonic_ns()}
        goes_on = (json.dumps(members, separators=(",", ":")), *records[:-1])
        path = recorded(run, "session", 31, goes_on)
        assert mcpproxy("prune", "--older-than", "30d", "--yes").out == ""
        assert path.exists()
        process.communicate()
    assert "validate/a/session.jsonl" in mcpproxy("prune", "--older-than", "30d", "--yes").out
    assert not path.exists()
