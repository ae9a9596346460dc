"""``mcpproxy run``: options, names of traces, what is refused, and what it costs to start."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcpproxy.base import paths
from mcpproxy.base.secret_names import SECRET_OPTIONS, SECRET_WORDS, UNSEPARATED
from mcpproxy.cli.commands import run
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import Close, Frame
from mcpproxy.read.opening import open_trace
from mcpproxy.send.fleet import ship_process
from mcpproxy.send.otel import live_process
from tests.every import every
from tests.relay.hosts import DEADLINE_S, Host, until_recorded

MCPPROXY = [sys.executable, "-m", "mcpproxy"]

REFUSED: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "no -- and no command found"),
    "no command": (["--"], "no command after --"),
    "no --": (["run", "node", "server.js"], "'node' is not an option"),
    "unknown option": (["--trase", "x", "--", "cat"], "unknown option --trase"),
    "unknown option with a value": (["--trase=x", "--", "cat"], "unknown option --trase"),
    "missing value": (["--trace", "--", "cat"], "--trace needs a value"),
    "empty value": (["--label=", "--", "cat"], "--label needs a value"),
    "value at the end": (["--trace"], "--trace needs a value"),
    "unknown mode": (["--live", "loud", "--", "cat"], "--live loud is not known"),
    "grace that is no number": (["--grace", "long", "--", "cat"], "--grace long is not a time"),
    "grace below nothing": (["--grace=-1", "--", "cat"], "--grace -1 is not a time"),
    "grace that is no time": (["--grace=nan", "--", "cat"], "--grace nan is not a time"),
    "grace of a day": (["--grace=1d", "--", "cat"], "--grace 1d is not a time"),
    "unknown option that is like another": (["--trase", "x", "--", "cat"], "did you mean --trace?"),
    "no command in --command": (["--command", " "], "--command names no command"),
    "half a command": (["--command", "cat 'x"], "--command cat 'x cannot be read (No closing quotation)"),
    "two commands": (["--command", "cat", "--", "cat"], "both name the server"),
    "two places": (["--trace=a", "--trace-dir=b", "--", "cat"], "both say where"),
}


@every(("argv", "fact"), [pytest.param(*case, id=name) for name, case in REFUSED.items()])
def test_refused(argv: list[str], fact: str) -> None:
    with pytest.raises(McpProxyError, match=r"^run: ") as refusal:
        run.parse(argv)
    assert fact in str(refusal.value)
    assert "; " in str(refusal.value)  # the next step


def test_options() -> None:
    options = run.parse(
        [
            "run",
            "--trace=t",
            "--label",
            "x",
            "--quiet",
            "--live=json",
            "--rotate=1M",
            "--max-size=1G",
            "--reserve=0",
            "--grace",
            "1.5",
            "--enforce=ACP-001",
            "--enforce",
            "RPC-005,PROTO-005",
            "--rules",
            "house",
            "--select=HOUSE",
            "--extend-select",
            "EXT",
            "--ignore=EXT-001",
            "--app-errors",
            "--",
            "cat",
            "--",
            "-h",
        ]
    )
    assert vars(options) == {
        "where": "run",
        "trace": "t",
        "trace_dir": "",
        "label": "x",
        "rotate": '{"bytes":1048576}',
        "max_bytes": 1 << 30,
        "reserve": 0,
        "keep": "",
        "live": "json",
        "is_awaited": True,
        "grace_s": 1.5,
        "folders": [],
        "given": {
            "--trace": ["t"],
            "--label": ["x"],
            "--quiet": [""],
            "--live": ["json"],
            "--rotate": ["1M"],
            "--max-size": ["1G"],
            "--reserve": ["0"],
            "--grace": ["1.5"],
            "--enforce": ["ACP-001", "RPC-005,PROTO-005"],
            "--rules": ["house"],
            "--select": ["HOUSE"],
            "--extend-select": ["EXT"],
            "--ignore": ["EXT-001"],
            "--app-errors": [""],
        },
        "app_errors": True,
        "secrets": False,
        "is_quiet": True,
        "has_page": False,
        "collector": None,
        "sends_content": False,
        "ship": "",
        "rule_options": None,
        "fault_seed": None,
        "fault_rules": None,
        "gate": None,
        "command": ["cat", "--", "-h"],
    }


@pytest.mark.parametrize(("given", "grace_s"), [("0", 0), ("1.5", 1.5), ("10s", 10), ("2m", 120)])
def test_grace_has_a_unit_or_is_in_seconds(given: str, grace_s: float) -> None:
    assert run.parse([f"--grace={given}", "--", "cat"]).grace_s == grace_s


def test_the_command_in_one_argument() -> None:
    options = run.parse(["--quiet", "--command", "cat 'a b' -- -h"])
    assert options.is_quiet
    assert options.command == ["cat", "a b", "--", "-h"]
    assert run.parse(["run", "--command=cat"]).command == ["cat"]


def test_the_command_in_one_argument_is_started() -> None:
    with Host([*MCPPROXY, "--command", "cat -u"]) as host:
        host.write(b"through\n")
        assert host.read(8) == b"through\n"
        host.end_input()
        assert host.wait() == 0


def test_the_companions_are_told_of_the_end_of_a_recorder_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def started(name: str) -> Callable[..., SimpleNamespace]:
        def start(*_: object, **__: object) -> SimpleNamespace:
            return SimpleNamespace(finish=lambda: told.append(name))

        return start

    def fails() -> None:
        raise MemoryError

    monkeypatch.setattr(ship_process, "start", started("ship"))
    monkeypatch.setattr(live_process, "start", started("otlp"))
    options = run.parse(["--otlp", "--ship", "file:///tmp", "--", "cat"])
    with pytest.raises(MemoryError):
        options.run_with_companions("t.jsonl", fails)
    assert told == ["ship", "otlp"]


LATER_PYTHON = """\
import subprocess, sys, _posixsubprocess
def other_arguments(*given):
    raise TypeError(given)
