"""The judge reaches for nothing outside itself."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.every import every

PACKAGE: Final = Path(__file__).parent.parent / "mcpproxy"

JUDGE: Final = ("protocol", "judge/session", "judge/checks", "judge/observer")
"""What the judge is made of. ``tests.ladder`` holds which layers may import which."""

TOOLS: Final = ("json_string", "slotted", "patterns", "secret_names", "visible")
"""Those modules of ``base`` that it may import."""

PURE: Final = frozenset(
    {
        "abc", "base64", "binascii", "bisect", "collections", "collections.abc", "dataclasses", "decimal",
        "enum", "fnmatch", "functools", "hashlib", "itertools", "json", "math", "operator", "re", "types",
        "typing", "typing_extensions", "unicodedata", "zlib",
        "orjson", "jsonschema_rs", "datetime", "urllib.parse", "mcpproxy.errors", "__future__",
    }
)  # fmt: skip
"""What a judge without files, clocks and sockets may use."""


WITH_FINDINGS: Final = str(PACKAGE.parent / "recordings" / "everything-http-2025-06-18.jsonl")

PATHS: Final = f"import sys; sys.path += {[str(PACKAGE.parent), *filter(None, sys.path)]!r}; "


def is_of_the_judge(module: str) -> bool:
    return module.startswith(tuple(f"mcpproxy.{name.replace('/', '.')}" for name in JUDGE))


def files() -> list[Path]:
    found = [sorted((PACKAGE / name).rglob("*.py")) for name in JUDGE]
    assert all(found)
    return [*chain.from_iterable(found), *(PACKAGE / "base" / f"{name}.py" for name in TOOLS)]


def named(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it that happens."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                # "from mcpproxy.judge.checks import rpc" may import a module, not a name.
                folder = PACKAGE.parent / module.replace(".", "/")
                yield from (
                    f"{module}.{alias.name}" for alias in names if (folder / f"{alias.name}.py").exists()
                )
            case ast.ImportFrom(level=level):
                assert level == 0, f"{path.name} imports relatively"
            case ast.Call(func=ast.Name(id="__import__")):
                raise AssertionError(f"{path.name} imports behind our back")
            case _:
                pass


@every("path", files(), ids=named)
def test_the_judge_imports_nothing_impure(path: Path) -> None:
    allowed = PURE | {f"mcpproxy.base.{name}" for name in TOOLS}
    assert {module for module in imports(path) if not is_of_the_judge(module)} <= allowed


def test_the_package_itself_imports_nothing() -> None:
    """Every wrapped server's start passes through it."""
    code = "import sys; before = set(sys.modules); import mcpproxy; print(*(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True)
    assert (ran.stderr, ran.stdout.split()) == ("", ["mcpproxy"])


@pytest.mark.parametrize(
    ("code", "spared"),
    [
        (
            "from mcpproxy.cli.commands import run; from mcpproxy.record.relay.stdio import relay",
            {"typing", "re", "enum", "signal", "json", "mcpproxy.send.otel", "subprocess"},
        ),
        (
            "from mcpproxy.cli.commands import run, http; from mcpproxy.record.recorder import process; "
            "from mcpproxy.record.recorder.http import assembly",
            {"mcpproxy.model", "mcpproxy.record.recorder.model", "mcpproxy.cli.commands.model.model"},
        ),
        (
            "from mcpproxy.cli.commands import model",
            {"mcpproxy.model", "mcpproxy.record.recorder.model", "argparse", "dataclasses", "urllib.parse"},
        ),
        (
            "from mcpproxy.record.recorder import process",
            {
                "mcpproxy.record.recorder.http.assembly",
                "hashlib",
                "urllib.parse",
                "opentelemetry",
                "mcpproxy.send.otel",
            },
        ),
        (
            "from mcpproxy.record.recorder import process, secret_arguments; "
            "secret_arguments.masked(('python', 'server.py', '--port', '3'), b'key')",
            {"mcpproxy.record.trace.reader", "mcpproxy.record.trace.decode", "urllib.parse"},
        ),
        (
            "from mcpproxy.judge.ruleset.rule_options import FilteredObserver, RuleOptions; "
            "FilteredObserver(RuleOptions(ignore=('PROTO',)))",
            {
                "mcpproxy.judge.checks.hosts",
                "mcpproxy.judge.ruleset.host_facts",
                "mcpproxy.judge.ruleset.host_choice",
                "packaging",
            },
        ),
        (
            "from mcpproxy.cli.commands import check",
            {"mcpproxy.judge.checks.opt_in.families", "jsonschema_rs", "pathlib", "urllib.parse"},
        ),
        (
            "from mcpproxy.cli.commands import rules; rules.run([])",
            {"dataclasses", "orjson", "pathlib", "json", "argparse"},
        ),
        (
            f"from mcpproxy.cli.commands import show; show.run([{WITH_FINDINGS!r}])",
            {"mcpproxy.read.view.rows.select_rows", "mcpproxy.protocol.raw_json"},
        ),
        (
            "from mcpproxy.cli.commands import explain; explain.run(['PROTO-007'])",
            {"dataclasses", "orjson", "pathlib", "json", "argparse"},
        ),
        ("from mcpproxy.cli.commands import explain", {"tomli"}),
    ],
)
def test_what_takes_long_to_import_waits_until_it_is_needed(code: str, spared: set[str]) -> None:
    code = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    # Without what other packages import as the interpreter starts.
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", PATHS + code], capture_output=True, text=True)
    assert ran.stderr == ""
    assert spared & set(ran.stdout.split()) == set()


def test_the_walk_sees_what_hides_in_a_function(tmp_path: Path) -> None:
    file = tmp_path / "hidden.py"
    file.write_text("def now():\n    import time\n    from os import path\n    return time, path\n")
    assert set(imports(file)) == {"time", "os"}
