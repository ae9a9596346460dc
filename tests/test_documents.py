"""What the documents have people copy works: every block of code in them is run, read or compiled.

Commands of a document run one after the other in a folder of their own, which holds what documents speak of:
``server.py``, the recordings ``session.jsonl``, ``before.jsonl``, ``after.jsonl``, and ``recordings/``. They
may find something and end with 1, but they must be able to run. A proxy is stopped once it listens.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mcpproxy.cli.commands import http
from mcpproxy.cli.main import main
from tests.cli import recordings
from tests.documents import ROOT, Block, blocks, documents, named
from tests.reports.sessions import session

DOCKERFILE: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")

DEADLINE_S: Final = 60

URL: Final = "http://127.0.0.1:3000/mcp"
"""Where the server of the documents is reached over HTTP."""

LISTENS: Final = re.compile(r"(listening on|replaying at) http|^http://[\d.]+:\d+/\?token=", re.MULTILINE)
SERVES: Final = re.compile(r"mcpproxy (?:http|model) |mcpproxy ui\b|mcpproxy replay server .*--http ")
"""Commands that go on until they are stopped."""

SHELL: Final = "sh"
READ: Final = ("json", "jsonl", "toml", "yaml", "python")
SHOWN: Final = ("text", "mermaid")
"""What is neither run nor read: output, and pictures."""

DOCUMENTS: Final = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in documents()]


# Every block


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_block_says_what_it_is(document: Path) -> None:
    for block in blocks(document):
        assert block.language in (SHELL, *READ, *SHOWN), block


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_another_test_takes_is_taken_there(document: Path) -> None:
    for block in blocks(document):
        if block.tested_by:
            assert repr(block.name).replace("'", '"') in (ROOT / block.tested_by).read_text("utf-8"), block


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?://)([^)\s]+)\)", text)
    for target in [*links, *re.findall(r'\bsrc(?:set)?="([^"]+)"', text)]:
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), f"{document}: {target}"
        if anchor:
            assert anchor in anchors(linked), f"{document}: {target}"


def anchors(document: Path) -> set[str]:
    """What the headings of a document are called in links."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_block_can_be_read(document: Path) -> None:
    for block in blocks(document):
        if block.language in READ:
            parsed(block)


def parsed(block: Block) -> None:
    """Read a block by the grammar of its language; raises what its reader raises."""
    match block.language:
        case "json":
            json.loads(block.text)
        case "jsonl":
            [json.loads(line) for line in block.text.splitlines()]
        case "toml":
            tomllib.loads(block.text)
        case "yaml":
            list(yaml.safe_load_all(block.text))
        case _:
            compile(block.text, str(block), "exec")


# Commands and programs


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_command_runs(document: Path, tmp_path: Path) -> None:
    todo = [block for block in blocks(document) if not (block.not_run or block.tested_by)]
    if any(re.match(r"jq ", block.text) for block in todo) and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    with folder(tmp_path, "".join(block.text for block in todo)) as at:
        for block in todo:
            if block.path:
                at.write(block)
            elif block.language == SHELL:
                for command in commands(block.text):
                    at.run(block, command)
            elif block.language == "python":
                at.run(block, shlex.join(["python", "-c", block.text]))


def commands(text: str) -> Iterator[str]:
    """The commands of a block: a line each, but for those that go on in the next one."""
    command = ""
    for line in text.splitlines():
        command += line
        if not is_whole(command):
            command += "\n"
        elif command and not command.startswith("#"):
            yield command
            command = ""
    assert not command


