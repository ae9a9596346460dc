"""The entry point: which command is meant, and how refusals leave it."""

import os
import signal
import subprocess
import sys
from importlib import import_module

import pytest

import mcpproxy.cli.main as entry
from mcpproxy.cli.command_table import COMMANDS
from mcpproxy.cli.commands import run
from tests.cli.conftest import Mcpproxy

WRAPS = {
    "the dashes come first": ["--", "server"],
    "the command is named": ["run", "--", "server"],
    "named without a server, so that run can say what is missing": ["run"],
    "an option of run comes first": ["--quiet", "--", "server"],
    "one with a value": ["--trace", "t.jsonl", "--", "server"],
    "one with its value attached": ["--trace=t.jsonl", "--", "server"],
    "options of run alone, so that run can say what is missing": ["--quiet", "server"],
    "the server has options of ours": ["--", "server", "--help", "--version"],
}


@pytest.mark.parametrize("argv", WRAPS.values(), ids=WRAPS)
def test_hands_over_to_run_unchanged(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def run(args: list[str]) -> int:
        seen.append(args)
        return 42

    monkeypatch.setattr("mcpproxy.cli.commands.run.run", run)
    assert entry.main(argv) == 42
    assert seen == [argv]


def test_the_way_to_run_imports_no_other_command() -> None:
    script = (
        "import sys, types\n"
        "run = types.ModuleType('mcpproxy.cli.commands.run'); run.run = lambda argv: 0\n"
        "sys.modules['mcpproxy.cli.commands.run'] = run\n"
        "before = set(sys.modules)\n"
        "from mcpproxy.cli.main import main\n"
        "main(['--', 'server'])\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(loaded.stdout.split()) <= {"mcpproxy", "mcpproxy.cli", "mcpproxy.cli.main"}


def test_every_command_in_the_table_can_be_imported() -> None:
    for group in COMMANDS.values():
        for module, _ in group.values():
            assert callable(import_module(module).run)


def test_help_says_what_this_is_and_names_every_command(mcpproxy: Mcpproxy) -> None:
    shown = mcpproxy("--help")
    assert shown.code == 0
    assert "MCP client and server" in shown.out.splitlines()[0]
    for group, commands in COMMANDS.items():
        assert f"\n{group}\n" in shown.out
        for name, (_, line) in commands.items():
            assert f"  {name:<13}{line}\n" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 100
    assert mcpproxy().out == mcpproxy("-h").out == mcpproxy("help").out == shown.out


@pytest.mark.parametrize("command", ["show", "list", "check", "rules", "explain", "demo"])
def test_each_command_has_a_help_of_its_own(mcpproxy: Mcpproxy, command: str) -> None:
    shown = mcpproxy(command, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"usage: mcpproxy {command}")
    assert mcpproxy("help", command) == shown


def test_version(mcpproxy: Mcpproxy) -> None:
    from mcpproxy import __version__

    assert mcpproxy("--version").out == f"mcpproxy {__version__}\n"


REFUSED = {
    "nothing like a command": (["frobnicate"], "frobnicate: unknown command; see mcpproxy --help"),
    "a misspelt command": (["chekc", "t.jsonl"], "chekc: unknown command; did you mean check?"),
    "a server without dashes": (["sh", "-c", "x"], "put -- before the server command: mcpproxy -- sh ...\n"),
    "a server with an option but no dashes": (
        ["--label", "x", "sh"],
        "put -- before the server command: mcpproxy -- sh",
    ),
    "an unknown option": (["--frobnicate"], "--frobnicate: unknown option; see mcpproxy --help"),
    "a misspelt option": (
        ["--verson"],
        "--verson: unknown option; did you mean --version? see mcpproxy --help",
    ),
    "a misspelt option of run": (
        ["--lable", "x", "--", "sh"],
        "--lable: unknown option; did you mean --label? see mcpproxy run --help",
    ),
    "another one, known to be of run": (
        ["--frobnicate", "--", "sh"],
        "--frobnicate: unknown option; see mcpproxy run --help",
    ),
    "one after an option of run": (
        ["--quiet", "--trase=t", "--", "sh"],
        "run: unknown option --trase; did you mean --trace? see mcpproxy run --help",
    ),
    "a misspelt option of another command": (
        ["check", "t.jsonl", "--formt", "json"],
        "check: unknown option --formt; did you mean --format? see mcpproxy check --help",
    ),
    "an unknown option before what is missing": (["explain", "--lst"], "explain: unknown option --lst; see"),
    "the program ls": (["ls"], "ls: unknown command; did you mean list?"),
    "the program rm": (
        ["rm", "t.jsonl"],
        "rm: unknown command; recordings are files: mcpproxy list says where",
    ),
    "the program view": (["view", "t.jsonl"], "view: unknown command; did you mean show?"),
    "the program install": (
        ["install", "sh"],
        "install: unknown command; did you mean wrap?",
    ),
    "such a program after an option": (["--quiet", "ls"], "run: 'ls' is not an option; did you mean list?"),
    "a folder of commands after an option of run": (
        ["--label", "x", "view"],
        "run: 'view' is not an option; did you mean show?",
    ),
    "a command whose name is a keyword, after an option of run": (
        ["--label", "x", "import"],
        "run: 'import' is not an option; the name of a command comes first: mcpproxy import",
    ),
    "a command after an option of run": (
        ["--quiet", "check", "t.jsonl"],
        "run: 'check' is not an option; the name of a command comes first: mcpproxy check",
    ),
}


def test_each_command_and_no_module_beside_it_is_known_after_an_option_of_run(mcpproxy: Mcpproxy) -> None:
    for command in (name for group in COMMANDS.values() for name in group):
        said = mcpproxy("--quiet", command).err
        assert said.endswith(f"the name of a command comes first: mcpproxy {command}\n"), said
    for word in ("model_script", "replay_client", "changes", "import_", "no.module"):
        said = mcpproxy("--quiet", word).err
        assert said.endswith(f"put -- before the server command: mcpproxy -- {word}\n"), said


@pytest.mark.parametrize(("argv", "expected"), REFUSED.values(), ids=REFUSED)
def test_refuses_in_one_line(mcpproxy: Mcpproxy, argv: list[str], expected: str) -> None:
    refused = mcpproxy(*argv)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("mcpproxy: ")
    assert expected in refused.err
    assert refused.err.count("\n") == 1


def test_options_may_stand_between_recordings(mcpproxy: Mcpproxy) -> None:
    refused = mcpproxy("check", "a.jsonl", "--strict", "b.jsonl")
    assert refused.err.startswith("mcpproxy: a.jsonl: no such file")
    assert "b.jsonl: no such file" in refused.err


@pytest.mark.parametrize("option", run.OPTIONS.names)
def test_run_knows_the_options_that_lead_to_it(mcpproxy: Mcpproxy, option: str) -> None:
    refused = mcpproxy(option)
    assert refused.code == 2
    assert "unknown option" not in refused.err


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(argv: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("mcpproxy.cli.commands.rules.run", interrupted)
    assert entry.main(["rules"]) == 130


def test_a_fault_of_our_own_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(argv: list[str]) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("mcpproxy.cli.commands.rules.run", broken)
    with pytest.raises(ZeroDivisionError):
        entry.main(["rules"])


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe is told differently there")
def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)  # nobody will ever read
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpproxy", "--help"], stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + signal.SIGPIPE, b"")
