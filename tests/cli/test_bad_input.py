"""Whatever people hand over by mistake: one line that says what, where and what next; exit code 2.

A file of no known format has a line of reasons for each format, too.
"""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, HEADER


def _missing(path: Path) -> None:
    assert not path.exists()


def _empty(path: Path) -> None:
    path.touch()


def _not_ours(path: Path) -> None:
    path.write_text('{"level":"info","text":"a log of something else"}\n')


def _newer(path: Path) -> None:
    recordings.write(path, (HEADER.replace('"format":1', '"format":99'),))


def _headless(path: Path) -> None:
    path.write_text(HEADER[: len(HEADER) // 2])


def _garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def _damaged(path: Path) -> None:
    recordings.write(path, (*CLEAN[:3], "damage", *CLEAN[3:]))


TRACES: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (_missing, "no such file; mcpproxy list shows"),
    "empty": (_empty, "the file is empty; "),
    "not ours": (_not_ours, ":1: not an mcpproxy trace; "),
    "from a newer format": (_newer, ":1: written by format 99, this mcpproxy reads up to 1; please update"),
    "cut off in its header": (_headless, ":1: cut off in the header; "),
    "binary garbage": (_garbage, ":1: not an mcpproxy trace; "),
    "damaged inside": (_damaged, ":4: not a trace record; the 3 records before it are whole"),
}


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize(("make", "expected"), TRACES.values(), ids=TRACES)
def test_traces_that_cannot_be_read(
    mcpproxy: Mcpproxy, tmp_path: Path, command: str, make: Callable[[Path], None], expected: str
) -> None:
    path = tmp_path / "t.jsonl"
    make(path)
    refused = mcpproxy(command, str(path))
    assert refused.code == 2
    assert refused.err.startswith(f"mcpproxy: {path}")
    first, *reasons = refused.err.splitlines()
    assert expected in first
    assert [line for line in reasons if not line.startswith("mcpproxy:   ")] == []
    assert bool(reasons) == ("none of the 8 other formats fits" in first)


@pytest.mark.parametrize("command", ["show", "check"])
def test_a_trace_of_somebody_else(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Refused by a stand-in for the system call, because root may read everything."""

    def refuse(path: str, *, follows: bool) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("mcpproxy.record.trace.trace_file.open_regular", refuse)
    path = recordings.write(tmp_path / "t.jsonl", CLEAN)
    refused = mcpproxy(command, path)
    assert refused.code == 2
    assert refused.err == f"mcpproxy: {path}: permission denied; run as the user who recorded it\n"


ARGUMENTS = {
    "check with nothing recorded": (["check"], "nothing recorded yet; "),
    "check of a folder without traces": (["check", "{folder}"], "{folder}: no traces in this folder; "),
    "check in an unknown format": (["check", "x", "--format", "xml"], "invalid choice: 'xml'"),
    "check with an unknown option": (
        ["check", "x", "--fast"],
        "check: unknown option --fast; see mcpproxy check --help",
    ),
    "check by an unknown rule": (["check", "x", "--select", "XYZZY-1"], "--select: 'XYZZY-1' is neither"),
    "check with an unknown rule left out": (
        ["check", "x", "--ignore", "XYZZY-1"],
        "--ignore: 'XYZZY-1' is neither a rule",
    ),
    "show of a folder": (
        ["show", "{folder}"],
        "{folder}: no traces in this folder; ",
    ),
    "show of two traces": (["show", "a", "b"], "show: unrecognized arguments: b; "),
    "show of frames that are no range": (
        ["show", "x", "--frames=many"],
        "'many' is not a range of frames such as 3-9",
    ),
    "show of no frames": (["show", "x", "--frames", "-"], "'-' is not a range"),
    "show of frames backwards": (["show", "x", "--frames", "9-3"], "'9-3' ends before it begins"),
    "show with nothing recorded": (["show"], "nothing recorded yet; "),
    "list of a folder that is not there": (["list", "{folder}/x"], "{folder}/x: no such folder; "),
    "list of a folder without traces": (["list", "{folder}"], "{folder}: no traces in this folder; "),
    "list of a file": (["list", "{file}"], "{file}: not a folder; "),
    "list of none": (["list", "--limit", "0"], "'0' is not a number of at least 1"),
    "list of some": (["list", "--limit", "some"], "'some' is not a number of at least 1"),
    "demo with arguments": (["demo", "fast"], "demo: unrecognized arguments: fast; "),
    "rules with arguments": (["rules", "PROTO"], "rules: unrecognized arguments: PROTO; "),
}


@pytest.mark.parametrize(("argv", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_cannot_be_followed(
    mcpproxy: Mcpproxy, tmp_path: Path, argv: list[str], expected: str
) -> None:
    folder, file = tmp_path / "empty", tmp_path / "file"
    folder.mkdir()
    file.touch()
    refused = mcpproxy(*(arg.format(folder=folder, file=file) for arg in argv))
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("mcpproxy: ")
    assert expected.format(folder=folder, file=file) in refused.err
    assert refused.err.count("\n") == 1


def test_a_state_directory_that_is_a_file(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    state_dir.parent.mkdir()
    state_dir.touch()
    for command in ("list", "show"):
        refused = mcpproxy(command)
        assert refused.code == 2
        assert refused.err == f"mcpproxy: {state_dir}: not a directory; name a folder of traces\n"


def test_a_state_directory_that_cannot_be_made(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    state_dir.parent.parent.joinpath("state").write_text("a file in the way")
    refused = mcpproxy("demo")
    assert (refused.code, refused.out) == (2, "")
    assert (
        refused.err == f"mcpproxy: {state_dir}: not a directory; name a writable folder in XDG_STATE_HOME\n"
    )