def is_whole(command: str) -> bool:
    """Whether a command ends here, and not within quotes or after a backslash."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.endswith("\\")


class Folder:
    """A folder in which commands of a document run; ``url`` is where its server answers."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        self._url = url
        own = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self.env = {**os.environ, "PATH": own, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(path / "state")}
        self.env |= {
            "HOME": str(path / "home"),
            "XDG_CONFIG_HOME": "",
            "BROWSER": "true",  # --open opens none
        }  # commands may write to files of hosts
        self.env.pop("GITHUB_STEP_SUMMARY", None)

    def write(self, block: Block) -> None:
        file = self.path / block.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")

    def run(self, block: Block, command: str) -> None:
        command = command.replace(URL, self._url)
        if SERVES.match(command):
            self._serve(block, command)
            return
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self.path,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        said = f"{block}: {command}\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
        assert ran.returncode in (0, 1), said
        assert "Traceback" not in ran.stderr, said

    def _serve(self, block: Block, command: str) -> None:
        """Start the command on a free port, wait until it says where it listens, and stop it."""
        command = re.sub(r"(--(?:listen|http|admin) [\d.]+):\d+", r"\1:0", command)
        if command.startswith(("mcpproxy http", "mcpproxy model")) and "--listen" not in command:
            command += " --listen 127.0.0.1:0"
        with serving(shlex.split(command, comments=True), self.path, self.env) as said:
            assert LISTENS.search(said), f"{block}: {command}\n{said}"


@contextmanager
def serving(command: Sequence[str], at: Path, env: dict[str, str]) -> Generator[str]:
    """What a server says up to the line with its address, or to its end; it is stopped afterwards."""
    out, errors = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, cwd=at, env=env, text=True, stdout=out, stderr=errors) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if LISTENS.search(line):
                    break
            yield said
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_S)


@contextmanager
def folder(path: Path, text: str) -> Generator[Folder]:
    """The folder that documents assume; the server on HTTP runs if ``text`` speaks of it."""
    shutil.copy(ROOT / "mcpproxy" / "demo" / "server.py", path / "server.py")
    for name in ("session", "before"):
        shutil.copy(ROOT / "recordings" / "everything-2025-11-25.jsonl", path / f"{name}.jsonl")
    shutil.copy(ROOT / "recordings" / "faulty-2025-11-25.jsonl", path / "after.jsonl")
    (path / "recordings").mkdir()
    shutil.copy(ROOT / "recordings" / "faulty-2025-11-25.jsonl", path / "recordings")
    servers = path / "home" / ".cursor" / "mcp.json"
    servers.parent.mkdir(parents=True)
    servers.write_text('{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"]}}}\n')
    (path / "session.har").write_text(json.dumps(HAR), encoding="utf-8")
    made = Folder(path, URL)
    if URL not in text:
        yield made
        return
    recorded = str(ROOT / "recordings" / "example-http-2025-03-26.jsonl")
    server = [sys.executable, "-m", "mcpproxy", "replay", "server", recorded, "--http", "127.0.0.1:0"]
    with serving([*server, "--repeat"], path, made.env) as said:
        (url,) = re.findall(r"replaying at (\S+)", said)
        yield Folder(path, url)


HAR: Final = {
    "log": {
        "version": "1.2",
        "creator": {"name": "a browser", "version": "1"},
        "entries": [
            {
                "startedDateTime": "2026-01-01T00:00:00.000Z",
                "time": 5,
                "request": {
                    "method": "POST",
                    "url": "http://127.0.0.1:3000/mcp",
                    "httpVersion": "HTTP/1.1",
                    "headers": [{"name": "Content-Type", "value": "application/json"}],
                    "postData": {"mimeType": "application/json", "text": recordings.INITIALIZE},
                },
                "response": {
                    "status": 200,
                    "statusText": "OK",
                    "httpVersion": "HTTP/1.1",
                    "headers": [{"name": "Content-Type", "value": "application/json"}],
                    "content": {"mimeType": "application/json", "text": recordings.INITIALIZED},
                },
                "timings": {"send": 1, "wait": 3, "receive": 1},
            }
        ],
    }
}
"""What a browser saves of one request."""


# Recipes


def recipe(name: str) -> list[Any]:
    """The documents of a YAML recipe."""
    return list(yaml.safe_load_all(named(name).text))


def options(command: Sequence[str]) -> http.HttpOptions:
    """How ``mcpproxy`` reads the command of a recipe."""
    assert command[0] == "http"
    return http.parse(list(command[1:]))


