"""Processes of mcpproxy are started by the command of ``base.own_process`` alone, so none of them imports
what lies in the working directory. Whatever else starts a process is in a table here, with what it starts."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.ladder import PACKAGE, modules

STARTING: Final = {
    "subprocess": {
        "Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput",
    },
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "asyncio.subprocess": {"create_subprocess_exec", "create_subprocess_shell"},
    "os": {
        "system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile",
        *(f"exec{end}" for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
        *(f"spawn{end}" for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    },
    "pty": {"fork", "spawn"},
    "multiprocessing": {"Process", "Pool", "get_context", "set_start_method"},
    "concurrent.futures": {"ProcessPoolExecutor"},
    "runpy": {"run_module", "run_path"},
    "webbrowser": {"open", "open_new", "open_new_tab", "get"},
    "ray": {"init"},
    "distributed": {"LocalCluster"},
}  # fmt: skip
"""What starts a process, or a program in this one, by the module that has it."""

ALLOWED: Final = {
    # With ``own_command``:
    "mcpproxy.base.companion": "the senders of recordings and of spans",
    "mcpproxy.peers.bridge.session_recordings": "the recorder of all sessions",
    "mcpproxy.cli.calls.http_lines": "the lines of mcpproxy http",
    "mcpproxy.cli.commands.demo": "mcpproxy itself, and the bundled server",
    "mcpproxy.cli.keep_option": "mcpproxy prune",
    "mcpproxy.cli.replay_update": "mcpproxy before the server",
    "mcpproxy.send.fleet.judge.client": "the judge",
    "mcpproxy.gate.intercept.addons.addon_calls": "the host of addons",
    "mcpproxy.record.relay.spawned_recorder": "the recorder, where there is no fork",
    "mcpproxy.testing.background": "mcpproxy, as mcpproxy.testing calls it",
    "mcpproxy.show.ui.beside": "the page",
    # Forks, which import what their parent would:
    "mcpproxy.cli.checking.parallel": "judges of check",
    "mcpproxy.record.relay.stdio.forked_recorder": "the recorder",
    # The server that the user names:
    "mcpproxy.peers.bridge.server_process": "the server behind the bridge",
    "mcpproxy.peers.client.child_process": "the server that is probed, or that a recording is played to",
    "mcpproxy.record.relay.stdio.witness": "a fork of the relay",
    "mcpproxy.record.relay.stdio.inheritance": "the wrapped server",
    "mcpproxy.record.relay.stdio.threads": "the wrapped server, on Windows",
    "mcpproxy.peers.replay.server.passthrough": "the server that answers what a recording lacks",
    # Programs that are not Python:
    "mcpproxy.cli.calls.pager": "the pager of the user",
    "mcpproxy.cli.commands.faults.breakpoints": "the editor of the user",
    "mcpproxy.cli.commands.model.model_script": "the host of the user",
    "mcpproxy.cli.commands.view.ui": "the browser of the user",
    "mcpproxy.record.recorder.liveness": "ps",
    # Workers of other packages, within ``isolated_workers``:
    "mcpproxy.send.fleet.judge.engine_dask": "workers of Dask",
    "mcpproxy.send.fleet.judge.engine_ray": "workers of Ray",
}
"""Module -> what it starts."""

INTERPRETER: Final = {
    "mcpproxy.base.own_process": "makes the command",
    "mcpproxy.hosts.commands": "reads commands, and finds the script beside the interpreter",
}
"""Modules that may name the interpreter or ``-m``."""


def starts(tree: ast.AST) -> Iterator[str]:
    """Yield what a module takes from those that start processes, by whatever name it calls them."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in STARTING.get(node.module or "", ()):
                    yield f"{node.module}.{alias.name}"
    for node in set(ast.walk(tree)) - set(annotations(tree)):
        if isinstance(node, ast.Attribute):
            module = names.get(ast.unparse(node.value), ast.unparse(node.value))
            if node.attr in STARTING.get(module, ()):
                yield f"{module}.{node.attr}"


def annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all that stands in annotations, where ``subprocess.Popen`` starts nothing."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if (annotation := getattr(node, name, None)) is not None:
                yield from ast.walk(annotation)


def names_interpreter(tree: ast.AST) -> bool:
    """Whether a module makes a command of Python by itself."""
    return any(
        (isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.executable", "sys._base_executable"))
        or (isinstance(node, ast.ImportFrom) and node.module == "sys")
        or (isinstance(node, ast.Constant) and node.value == "-m")
        for node in ast.walk(tree)
    )


def trees() -> Iterator[tuple[str, ast.AST]]:
    for name, path in modules().items():
        if "examples" not in path.relative_to(PACKAGE).parts:
            yield name, ast.parse(path.read_bytes())


def test_processes_are_started_where_the_table_says() -> None:
    assert {name for name, tree in trees() if any(starts(tree))} == set(ALLOWED)


def test_one_module_makes_the_commands() -> None:
    assert {name for name, tree in trees() if names_interpreter(tree)} == set(INTERPRETER)


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess as other\nother.run([])",
        "from subprocess import Popen",
        "def late():\n    import os\n    os.execvp('a', [])",
        "import asyncio\nasyncio.create_subprocess_exec('a')",
        "import asyncio.subprocess\nasyncio.subprocess.create_subprocess_exec('a')",
        "from concurrent.futures import ProcessPoolExecutor",
        "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()",
        "import runpy\nrunpy.run_module('a')",
    ],
)
def test_a_start_is_seen(code: str) -> None:
    assert list(starts(ast.parse(code)))


@pytest.mark.parametrize("code", ["import sys\nx = [sys.executable]", "x = ('python', '-m', 'a')"])
def test_a_command_is_seen(code: str) -> None:
    assert names_interpreter(ast.parse(code))


@pytest.mark.parametrize("options", [(), ("-P",), ("-I",), ("-E", "-s"), ("-s", "-P")])
def test_a_process_is_as_isolated_as_its_parent(tmp_path: Path, options: tuple[str, ...]) -> None:
    """It never imports from the working directory; -E and -s are passed on."""
    show = "print(*(getattr(sys.flags, n) for n in ('safe_path', 'ignore_environment', 'no_user_site')))"
    asked = "import sys; from mcpproxy.base.own_process import own_command; print(*own_command('it')[:2])"
    ours = subprocess.check_output([sys.executable, *options, "-c", f"import sys; {show}"], text=True).split()
    command = subprocess.check_output([sys.executable, *options, "-c", asked], text=True).split()
    got = subprocess.check_output([*command, "-c", f"import sys; {show}"], text=True, cwd=tmp_path).split()
    assert got == ["True", *ours[1:]]
