"""What will keep a host from starting a server is said before it happens."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.hosts import plans
from mcpproxy.hosts.look_ahead import startable
from tests.hosts.conftest import Mcpproxy, installed
from tests.hosts.test_wrap import OURS, write

DESKTOP: Final = ".config/Claude/claude_desktop_config.json"
CURSOR: Final = ".cursor/mcp.json"


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] # pytest uses it
    monkeypatch.setattr(plans, "own_program", lambda: [OURS])
    monkeypatch.setitem(startable._DESKTOP_PATH, sys.platform, "/usr/bin:/bin")  # pyright: ignore[reportPrivateUsage]


def with_server(command: str, *args: str, **members: object) -> str:
    return json.dumps({"mcpServers": {"files": {"command": command, "args": args, **members}}})


def said(mcpproxy: Mcpproxy, *words: str) -> list[str]:
    """What is said of the server's start."""
    ran = mcpproxy(*words)
    assert ran.code == 0
    start = "mcpproxy: files in "
    return [line.removeprefix(start) for line in ran.err.splitlines() if line.startswith(start)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH of this terminal, with a command that is nowhere else."""
    folder = installed(tmp_path / "node/bin/npx-of-mine").parent
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


@pytest.mark.parametrize("words", [("hosts",), ("wrap", "files", "--dry-run"), ("wrap", "files")])
def test_a_command_that_a_desktop_does_not_find(
    mcpproxy: Mcpproxy, home: Path, folder: Path, words: tuple[str, ...]
) -> None:
    write(home / DESKTOP, with_server("npx-of-mine"))
    assert said(mcpproxy, *words) == [
        f"~/{DESKTOP}: npx-of-mine is in {folder}, which is often not on the PATH of Claude Desktop, since "
        "it is started from the desktop; mcpproxy wrap files --host claude-desktop --keep-path gives the "
        "server this folder"
    ]


def test_what_is_offered_helps(mcpproxy: Mcpproxy, home: Path, folder: Path) -> None:
    path = write(home / DESKTOP, with_server("npx-of-mine", "-y"))
    assert said(mcpproxy, "wrap", "files", "--host", "claude-desktop", "--keep-path") == []
    [wrapped] = json.loads(path.read_text())["mcpServers"].values()
    label = ["--label", "claude-desktop.files"]
    assert wrapped == {"command": OURS, "args": [*label, "--path", str(folder), "--", "npx-of-mine", "-y"]}
    assert said(mcpproxy, "hosts") == []
    assert mcpproxy("wrap", "files", "--keep-path").err.startswith("mcpproxy: files is wrapped already")
    installed(folder / "npx-of-mine", "#!/bin/sh\nexec helper-of-mine\n")
    installed(folder / "helper-of-mine", "#!/bin/sh\necho started >&2\n")
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    ours = [sys.executable, "-m", "mcpproxy"]
    found = subprocess.run(
        [*ours, *wrapped["args"]], env=bare, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert (found.returncode, "started" in found.stderr.splitlines()) == (0, True)
    [_, _, *server] = wrapped["args"][2:]
    lost = subprocess.run([*ours, *server], env=bare, capture_output=True, stdin=subprocess.DEVNULL)
    assert lost.returncode == 127
    assert mcpproxy("unwrap", "files").code == 0
    assert path.read_text() == with_server("npx-of-mine", "-y")


def test_a_wrap_without_the_folder_is_not_changed(mcpproxy: Mcpproxy, home: Path, folder: Path) -> None:
    path = write(home / DESKTOP, with_server("npx-of-mine"))
    mcpproxy("wrap", "files")
    before = path.read_text()
    again = mcpproxy("wrap", "files", "--keep-path")
    assert (again.code, path.read_text()) == (2, before)
    assert f"files is wrapped without this folder: {folder}; unwrap it and wrap it again" in again.err


@pytest.mark.parametrize(
    ("place", "entry", "fact"),
    [
        (CURSOR, with_server("npx-of-mine"), ""),  # it takes the PATH of a login shell
        (DESKTOP, with_server("npx-of-mine", env={"PATH": "/opt/bin"}), ""),
        (DESKTOP, with_server("sh"), ""),
        (DESKTOP, with_server("${HOME}/npx-of-mine"), ""),
        (CURSOR, with_server("never-installed"), "its command never-installed is not on the PATH here"),
        (CURSOR, with_server("/opt/gone/server"), "its command /opt/gone/server does not exist"),
        (CURSOR, with_server("./server.sh"), ""),
    ],
)
def test_where_a_command_is_found(
    mcpproxy: Mcpproxy, home: Path, folder: Path, place: str, entry: str, fact: str
) -> None:
    write(home / place, entry)
    told = [line.partition(": ")[2].partition(";")[0] for line in said(mcpproxy, "hosts")]
    assert told == ([fact] if fact else [])


def test_a_command_that_only_a_shell_function_adds(mcpproxy: Mcpproxy, home: Path) -> None:
    """The program is started in a terminal in which nvm has not run."""
    for version in ("v9.1.0", "v22.3.0", "v8.0.0"):
        installed(home / f".nvm/versions/node/{version}/bin/npx-of-nvm")
    path = write(home / CURSOR, before := with_server("npx-of-nvm", "-y"))
    folder = home / ".nvm/versions/node/v22.3.0/bin"
    fault = (
        f"~/{CURSOR}: its command npx-of-nvm is not on the PATH here, but in {folder}; "
        "mcpproxy wrap files --host cursor --keep-path gives the server this folder"
    )
    assert said(mcpproxy, "hosts") == [fault]
    assert said(mcpproxy, "wrap", "files") == [fault]
    assert mcpproxy("unwrap", "files").code == 0
    assert said(mcpproxy, "wrap", "files", "--keep-path") == []
    [wrapped] = json.loads(path.read_text())["mcpServers"].values()
    assert wrapped["args"][2:] == ["--path", str(folder), "--", "npx-of-nvm", "-y"]
    assert said(mcpproxy, "hosts") == []
    assert mcpproxy("unwrap", "files").code == 0
    assert path.read_text() == before


def test_a_folder_that_is_there_for_one_shell_only(
    mcpproxy: Mcpproxy, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installed(tmp_path / "fnm/v22/bin/npx-of-fnm").parent
    (tmp_path / "fnm_multishells").mkdir()
    (tmp_path / "fnm_multishells/7_8").symlink_to(folder.parent)
    monkeypatch.setenv("PATH", str(tmp_path / "fnm_multishells/7_8/bin"), prepend=os.pathsep)
    path = write(home / DESKTOP, with_server("npx-of-fnm"))
    assert said(mcpproxy, "wrap", "files", "--keep-path") == []
    [wrapped] = json.loads(path.read_text())["mcpServers"].values()
    assert wrapped["args"][2:] == ["--path", str(folder), "--", "npx-of-fnm"]


@pytest.mark.parametrize(
    ("words", "has_stdin"),
    [
        ("run image", False),
        ("run --rm -e KEY image -i", False),
        ("run -v /srv:/srv --name files image", False),
        ("run --rm --network host --env-file .env image -i", False),
        ("run --privileged --pull=always image", False),
        ("run -i image", True),
        ("run --rm -it image", True),
        ("run --network host -i image", True),
        ("run -te KEY -i image", True),
        ("run --rm --pull always --env-file .env --interactive image", True),
        ("run --option-of-tomorrow --network host -i image", True),
        ("run --interactive image", True),
        ("run --interactive=true image", True),
        ("exec server", True),  # it is not known what that does
    ],
)
def test_a_container_without_stdin(
    mcpproxy: Mcpproxy, home: Path, tmp_path: Path, words: str, has_stdin: bool
) -> None:
    docker = installed(tmp_path / "commands/docker")
    write(home / CURSOR, with_server(str(docker), *words.split()))
    fault = f"~/{CURSOR}: docker run without -i closes the server's stdin at once; add -i after run"
    assert said(mcpproxy, "hosts") == [fault] * (not has_stdin)


def test_a_container_of_windows_without_stdin(mcpproxy: Mcpproxy, home: Path, tmp_path: Path) -> None:
    program = str(installed(tmp_path / "commands/podman.exe"))
    write(home / CURSOR, with_server(program, "run", "image"))
    [fault] = said(mcpproxy, "hosts")
    assert "podman.exe run without -i closes" in fault


def test_a_name_that_a_host_keeps_for_itself(mcpproxy: Mcpproxy, home: Path) -> None:
    path = write(home / ".claude.json", with_server("npx").replace("files", "workspace"))
    listed = mcpproxy("hosts", "--json")
    fact = "Claude Code keeps this name for itself and skips the server"
    assert f"workspace in ~/.claude.json: {fact}; give it another name" in listed.err
    assert json.loads(listed.out)["not_startable"] == [
        {"file": str(path), "name": "workspace", "reason": fact}
    ]
