"""Modules of Python in the project that mcpproxy is started in: none of them may run in place of a real one.

Whoever gives somebody a project chooses what lies in it, and a host starts mcpproxy there.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.attacks.stage import Stage, Table, hold, is_line, read

TABLE: Final = Table()

PLANTED: Final = (
    "mcpproxy/__init__.py", "orjson.py", "anyio.py", "json.py", "sitecustomize.py", "asyncio/__init__.py",
    "multiprocessing/__init__.py",
)  # fmt: skip
LARGE: Final = 6 << 20
"""So long are recordings for which ``check`` starts processes."""
ADDON: Final = """
from mcpproxy.addons import Addon

class Passes(Addon):
    async def request(self, session, message):
        return None

    def finding(self, session, finding):
        pass
"""


def _plant(stage: Stage, names: tuple[str, ...] = PLANTED) -> None:
    """Put the modules into the folder that the command runs in. Each leaves a file if it is executed."""
    for name in names:
        path = stage.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(_executed(stage))!r}, 'a').write({name + ' '!r})\n")


def _executed(stage: Stage) -> Path:
    return stage.folder / "executed"


def _nothing_ran(stage: Stage, seen: str) -> str:
    executed = _executed(stage)
    names = sorted(set(executed.read_text().split())) if executed.exists() else []
    hold(not names, f"executed: {', '.join(names)}")
    return f"{seen}; nothing of the folder ran"


def _python(stage: Stage) -> str:
    """The interpreter that the command is installed for."""
    return str(Path(stage.mcpproxy).parent / "python")


def _demo_server(stage: Stage) -> tuple[str, ...]:
    return (_python(stage), "-P", "-m", "mcpproxy.demo.server")


def _recording(stage: Stage) -> Path:
    """Record a session, before anything is planted, in a folder of its own."""
    stage.run("demo")
    (recorded,) = (stage.state / "mcpproxy").glob("*.jsonl")
    folder = stage.folder / "recordings"
    folder.mkdir()
    return recorded.rename(folder / "session.jsonl")


@TABLE
def with_an_addon(stage: Stage) -> str:
    """``--addon``: the process that runs addons imports nothing of the working directory."""
    addon = stage.folder / "home" / "passes.py"
    addon.write_text(ADDON)
    _plant(stage)
    trace = str(stage.folder / "t.jsonl")
    process = stage.start("run", "--trace", trace, "--addon", str(addon), "--", "cat")
    assert process.stdin is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    read(process.stdout, is_line)
    process.stdin.close()
    stage.wait(process, "the session")
    return _nothing_ran(stage, "a message passed the addon")


@TABLE
def demo_beside_modules(stage: Stage) -> str:
    """``demo``: neither the proxy nor the server imports anything of the working directory."""
    _plant(stage)
    code = stage.run("demo").code
    return _nothing_ran(stage, f"exit {code}")


@TABLE
def check_with_results(stage: Stage) -> str:
    """``check --out``, whole or a shard: the judges import nothing of the working directory."""
    folder = str(_recording(stage).parent)
    _plant(stage)
    codes = [
        stage.run("check", folder, "--out", str(stage.folder / name), *options).code
        for name, options in (("whole", ()), ("part", ("--shard", "0/2")))
    ]
    return _nothing_ran(stage, f"exit {codes}")


@TABLE
def check_of_large_recordings(stage: Stage) -> str:
    """``check`` of recordings that are worth some processes: they import nothing of the working directory."""
    recording = _recording(stage)
    *lines, end = recording.read_bytes().splitlines(keepends=True)
    frame = next(line for line in lines if b'"frame"' in line)
    for name in ("a.jsonl", "b.jsonl"):
        times = LARGE // len(frame)
        recording.with_name(name).write_bytes(b"".join((*lines, *([frame] * times), end)))
    _plant(stage)
    code = stage.run("check", str(recording.parent)).code
    return _nothing_ran(stage, f"exit {code}")


@TABLE
def a_replay_updates(stage: Stage) -> str:
    """``replay client --update``: the proxy before the server imports nothing of the working directory."""
    recording = _recording(stage)
    _plant(stage)
    code = stage.run("replay", "client", str(recording), "--update", "--", *_demo_server(stage)).code
    return _nothing_ran(stage, f"exit {code}")


@TABLE
def recording_in_a_test(stage: Stage) -> str:
    """``mcpproxy.testing``: the commands that it gives import nothing of the working directory."""
    _plant(stage)
    code = (
        "import json, pathlib, sys; from mcpproxy.testing import McpRecording as R; "
        "folder = pathlib.Path(sys.argv[1]); "
        "print(json.dumps(R(folder / 'r.jsonl', 'record', folder, ['true'], adds=False).command))"
    )
    command: list[str] = json.loads(
        subprocess.check_output([_python(stage), "-P", "-c", code, stage.folder], env=stage.env)
    )
    done = subprocess.run(command, cwd=stage.folder, env=stage.env, stdin=subprocess.DEVNULL, check=False)
    return _nothing_ran(stage, f"exit {done.returncode}")


@TABLE
def by_the_interpreter(stage: Stage) -> str:
    """``python -m mcpproxy``: once it runs, it imports nothing more of the working directory."""
    recording = _recording(stage)
    _plant(stage, ("orjson.py", "anyio.py", "json.py", "asyncio/__init__.py", "multiprocessing/__init__.py"))
    commands = (["check", str(recording)], ["show", str(recording)], ["validate", *["--", "true"]], ["demo"])
    for command in commands:
        subprocess.run(
            [_python(stage), "-m", "mcpproxy", *command],
            cwd=stage.folder, env=stage.env, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
    return _nothing_ran(stage, f"{len(commands)} commands")


@TABLE
def other_commands(stage: Stage) -> str:
    """Commands that start helpers, or a server: none imports anything of the working directory."""
    recording = str(_recording(stage))
    server = _demo_server(stage)
    _plant(stage)
    trace = str(stage.folder / "u.jsonl")
    spans, store = "http://127.0.0.1:9", (stage.folder / "store").as_uri()
    commands = (
        ("run", "--trace", trace, "--ui", "--otlp", spans, "--ship", store, "--", "true"),
        ("bridge", "http://127.0.0.1:9/mcp", "--trace", trace),
        ("show", recording), ("stats", recording), ("export", "html", recording, "-o", "out.html"),
        ("validate", "--only", "lifecycle", "--", *server), ("pin", "-o", "pins.json", "--", *server),
        ("replay", "client", recording, "--", *server), ("fuzz", recording, "--time", "1", "--", *server),
    )  # fmt: skip
    for command in commands:
        stage.run(*command)
    return _nothing_ran(stage, f"{len(commands)} commands")
