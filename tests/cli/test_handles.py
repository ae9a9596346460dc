"""Every command that takes a recording takes a handle: ``-2``, a label, a part of the name, or nothing."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from mcpproxy.cli import find_traces
from mcpproxy.cli.command_table import COMMANDS
from mcpproxy.cli.completion.all_parsers import whole_parser
from mcpproxy.send.fleet.judge.corpus import FolderCorpus
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN

HANDLES: Final = {"-2": 1, "-3": 0, "weather": 1, "er-12": 1, "files": 2, "files~0": 2, "files~1": 0}
"""Handle -> which of the three recordings it means."""

LATEST: Final = 2

USES: Final[dict[str, tuple[str, ...]]] = {
    "show": ("show", "{}"),
    "tui": ("tui", "{}"),
    "ui": ("ui", "{}", "--listen", "nowhere"),
    "stats": ("stats", "{}"),
    "auth": ("auth", "{}"),
    "replay server": ("replay", "server", "{}", "--http", "nowhere"),
    "replay client": ("replay", "client", "{}", "--", "no-such-command"),
    "diff": ("diff", "{}", "-1"),
    "trim": ("trim", "{}", "--around", "4", "-o", "{out}"),
    "export html": ("export", "html", "{}", "-o", "{out}"),
    "export har": ("export", "har", "{}", "-o", "{out}"),
    "export pcapng": ("export", "pcapng", "{}", "-o", "{out}"),
    "export mermaid": ("export", "mermaid", "{}", "-o", "{out}"),
    "export otlp": ("export", "otlp", "{}", "-o", "{out}"),
    "redact": ("redact", "{}", "--preset", "secrets", "-o", "{out}"),
    "check": ("check", "{}"),
    "explain": ("explain", "HOST-001", "{}"),
    "pin": ("pin", "{}", "-o", "-"),
    "versions": ("versions", "{}"),
    "faults plan": ("faults", "plan", "kind:request => drop", "{}"),
    "fuzz": ("fuzz", "{}", "--", "/"),
}
"""Command -> its arguments; some end as soon as they know the recording, because what follows is wrong."""

WITHOUT_A_NAME: Final = {
    "tui": "it shows the folder",
    "ui": "it shows the folder",
    "explain": "it explains the rule alone",
    "diff": "its first recording is the one before the latest",
    "pin": "who approves something names it",
    "versions": "it counts them all",
}
"""Commands for which nothing does not mean the latest."""


@pytest.fixture
def three(state_dir: Path) -> list[str]:
    """Three recordings in the state directory, the oldest first."""
    state_dir.mkdir(parents=True)
    names = ("102030.000Z-files-11", "112030.000Z-weather-12", "122030.000Z-files-13")
    return [recordings.write(state_dir / f"20261121T{name}.jsonl", CLEAN) for name in names]


def parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the parser of every command."""
    yield name, parser
    for action in parser._actions:
        choices = cast("Any", action).choices
        if isinstance(choices, dict):
            for word, each in cast("dict[str, argparse.ArgumentParser]", choices).items():
                yield from parsers(each, f"{name} {word}".strip())


def test_every_command_that_takes_a_recording_is_used() -> None:
    taking = {
        name
        for name, parser in parsers(whole_parser(COMMANDS))
        for action in parser._actions
        if not action.option_strings and re.search(r"TRACE|^[AB]$", str(action.metavar))
    }
    assert taking == USES.keys()


@pytest.mark.parametrize("handle", HANDLES)
@pytest.mark.parametrize("name", USES)
def test_a_handle_names_a_recording(
    mcpproxy: Mcpproxy, three: list[str], tmp_path: Path, name: str, handle: str
) -> None:
    argv = [word.format(handle, out=tmp_path / "out") for word in USES[name]]
    said = mcpproxy(*argv)
    assert f"{three[HANDLES[handle]]}\n" in said.out + said.err
    assert "no such file" not in said.err


@pytest.mark.parametrize("name", [name for name in USES if name not in WITHOUT_A_NAME])
def test_nothing_is_the_latest(mcpproxy: Mcpproxy, three: list[str], tmp_path: Path, name: str) -> None:
    argv = [word.format(out=tmp_path / "out") for word in USES[name] if word != "{}"]
    said = mcpproxy(*argv)
    assert f"{three[LATEST]}\n" in said.out + said.err


def test_a_recording_without_a_message_is_not_the_latest(
    mcpproxy: Mcpproxy, three: list[str], state_dir: Path
) -> None:
    not_started = recordings.close(0, 0, code=127).replace('"exited"', '"not started"')
    name = "20261121T132030.000Z-weather-14.jsonl"
    empty = recordings.write(state_dir / name, (recordings.HEADER, not_started))
    passed_over = f"mcpproxy: the latest recording with a message: {three[LATEST]}\n"
    fact = "a newer session failed before any message: the server could not be started"
    newer = f"mcpproxy: {fact}: {empty}; mcpproxy show -1\n"
    assert mcpproxy("check").err.startswith(passed_over + newer)
    assert mcpproxy("show").err == newer
    failed = mcpproxy("show", "--all", "--filter", "status:unsuccessful").out
    assert f"{empty} weather" in failed
    assert "  the server could not be started\n" in failed
    assert ", 1 failed before any message: status:unsuccessful\n" in failed
    assert "could not be started" not in mcpproxy("show", "--all", "--filter", "status:cancelled").out
    assert mcpproxy("check", "-1").err.startswith(f"mcpproxy: -1: {empty}\n")
    for path in three:
        Path(path).unlink()
    assert mcpproxy("check").err.startswith(f"mcpproxy: the latest recording: {empty}\n")


