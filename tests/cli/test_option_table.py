"""Command lines read by a table of options: what each argument is, and what is refused."""

import pytest

from mcpproxy.cli.option_table import Given, OptionTable, split_command
from mcpproxy.errors import UsageError

TABLE = OptionTable(
    "greet",
    "greet [OPTION...] [WHO]",
    "Greets.",
    "It never fails.",
    {
        "": (
            ("WHO", "", "whom to greet"),
            ("--words", "TEXT", "what to say (default: 100% {label})"),
            ("--loud", "", "so that all hear it"),
            ("--send", "[URL]", "where else to say it"),
            ("--text", "TEXT", ""),
        ),
        "several": (("--times", "NUMBER", "how often"),),
    },
    "hello",
)

READ: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "nothing": ([], {}),
    "a value of its own": (["--words", "hi"], {"--words": ["hi"]}),
    "a value after =": (["--words=a=b"], {"--words": ["a=b"]}),
    "a value that begins with a dash": (["--times", "-1"], {"--times": ["-1"]}),
    "a value after = that begins with dashes": (["--words=--loud"], {"--words": ["--loud"]}),
    "an option given twice": (["--words=a", "--loud", "--words=b"], {"--words": ["a", "b"], "--loud": [""]}),
    "others before and after options": (["Ann", "--loud", "Bob"], {"": ["Ann", "Bob"], "--loud": [""]}),
    "an empty argument": ([""], {"": [""]}),
    "an optional value left out": (["--send"], {"--send": [""]}),
    "an optional value left out before another": (["--send", "Ann"], {"--send": [""], "": ["Ann"]}),
    "an optional value": (["--send", "http://a"], {"--send": ["http://a"]}),
    "an optional value after =": (["--send=a", "http://b"], {"--send": ["a"], "": ["http://b"]}),
    "an option that the help does not show": (["--text", "hi"], {"--text": ["hi"]}),
}

REFUSED: dict[str, tuple[list[str], str]] = {
    "no value at the end": (["--words"], "--words needs a value"),
    "no value before an option": (["--words", "--loud"], "--words needs a value"),
    "an empty value": (["--words="], "--words needs a value"),
    "an empty argument as value": (["--words", ""], "--words needs a value"),
    "a value for a switch": (["--loud=1"], "--loud takes no value"),
    "unknown": (["--xyz=1"], "unknown option --xyz; see"),
    "unknown and short": (["-x"], "unknown option -x; see"),
    "like another": (["--word=1"], "unknown option --word; did you mean --words? see"),
    "an abbreviation": (["--lou"], "unknown option --lou; did you mean --loud? see"),
    "like one that the help does not show": (["--tex"], "unknown option --tex; see"),
}


@pytest.mark.parametrize(("argv", "given"), READ.values(), ids=READ)
def test_read(argv: list[str], given: dict[str, list[str]]) -> None:
    assert TABLE.read(argv) == given


@pytest.mark.parametrize(("argv", "fact"), REFUSED.values(), ids=REFUSED)
def test_refused(argv: list[str], fact: str) -> None:
    with pytest.raises(UsageError, match=r"^greet: .*see mcpproxy greet --help$") as refusal:
        TABLE.read(argv)
    assert fact in str(refusal.value)


def test_an_argument_that_is_no_option_is_refused_before_those_after_it() -> None:
    with pytest.raises(UsageError, match=r"^greet: 'Ann' is not an option; leave out Ann$"):
        TABLE.read(["--loud", "Ann", "--xyz"], instead=lambda word: f"leave out {word}")


def test_the_last_value_counts() -> None:
    given = Given({"--words": ["a", "b"]})
    assert (given.text("--words"), given.text("--times"), given.text("--times", "1")) == ("b", "", "1")
    assert given["--times"] == []


@pytest.mark.parametrize("asks", ["-h", "--help"])
def test_the_help(asks: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        TABLE.read(["--xyz", asks])
    said = capsys.readouterr().out
    assert said.startswith(
        "usage: mcpproxy greet [OPTION...] [WHO]\n\nGreets.\n\npositional arguments:\n  WHO "
    )
    assert "  --words TEXT    what to say (default: 100% hello)\n" in said
    assert "  --send [URL] " in said
    assert "--text" not in said
    assert said.endswith("\n\nseveral:\n  --times NUMBER  how often\n\nIt never fails.\n")


def test_a_command_is_what_follows_the_first_two_dashes() -> None:
    assert split_command(["--loud", "--", "cat", "--", "-h"]) == (["--loud"], ["cat", "--", "-h"])
    assert split_command(["--loud"]) == (["--loud"], [])
