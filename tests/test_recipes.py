"""The recipes of the documents work: applied to a copy of the tree, their blocks pass ruff and the tests they
name."""

import filecmp
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest

from tests.documents import ROOT, file, named

COPIED: Final = ("mcpproxy", "rules", "tests", "recordings", "pyproject.toml", "README.md")
DEADLINE_S: Final = 300


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree to which every recipe is applied."""
    copy = tmp_path_factory.mktemp("recipes")
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    _add_rule(copy)
    _add_command(copy)
    _add_format(copy)
    _add_host(copy)
    _add_policy(copy)
    return copy


def _add_rule(copy: Path) -> None:
    function, _, row = named("check of a new rule").text.partition("FAMILY = RuleFamily(\n")
    module = copy / "mcpproxy/judge/checks/client/roots.py"
    _insert(module, "_LIST_RULES: Final", function)
    row = next(line for line in row.splitlines(keepends=True) if line.lstrip().startswith("Check("))
    _insert(
        copy / "mcpproxy/judge/checks/client/roots.py",
        "        Check(_LIST_RULES, outside_file_system, (Resp",
        row,
    )
    with (copy / "rules/root.toml").open("a", encoding="utf-8") as table:
        table.write("\n" + named("table of a new rule").text)
    sessions = copy / "tests/rules/ROOT-003"
    sessions.mkdir()
    (sessions / "bad.jsonl").write_text(named("session that breaks a new rule").text, encoding="utf-8")
    (sessions / "good.jsonl").write_text(named("lawful session of a new rule").text, encoding="utf-8")


def _add_command(copy: Path) -> None:
    for path in ("mcpproxy/cli/commands/methods.py", "tests/cli/test_methods.py"):
        (copy / path).write_text(file(path), encoding="utf-8")
    block = named("row of a new command").text.splitlines(keepends=True)
    _insert(copy / "mcpproxy/cli/command_table.py", '        "show": (', block[2])
    _insert(copy / "tests/cli/test_handles.py", '    "show": (', '    "methods": ("methods", "{}"),\n')


def _add_format(copy: Path) -> None:
    for path in ("mcpproxy/read/reports/tsv.py", "tests/reports/test_tsv.py"):
        (copy / path).write_text(file(path), encoding="utf-8")
    case = named("case of a new format").text.partition('        case "tsv":')
    text = "".join(case[1:])
    _insert(copy / "mcpproxy/cli/checking/check_report.py", '        case "json":', text)
    of_validate = text.replace("verdict.located", "validated.located(result.checks)")
    _insert(copy / "mcpproxy/cli/checking/validation_report.py", '        case "json":', of_validate)
    options = copy / "mcpproxy/cli/report_options.py"
    text = options.read_text(encoding="utf-8")
    options.write_text(text.replace('"sarif", ', '"tsv", "sarif", '), encoding="utf-8")


def _add_host(copy: Path) -> None:
    with (copy / "mcpproxy/hosts/hosts.toml").open("a", encoding="utf-8") as table:
        table.write("\n" + named("row of a new host").text)
    files = copy / "tests/hosts/corpus/my-host"
    files.mkdir()
    (files / "two-servers.json").write_text(named("file of a new host").text, encoding="utf-8")
    row = named("place of a new host").text.splitlines(keepends=True)[1]
    _insert(copy / "tests/hosts/corpus.py", '    "openhands": ', row)


def _add_policy(copy: Path) -> None:
    for path in ("mcpproxy/gate/intercept/call_limit.py", "tests/intercept/test_call_limit.py"):
        (copy / path).write_text(file(path), encoding="utf-8")
    options = copy / "mcpproxy/cli/new_recording.py"
    row = named("row of a new option").text.splitlines(keepends=True)[1]
    _insert(options, '        ("--faults", "FILE"', textwrap.indent(textwrap.dedent(row), " " * 8))
    above, row = named("row of a new policy").text.splitlines(keepends=True)[1:3]
    text = options.read_text(encoding="utf-8")
    assert above in text
    options.write_text(text.replace(above, above + row), encoding="utf-8")


def _insert(path: Path, before: str, text: str) -> None:
    """Insert ``text`` before the one line of a file that begins with ``before``."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (number,) = (number for number, line in enumerate(lines) if line.startswith(before))
    path.write_text("".join((*lines[:number], text, *lines[number:])), encoding="utf-8")


NAMED: Final = {
    "tests/rules/test_rules.py": "ROOT-003",
    "tests/test_ladder.py": "test_a_folder_holds_no_more_modules",
    "tests/cli/test_methods.py": "test_methods_are_counted",
    "tests/cli/test_handles.py": "methods",
    "tests/intercept/test_call_limit.py": "test_call_limit",
    "tests/reports/test_tsv.py": "test_a_line_for_each_finding",
    "tests/hosts/test_corpus.py": "my-host",
    "tests/cli/test_check_reports.py": "test_a_format_has_a_report_of_its_own",
}
"""File of tests that a recipe names -> a part of the names of those that it adds or makes fail meanwhile."""


def test_recipes_pass_the_tests_that_they_name(tree: Path) -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rp",
            "-p",
            "no:cacheprovider",
            *NAMED,
            "-k",
            " or ".join(NAMED.values()),
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    passed = [line for line in ran.stdout.splitlines() if line.startswith("PASSED ")]
    for path, name in NAMED.items():
        assert any(line.startswith(f"PASSED {path}") and name in line for line in passed), name
    assert any("tsv" in line for line in passed)


@pytest.mark.parametrize("command", ["check --output-format=concise", "format --check"])
def test_what_recipes_write_passes_ruff(tree: Path, command: str) -> None:
    modules = [path.relative_to(tree) for path in sorted(tree.rglob("*.py"))]
    written = [str(path) for path in modules if not _is_unchanged(tree, path)]
    assert "mcpproxy/gate/intercept/call_limit.py" in written
    ran = subprocess.run(
        [sys.executable, "-m", "ruff", *command.split(), "--no-cache", *written],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _is_unchanged(tree: Path, path: Path) -> bool:
    """Whether the project has this file, with the same content."""
    return (ROOT / path).is_file() and filecmp.cmp(ROOT / path, tree / path, shallow=False)