_posixsubprocess.fork_exec = other_arguments
from mcpproxy.cli.main import main
sys.exit(main())
"""
"""mcpproxy on a Python whose private function, with which the relay starts servers, takes other arguments."""


@pytest.mark.parametrize("program", [["-m", "mcpproxy"], ["-c", LATER_PYTHON]], ids=["this", "later"])
def test_path_is_searched_past_folders_and_is_the_servers(program: list[str], tmp_path: Path) -> None:
    for name in ("first/mine", "second"):
        (tmp_path / name).mkdir(parents=True)
    server = tmp_path / "second/mine"
    server.write_text('#!/bin/sh\necho "$PATH"\n')
    server.chmod(0o755)
    folders = [str(tmp_path / name) for name in ("first", "second")]
    options = ["--trace-dir", str(tmp_path / "traces"), "--path", folders[0], "--path", folders[1]]
    with Host([sys.executable, *program, *options, "--", "mine"]) as host:
        assert host.rest().decode().startswith(":".join(folders) + ":")
        assert host.wait() == 0


LABELS = {
    "cat": "cat",
    "/usr/bin/my-server.py": "my-server",
    "npx -y @modelcontextprotocol/server-everything": "server-everything",
    "npx -y @scope/server-files@1.2.3 /srv": "server-files",
    "uvx mcp-server-git --repository .": "mcp-server-git",
    "uv run weather.py": "weather",
    "python3.12 -m weather.server": "weather.server",
    "node build/index.js": "index",
    "node ./index.js": "index",
    "node /srv/node_modules/@scope/server-everything/dist/index.js": "server-everything",
    "node C:\\tools\\server-files\\build\\src\\index.mjs": "server-files",
    "node C:\\index.js": "index",
    "python ../weather/src/main.py": "weather",
    "python -m main": "main",
    "/opt/notes/bin/main": "notes",
    "node /srv/app/dist/server.js": "server",
    "C:\\tools\\Server.exe": "Server",
    "python": "python",
    "npx -y --api-key s3cr3t-value @scope/server-files": "server-files",
    "npx --token=s3cr3t-value server": "server",
    "node --require ./hook.js": "hook",
    "docker run -i --rm -e API_TOKEN ghcr.io/github/github-mcp-server": "github-mcp-server",
    "docker run -it --name notes -v /srv:/data --env K=V localhost:5000/mcp/time:1.2 --utc": "time",
    "podman run --interactive --rm docker.io/mcp/fetch@sha256:0a1b": "fetch",
    "docker run -i node:22 npx -y @scope/server-files": "server-files",
    "cmd /c npx -y @upstash/context7-mcp@latest": "context7-mcp",
    "cmd.exe /d /s /c uvx weather": "weather",
    "npx tsx /home/ann/proj/src/index.ts": "proj",
    "npx -y ts-node src/weather.ts": "weather",
    "uvx --from git+https://github.com/oraios/serena serena start-mcp-server": "serena",
    "uv run --with mcp python /opt/weather/server.py": "weather",
    "uv --directory /srv/weather run server.py": "weather",
    "node /srv/foo-mcp/bin/cli.js": "foo-mcp",
    "python /opt/weather/server.py": "weather",
    "/srv/weather/.venv/bin/mcp-server --port 1": "weather",
    "/usr/local/bin/mcp run notes.py": "notes",
    "bash /opt/weather/start.sh": "weather",
    "uv run python": "python",
    "npx -y mcp-remote@latest https://mcp.linear.app/sse --transport sse-only": "mcp.linear.app",
    "npx mcp-remote http://localhost:3000/mcp 3334": "localhost",
    "env DEBUG=1 node /opt/weather/server.js": "weather",
    "/usr/bin/env -u NODE_OPTIONS -i npx -y @scope/server-files": "server-files",
    "wsl npx -y @scope/server-files": "server-files",
    "wsl.exe -d Ubuntu --cd /srv -- uvx weather": "weather",
    "poetry run weather": "weather",
    "poetry run python -m weather": "weather",
    "pipx run --spec mcp-weather weather": "weather",
    "pipx run mcp-weather": "mcp-weather",
    "bunx @scope/server-files": "server-files",
    "pnpm dlx @scope/server-files": "server-files",
    "conda run -n tools --no-capture-output python /opt/weather/server.py": "weather",
    "sudo -u ann -E uvx weather": "weather",
    "env": "env",
    "python /app/server.py": "server",
    "/": "server",
    "ünsafe name": "nsafe-name",
}


@every(("command", "label"), LABELS.items())
def test_label(command: str, label: str) -> None:
    assert paths.label_for(command.split() if command.isascii() else [command]) == label


@pytest.mark.parametrize(
    "command", ["npm start", "npm run -s dev", "pnpm run serve", "yarn start", "bun dev"]
)
def test_a_script_of_a_package_has_the_name_of_its_folder(command: str) -> None:
    assert paths.label_for(command.split(), "/home/ann/weather") == "weather"
    assert paths.label_for(command.split(), "/") == paths.label_for(command.split()) == command.split()[-1]


def test_a_package_or_a_folder_that_the_command_names_is_its_name() -> None:
    commands = "npx --package=mcp-x weather", "npm --prefix /srv/weather start", "npm exec weather"
    for command in map(str.split, commands):
        assert paths.label_for(command, "/home/ann/other") == "weather"


SCRIPTS = {
    ("sh", "-c", "API_KEY=s3cr3t exec server"): "sh",
    ("sh", "-lc", "server"): "sh",
    ("/bin/bash", "-lc", "exec server --token s3cr3t"): "bash",
    ("python3", "-c", "print(1)"): "python3",
    ("python3.12", "-Ic", "s3cr3t"): "python3.12",
    ("node", "-e", "s3cr3t"): "node",
    ("node", "--eval", "s3cr3t"): "node",
    ("node", "--input-type=module", "--eval=s3cr3t"): "node",
    ("deno", "eval", "s3cr3t"): "deno",
    ("npx", "-c", "server --token s3cr3t"): "npx",
    ("uv", "run", "--with", "mcp", "mcp", "run", "weather.py"): "weather",
    ("uv", "run", "mcp", "dev", "/srv/weather/server.py:app"): "weather",
    ("fastmcp", "run", "weather.py:app", "-t", "stdio"): "weather",
    ("mcp", "run"): "mcp",
    ("npx", "-H", "Authorization: Bearer s3cr3t"): "npx",
    ("npx", "https://user:s3cr3t@example.com/server"): "npx",
    ("uvx", "--from", "https://x.example/s3cr3t", "server"): "server",
    ("npx", "mcp-remote", "--header", "X-Api:s3cr3t", "https://u:s3cr3t@x.example?k=s3cr3t"): "x.example",
    ("npx", "mcp-remote", "s3cr3t"): "mcp-remote",
    ("env", "API_KEY=s3cr3t", "bash", "-c", "server --token s3cr3t"): "bash",
    ("wsl", "--", "sh", "-c", "s3cr3t"): "sh",
    ("docker", "run", "-e", "API_KEY=s3cr3t", "--token", "s3cr3t", "-H", "s3cr3t", "x/notes:1"): "notes",
    ("cmd", "/c", "npx server --token s3cr3t"): "cmd",
    ("cmd", "/c", "sh", "-c", "server --token s3cr3t"): "sh",
}


@every(("command", "label"), SCRIPTS.items())
def test_a_scripts_text_and_a_secret_are_no_label(command: tuple[str, ...], label: str) -> None:
    assert paths.label_for([*command]) == label


@every("name", sorted(SECRET_WORDS | SECRET_OPTIONS | {*UNSEPARATED}))
def test_the_value_of_a_secret_option_is_no_label(name: str) -> None:
    command = ["npx", f"--{name.replace(' ', '-')}", "s3cr3t", "server-files"]
    assert paths.label_for(command) == "server-files"


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {}, "/h/.local/state/mcpproxy"),
        ("linux", {"XDG_STATE_HOME": "/s"}, "/s/mcpproxy"),
        ("linux", {"XDG_STATE_HOME": "relative"}, "/h/.local/state/mcpproxy"),
        ("darwin", {}, "/h/Library/Application Support/mcpproxy"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/mcpproxy"),
        ("win32", {}, "/h/AppData/Local/mcpproxy"),
    ],
)
def test_state_dir(
    platform: str, environ: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/h", **environ}.items():
        monkeypatch.setenv(name, value)
    assert paths.state_dir() == folder


def test_a_trace_is_never_written_over(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    for name in ("t", "t-2", "t-3"):
        command = [*MCPPROXY, "--trace", str(trace), "--quiet", "--", "true"]
        assert subprocess.run(command, timeout=60).returncode == 0
        until_recorded(tmp_path / f"{name}.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t-2.jsonl", "t-3.jsonl", "t.jsonl"]


def test_the_default_place(tmp_path: Path) -> None:
    with Host([*MCPPROXY, "--", "true"], env={"XDG_STATE_HOME": str(tmp_path)}) as host:
        assert host.rest() == b""
        assert host.wait() == 0
        said = host.all_errors().decode()
    trace = Path(said.splitlines()[0].removeprefix("mcpproxy: recording to "))
    until_recorded(trace)
    assert list((tmp_path / "mcpproxy").iterdir()) == [trace]
    assert trace.name.endswith(f"-true-{host.process.pid}.jsonl")
    assert trace.stat().st_mode & 0o777 == 0o600
    assert trace.parent.stat().st_mode & 0o777 == 0o700


def test_quiet_says_nothing(tmp_path: Path) -> None:
    with Host(
        [*MCPPROXY, "--quiet", "--trace-dir", str(tmp_path), "--", "sh", "-c", "echo not JSON"]
    ) as host:
        assert host.rest() == b"not JSON\n"
        assert host.wait() == 0
        assert host.all_errors() == b""


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_an_unwritable_place_is_refused_before_the_server_starts(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / ("" if place == "a file" else "below")
    with Host([*MCPPROXY, "--trace-dir", str(folder), "--", "sh", "-c", "echo started >&2"]) as host:
        assert host.rest() == b""
        assert host.wait() == 2
        errors = host.all_errors().decode()
    assert errors.startswith(f"mcpproxy: {folder}: cannot be written (")
    assert errors.count("\n") == 1


def test_a_folder_is_no_file_to_record_into(tmp_path: Path) -> None:
    with Host([*MCPPROXY, "--trace", str(tmp_path), "--", "cat"]) as host:
        assert host.wait() == 2
        errors = host.all_errors().decode()
    assert errors == (
        f"mcpproxy: {tmp_path}: cannot be written (Is a directory); name another place with --trace-dir\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_from_the_start_stops_no_session(tmp_path: Path) -> None:
    command = [*MCPPROXY, "--trace-dir", str(tmp_path), "--", "cat"]
    with Host(["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", *command]) as host:
        host.write(b"hello")
        assert host.read(5) == b"hello"
        host.end_input()
        assert host.wait() == 0
        assert host.all_errors() == b"mcpproxy: not recording (File too large); the traffic goes on\n"
    assert list(tmp_path.iterdir()) == []


def test_a_default_folder_that_cannot_be_written_stops_no_session(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.touch()
    with Host(["env", "-u", "XDG_STATE_HOME", f"HOME={home}", *MCPPROXY, "--", "cat"]) as host:
        host.write(b"hello")
        assert host.read(5) == b"hello"
        host.end_input()
        assert host.wait() == 0
        errors = host.all_errors().decode()
    assert errors.startswith(f"mcpproxy: not recording ({home}/")
    assert " cannot be written, " in errors
    assert errors.endswith("; name a folder with --trace-dir); the traffic goes on\n")
    assert errors.count("\n") == 1


def test_a_working_directory_that_was_deleted_stops_no_recording(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = [*MCPPROXY, "--trace", str(tmp_path / "t.jsonl"), "--", "/bin/cat"]
    with Host(["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone), *command]) as host:
        host.write(b"hello\n")
        assert host.read(6) == b"hello\n"
        host.end_input()
        assert host.wait() == 0
    until_recorded(tmp_path / "t.jsonl")
    assert isinstance([*open_trace(tmp_path / "t.jsonl").events()][-1], Close)


@pytest.mark.parametrize("killed", [os.kill, os.killpg], ids=["alone", "the group"])
def test_the_recording_of_a_relay_that_was_killed_is_completed(
    killed: Callable[[int, int], None], tmp_path: Path
) -> None:
    trace = tmp_path / "t.jsonl"
    with Host([*MCPPROXY, "--trace", str(trace), "--", "cat"], process_group=0) as host:
        host.write(b"hello\n")
        assert host.read(6) == b"hello\n"
        pid = host.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        for _ in range(DEADLINE_S * 200):  # until the recorder has left the group
            if any(os.getsid(child) == child for child in map(int, children.read_text().split())):
                break
            select.select([], [], [], 0.005)
        killed(pid, signal.SIGKILL)
        host.wait()
    until_recorded(trace)
    events = [*open_trace(trace).events()]
    assert [event.raw for event in events if isinstance(event, Frame)] == [b"hello", b"hello"]
    assert isinstance(events[-1], Close)


def test_help_names_every_option() -> None:
    shown = subprocess.run([*MCPPROXY, "run", "--help"], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0
    for option in ("--trace", "--trace-dir", "--label", "--live", "--quiet", "--grace"):
        assert f"  {option} " in shown.stdout


START_PATH = {
    "__future__",
    "_posixsubprocess",
    "_struct",
    "mcpproxy",
    "mcpproxy.base",
    "mcpproxy.base.json_string",
    "mcpproxy.base.paths",
    "mcpproxy.cli",
    "mcpproxy.cli.commands",
    "mcpproxy.cli.commands.run",
    "mcpproxy.cli.main",
    "mcpproxy.cli.new_recording",
    "mcpproxy.cli.option_table",
    "mcpproxy.record",
    "mcpproxy.record.relay",
    "mcpproxy.record.relay.journal",
    "mcpproxy.record.relay.stdio",
    "mcpproxy.record.relay.stdio.inheritance",
    "mcpproxy.record.relay.stdio.session_start",
    "mcpproxy.record.relay.stdio.signals",
}


def test_nothing_else_is_imported_before_the_server_starts(tmp_path: Path) -> None:
    script = (
        "import os, sys; before = set(sys.modules)\n"
        "def spawned(*args, **more):\n"
        "    print(*sorted(set(sys.modules) - before), flush=True)\n"
        "    os._exit(0)\n"
        "import _posixsubprocess as starter\n"
        "starter.fork_exec = spawned\n"
        "from mcpproxy.cli.main import main\n"
        f"main(['--trace-dir', {str(tmp_path)!r}, '--', 'true'])\n"
    )
    shown = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, timeout=60)
    assert set(shown.stdout.split()) <= START_PATH
    assert "mcpproxy.record.relay.stdio.session_start" in shown.stdout
    assert os.listdir(tmp_path)  # the journal was there before the server


def test_what_is_said_about_a_session_moves_no_cursor(tmp_path: Path) -> None:
    trace = tmp_path / "evil\x1b]0;t\x07\n\u202e.jsonl"
    wrapped = [*MCPPROXY, "--trace", str(trace), "--", "cat"]
    missing = [*MCPPROXY, "--trace-dir", str(tmp_path), "--", "no\x1b[2Jsuch"]
    for command, shown in (
        (wrapped, "evil\\u001b]0;t\\u0007\\n\\u202e.jsonl"),
        (missing, "no\\u001b[2Jsuch"),
    ):
        ran = subprocess.run(command, input=b"\x1b[2J\n", capture_output=True, check=False)
        said = ran.stderr.decode()
        assert shown in said
        assert all(line.isprintable() and line.startswith("mcpproxy: ") for line in said.splitlines())
