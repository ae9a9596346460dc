"""What all commands say alike: JSON, usages, moods and defaults."""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from mcpproxy.cli.command_table import COMMANDS
from mcpproxy.cli.completion.all_parsers import whole_parser
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.every import every


def parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parsers of all commands that have no parts."""
    of_actions: list[Any] = [action.choices for action in parser._actions]
    inner = [cast("dict[str, argparse.ArgumentParser]", one) for one in of_actions if isinstance(one, dict)]
    for choices in inner:
        for word, each in choices.items():
            yield from parsers(each, f"{name} {word}".strip())
    if not inner:
        yield name, parser


PARSERS = dict(parsers(whole_parser(COMMANDS)))
SHOWN = {
    (name, action.option_strings[-1] if action.option_strings else str(action.metavar)): action
    for name, parser in PARSERS.items()
    for action in parser._actions
    if action.help != argparse.SUPPRESS and action.dest != "help"
}


@every("name", PARSERS)
def test_the_description_says_what_to_do(name: str) -> None:
    """``Print the calls``, not ``Prints the calls`` or ``The calls``."""
    first = (PARSERS[name].description or "").split()[0]
    assert first[0].isupper()
    assert not re.search(r"[^s]s$", first), first


@every("where", [pytest.param(where, id=" ".join(where)) for where in SHOWN])
def test_the_default_is_written_alike(where: tuple[str, str]) -> None:
    action, text = SHOWN[where], str(SHOWN[where].help)
    assert "default:" not in re.sub(r"\(default: [^)]+\)$", "", text)
    if action.default and action.default != argparse.SUPPRESS and action.nargs != 0:
        assert text.endswith(")")
        assert "(default: " in text


@every("where", [pytest.param(where, id=" ".join(where)) for where in SHOWN])
def test_values_are_called_alike(where: tuple[str, str]) -> None:
    metavar = str(SHOWN[where].metavar)
    assert "-or-" not in metavar
    assert metavar != "S"


@pytest.mark.parametrize("name", ["list", "show", "stats", "check", "versions", "rules"])
def test_json_is_asked_for_in_both_ways(mcpproxy: Mcpproxy, tmp_path: Path, name: str) -> None:
    recordings.write(tmp_path / "t.jsonl", recordings.CLEAN)
    place = [] if name == "rules" else [str(tmp_path if name == "list" else tmp_path / "t.jsonl")]
    plain, in_json = mcpproxy(name, *place), mcpproxy(name, "--json", *place)
    assert in_json.out.startswith(("{", "["))
    json.loads(in_json.out.splitlines()[0] if name == "show" else in_json.out)
    assert mcpproxy(name, "--format", "json", *place).out == in_json.out
    assert mcpproxy(name, "--format", "text", *place).out == plain.out
    assert mcpproxy(name, "--format", "nonsense", *place).code == 2


def test_every_command_with_one_has_the_other() -> None:
    for name, parser in PARSERS.items():
        options = {option for action in parser._actions for option in action.option_strings}
        formats = cast("Any", parser)._option_string_actions.get("--format")
        if name not in ("export otlp", "import"):
            has_format = formats is not None and "json" in (formats.choices or ())
            assert ("--json" in options) == has_format, name


@pytest.mark.parametrize("name", ["run", "http", "bridge"])
def test_the_options_of_a_session_are_in_groups(mcpproxy: Mcpproxy, name: str) -> None:
    help = mcpproxy(name, "--help").out
    titles = [line[:-1] for line in help.splitlines() if re.fullmatch(r"[a-z][a-z ]*:", line)]
    assert [title for title in titles if title in ("recording", "rules", "faults and changes", "output")] == [
        "recording", "rules", "faults and changes", "output",
    ]  # fmt: skip


WORDS = {
    "record": "put -- before the server command",
    "web": "did you mean ui?",
    "serve": "did you mean ui?",
    "inspect": "did you mean show, tui or ui?",
    "search": "did you mean show --all --filter",
    "logs": "did you mean show?",
}


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_is_no_command(mcpproxy: Mcpproxy, word: str) -> None:
    assert WORDS[word] in mcpproxy(word).err


def test_explain_without_a_rule(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    assert "nothing recorded yet; name a rule" in mcpproxy("explain").err
    state_dir.mkdir(parents=True)
    recordings.write(state_dir / "20261121T102030.000Z-a-1.jsonl", recordings.FAULTY)
    explained = mcpproxy("explain")
    assert "broken in the latest recording" in explained.err
    assert "Why it matters" in explained.out
    recordings.write(state_dir / "20261121T112030.000Z-b-2.jsonl", recordings.CLEAN)
    assert "has no findings; name a rule" in mcpproxy("explain").err
    house = tuple(line.replace("PROTO-007", "HOUSE-001") for line in recordings.FAULTY)
    recordings.write(state_dir / "20261121T122030.000Z-c-3.jsonl", house)
    assert "breaks HOUSE-001, of which nothing is known here; name the folder" in mcpproxy("explain").err


def test_a_part_of_a_name_says_what_it_took(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    path = recordings.write(state_dir / "20261121T102030.000Z-weather-1.jsonl", recordings.CLEAN)
    assert (
        mcpproxy("show", "eather").err
        == f"mcpproxy: eather, the only recording with this in its name: {path}\n"
    )
    assert mcpproxy("show", "weather").err == ""
    assert "is not a range of frames" in mcpproxy("show", "--frames", "x").err
    assert "is not a range of frames" in mcpproxy("show", "--frames", "eather").err
    assert mcpproxy("show", "--frames", "weather").code == 0