def test_a_name_that_nothing_has(mcpproxy: Mcpproxy, three: list[str]) -> None:
    refused = mcpproxy("show", "flaky")
    assert (refused.code, refused.err) == (
        2,
        "mcpproxy: flaky: no recording, label or file has this name; "
        "mcpproxy list shows recordings and their labels\n",
    )
    assert mcpproxy("show", "flaky.jsonl").err.startswith("mcpproxy: flaky.jsonl: no such file; ")


def test_a_comparison_with_one_recording_says_which_is_the_other(
    mcpproxy: Mcpproxy, three: list[str]
) -> None:
    assert mcpproxy("diff", three[0]).err == f"mcpproxy: the latest recording: {three[LATEST]}\n"


def test_a_label_is_compared_with_the_one_before_it(mcpproxy: Mcpproxy, three: list[str]) -> None:
    before, weather, latest = three
    assert mcpproxy("diff", "files").err.splitlines() == [
        f"mcpproxy: files~1: {before}",
        f"mcpproxy: files: {latest}",
    ]
    assert mcpproxy("diff", "files~1").err == mcpproxy("diff", "files").err
    assert mcpproxy("diff", "files", "weather").err.splitlines() == [
        f"mcpproxy: files: {latest}",
        f"mcpproxy: weather: {weather}",
    ]


def test_a_session_that_could_not_be_started_is_not_compared(
    mcpproxy: Mcpproxy, three: list[str], state_dir: Path
) -> None:
    before, _, latest = three
    not_started = recordings.close(0, 0, code=127).replace('"exited"', '"not started"')
    recordings.write(state_dir / "20261121T132030.000Z-files-14.jsonl", (recordings.HEADER, not_started))
    assert mcpproxy("diff", "files").err.splitlines()[:2] == [
        f"mcpproxy: files~2: {before}",
        f"mcpproxy: files~1: {latest}",
    ]
    assert mcpproxy("diff").err.splitlines()[:2] == [
        f"mcpproxy: -4: {before}",
        f"mcpproxy: the latest recording with a message: {latest}",
    ]


def test_recordings_of_one_server_are_compared(mcpproxy: Mcpproxy, three: list[str], state_dir: Path) -> None:
    before, _, latest = three
    for argv in (("diff",), ("diff", "-3")):
        assert mcpproxy(*argv).err.splitlines() == [
            f"mcpproxy: -3: {before}",
            f"mcpproxy: the latest recording: {latest}",
        ]
    recordings.write(state_dir / "20261121T132030.000Z-sea-14.jsonl", CLEAN)
    assert mcpproxy("diff", before).err == f"mcpproxy: -2: {latest}\n"
    assert mcpproxy("diff", "-3", "weather").code == 0


def test_without_an_earlier_recording_of_the_server_nothing_is_compared(
    mcpproxy: Mcpproxy, three: list[str], state_dir: Path
) -> None:
    newest = recordings.write(state_dir / "20261121T132030.000Z-sea-14.jsonl", CLEAN)
    step = "name the two to compare: mcpproxy diff A B, see mcpproxy list"
    said = mcpproxy("diff")
    assert (said.code, said.err) == (
        2,
        f"mcpproxy: {newest}: there is no earlier recording labelled sea; {step}\n",
    )
    for named in ("-2", "les-13", three[2]):
        said = mcpproxy("diff", named)
        step = "name the one to compare it with, too: mcpproxy diff A B"
        assert (said.code, said.err) == (
            2,
            f"mcpproxy: {named}: the latest recording labelled files; {step}\n",
        )


def test_a_label_that_has_no_earlier_recording_says_how_many_there_are(
    mcpproxy: Mcpproxy, three: list[str], state_dir: Path
) -> None:
    said = mcpproxy("show", "files~2")
    assert (said.code, said.err) == (
        2,
        f"mcpproxy: files~2: 2 recordings with this label in {state_dir}; see mcpproxy list\n",
    )
    said = mcpproxy("diff", "weather")
    assert (said.code, said.err) == (
        2,
        f"mcpproxy: weather~1: 1 recording with this label in {state_dir}; see mcpproxy list\n",
    )
    said = mcpproxy("show", "wether~1")
    assert (said.code, said.err) == (
        2,
        f"mcpproxy: wether~1: no recording in {state_dir} has this label; see mcpproxy list\n",
    )


def test_a_file_with_the_name_of_a_handle_comes_first(
    mcpproxy: Mcpproxy, three: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recordings.write(tmp_path / "files~1", CLEAN)
    assert three[0] not in mcpproxy("show", "files~1").out


def test_probes_are_not_among_all_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state = tmp_path / "mcpproxy"
    for name in ("own.jsonl", "project/own.jsonl", "validate/run/probe.jsonl", "fuzz/probe.jsonl"):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        recordings.write(state / name, recordings.CLEAN)
    own = [str(state / "own.jsonl"), str(state / "project" / "own.jsonl")]
    assert find_traces.expand(str(state)) == own
    corpus = FolderCorpus(str(state)).recordings()
    assert [each.name for each in corpus] == ["own.jsonl", "project/own.jsonl"]
    (tmp_path / "link").symlink_to(state)  # the same folder, spelled otherwise
    assert find_traces.expand(str(tmp_path / "link")) == [
        str(tmp_path / "link" / "own.jsonl"),
        str(tmp_path / "link" / "project" / "own.jsonl"),
    ]
    probe = [str(state / "validate" / "run" / "probe.jsonl")]
    assert find_traces.expand(str(state / "validate")) == probe
    elsewhere = tmp_path / "other" / "validate"
    elsewhere.mkdir(parents=True)
    recordings.write(elsewhere / "a.jsonl", recordings.CLEAN)
    assert find_traces.expand(str(tmp_path / "other")) == [str(elsewhere / "a.jsonl")]