def volume() -> str:
    """Where the image keeps recordings."""
    (path,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    return path


def admin_port(ran: http.HttpOptions) -> str:
    """Where it serves metrics, on all addresses of its container."""
    host, _, port = ran.admin.rpartition(":")
    assert host == "0.0.0.0"
    return port


def test_the_compose_file_puts_mcpproxy_before_the_server() -> None:
    (file,) = recipe("compose")
    server, proxy = file["services"]["server"], file["services"]["mcpproxy"]
    ran = options(proxy["command"])

    assert ran.upstream is not None
    assert ran.upstream.host in file["services"]
    assert str(ran.upstream.port) in server["expose"]
    assert "ports" not in server
    assert ran.host == "0.0.0.0"
    assert [port.rsplit(":", 1)[1] for port in proxy["ports"]] == [str(ran.port), admin_port(ran)]
    assert all(port.startswith("127.0.0.1:") for port in proxy["ports"])
    assert proxy["volumes"] == [f"{name}:{volume()}" for name in file["volumes"]]
    assert proxy["depends_on"] == ["server"]


def test_the_pod_puts_mcpproxy_before_the_server() -> None:
    pod, service = recipe("pod")
    server, proxy = pod["spec"]["containers"]
    ran = options(proxy["args"])

    assert ran.upstream is not None
    assert ran.upstream.host == "127.0.0.1"
    assert {"name": "PORT", "value": str(ran.upstream.port)} in server["env"]
    assert ran.host == "0.0.0.0"
    port, metrics = proxy["ports"]
    assert port["containerPort"] == ran.port
    assert str(metrics["containerPort"]) == admin_port(ran)
    assert proxy["readinessProbe"]["tcpSocket"]["port"] == port["name"]
    (mount,) = proxy["volumeMounts"]
    assert mount["mountPath"] == volume()
    assert mount["name"] in [each["name"] for each in pod["spec"]["volumes"]]
    assert proxy["securityContext"]["runAsUser"] == pod["spec"]["securityContext"]["fsGroup"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]


def test_the_workflow_reports_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (workflow,) = recipe("actions")
    steps = workflow["jobs"]["protocol"]["steps"]
    validate, *commands = [
        shlex.split(step["run"]) for step in steps if step.get("run", "").startswith("mcpproxy ")
    ]
    text = named("actions").document.read_text(encoding="utf-8")
    (accept,) = set(re.findall(r"^mcpproxy (check .+ --write-baseline)$", text, re.MULTILINE))
    (tmp_path / "recordings").mkdir()
    recordings.write(tmp_path / "recordings" / "t.jsonl", recordings.FAULTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    server = [sys.executable, "-m", "mcpproxy.demo.server"]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    given = [*validate[1 : validate.index("--")], "--only=list-tools", f"--env=PYTHONPATH={ROOT}"]
    assert main([*given, "--", *server]) == 1
    assert "::error title=SCHEMA-004 " in capsys.readouterr().out
    (kept,) = [step["with"]["path"].split() for step in steps if "upload-artifact" in step.get("uses", "")]
    assert [list((tmp_path / folder).glob("*.jsonl")) != [] for folder in kept] == [True, True]
    ((named_so, its_file),) = re.findall(
        r'"frame \d+ of (\S+)" is in (\S+)$', named("actions").text, re.MULTILINE
    )
    assert its_file == f"{named_so}.jsonl"
    assert (
        tmp_path / kept[0] / re.sub(r"-\d+\.jsonl$", ".jsonl", its_file)
    ).exists()  # the first has no number

    assert main(accept.split()) == 0
    assert [main(command[1:]) for command in commands] == [0, 0]
    capsys.readouterr()
    recordings.write(tmp_path / "recordings" / "u.jsonl", session())
    assert [main(command[1:]) for command in commands] == [1, 1]
    assert "::error file=recordings/u.jsonl,line=6,title=SCHEMA-004 " in capsys.readouterr().out
    assert "SCHEMA" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    (uploaded,) = [step["with"]["sarif_file"] for step in steps if "upload-sarif" in step.get("uses", "")]
    assert json.loads((tmp_path / uploaded).read_text(encoding="utf-8"))["version"] == "2.1.0"


def test_the_workflow_runs_no_tests_of_a_checkout_of_mcpproxy(tmp_path: Path) -> None:
    (workflow,) = recipe("actions")
    (tests,) = [
        step["run"]
        for step in workflow["jobs"]["protocol"]["steps"]
        if "python -m pytest" in step.get("run", "")
    ]
    checkout = tmp_path / "mcpproxy" / "tests"
    checkout.mkdir(parents=True)
    (checkout / "conftest.py").write_text("import needs_what_is_not_installed\n")
    (checkout / "test_ours.py").write_text("def test_ours() -> None: ...\n")
    (tmp_path / "test_yours.py").write_text("def test_yours() -> None: ...\n")
    _, *arguments = shlex.split(tests)
    ran = subprocess.run(
        [sys.executable, *arguments, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stdout


INPUT: Final = re.compile(r"\$\{\{ inputs\.(\w+) \}\}")


@pytest.mark.parametrize("server", ["demo", "url"])
def test_the_action_does_its_steps(server: str, tmp_path: Path) -> None:
    """Its steps are run as a runner does; what is installed already is not installed again."""
    (use,) = recipe("action")[0]["steps"]
    folder = ROOT / use["uses"].removeprefix("./mcpproxy/")
    action = yaml.safe_load((folder / "action.yml").read_text(encoding="utf-8"))
    commands = {
        "demo": f"{shlex.quote(sys.executable)} -m mcpproxy.demo.server",
        "url": "http://127.0.0.1:9/mcp?a=1&touch=$(touch made)",
    }
    given = {name: each.get("default", "") for name, each in action["inputs"].items()}
    assert use["with"].keys() < given.keys()
    given |= {"server": commands[server], "options": f"--only tools {use['with']['options']}"}
    env = dict(os.environ) | {"GITHUB_ACTION_PATH": str(folder), "RUNNER_TEMP": str(tmp_path / "a b")}
    env |= {"GITHUB_WORKSPACE": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    install, validate, upload = action["runs"]["steps"]
    ran: list[subprocess.CompletedProcess[str]] = []
    for step in (install, validate):
        filled = {name: INPUT.sub(lambda match: given[match[1]], text) for name, text in step["env"].items()}
        script = step["run"].replace("python -m pip install", "printf '%s\\n'")
        ran.append(
            subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
                cwd=ROOT,
                env=env | filled,
                capture_output=True,
                text=True,
                check=False,
                timeout=DEADLINE_S,
            )
        )
    assert (Path(ran[0].stdout.strip()) / "pyproject.toml").exists()
    kept = INPUT.sub(lambda match: given[match[1]], upload["with"]["path"])
    recorded = Path(kept.replace("${{ runner.temp }}", env["RUNNER_TEMP"])) / "session.jsonl"
    if server == "demo":
        assert (ran[1].returncode, recorded.exists()) == (1, True), ran[1]
        assert "::error title=" in ran[1].stdout
        assert "file=" not in ran[1].stdout
        (shown,) = re.findall(r"mcpproxy show (\S+) --frames ", ran[1].stdout)
        assert (recorded.parent / shown).exists()
        assert "/" not in shown
    else:
        assert ran[1].returncode == 2
        assert ran[1].stdout.startswith(
            f"::error title=mcpproxy validate::{commands['url']}: cannot be reached"
        )
        assert f"{commands['url']}: cannot be reached" in ran[1].stderr
        assert not (ROOT / "made").exists()


def test_the_workflow_uses_the_action_with_its_inputs() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    (use,) = [step for step in workflow["jobs"]["validate"]["steps"] if step["uses"].startswith("./")]
    action = yaml.safe_load((ROOT / use["uses"] / "action.yml").read_text(encoding="utf-8"))
    assert use["with"].keys() <= action["inputs"].keys()


# The image


def test_the_image_has_what_the_recipes_use() -> None:
    ports = re.findall(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)
    assert ports == ["8765 9464"]
    assert "RUN .ci/install /opt/mcpproxy" in DOCKERFILE


def test_the_image_is_healthy_while_the_usual_port_takes_connections() -> None:
    (check,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    usual = options(["http", "http://server:3000"]).port
    assert check.count(str(usual)) == 1
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        program, *arguments = json.loads(check.replace(str(usual), str(port)))
        assert program == "python"
        assert subprocess.run([sys.executable, *arguments], check=False).returncode == 0
    stopped = subprocess.run([sys.executable, *arguments], check=False, capture_output=True)
    assert stopped.returncode != 0
