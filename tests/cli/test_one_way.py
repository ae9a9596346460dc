"""What all commands say alike: JSON, usages, moods and defaults."""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from mcpproxy.cli.completion.all_parsers import whole_parser
from mcpproxy.cli.main import COMMANDS
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy


def parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parsers of all commands that have no parts."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in inner:
        for word, each in cast("Any", action).choices.items():
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


@pytest.mark.parametrize("name", PARSERS)
def test_the_description_says_what_to_do(name: str) -> None:
    """``Print the calls``, not ``Prints the calls`` or ``The calls``."""
    first = (PARSERS[name].description or "").split()[0]
    assert first[0].isupper()
    assert not re.search(r"[^s]s$", first), first


@pytest.mark.parametrize("where", SHOWN, ids=" ".join)
def test_the_default_is_written_alike(where: tuple[str, str]) -> None:
    action, text = SHOWN[where], str(SHOWN[where].help)
    assert "default:" not in re.sub(r"\(default: [^)]+\)$", "", text)
    if action.default and action.default != argparse.SUPPRESS and action.nargs != 0:
        assert text.endswith(")")
        assert "(default: " in text


@pytest.mark.parametrize("where", SHOWN, ids=" ".join)
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
