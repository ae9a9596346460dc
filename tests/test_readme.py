"""What the README has people copy is what the program and its image understand."""

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mcpproxy.cli import http
from mcpproxy.cli.main import main
from tests.cli import recordings
from tests.reports.sessions import session

ROOT: Final = Path(__file__).parent.parent
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def recipe(name: str) -> list[Any]:
    """The documents of the YAML between ``<!-- name -->`` and ``<!-- end -->``."""
    (text,) = re.findall(rf"<!-- {name} -->\n```yaml\n(.*?)```\n<!-- end -->", README, re.DOTALL)
    return list(yaml.safe_load_all(text))


def options(command: Sequence[str]) -> http.Options:
    """How ``mcpproxy`` reads the command of a recipe."""
    assert command[0] == "http"
    return http.parse(list(command[1:]))


def volume() -> str:
    """Where the image keeps recordings."""
    (path,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    return path


def admin_port(ran: http.Options) -> str:
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
    (accept,) = re.findall(r"^mcpproxy (check .+ --write-baseline)$", README, re.MULTILINE)
    (tmp_path / "recordings").mkdir()
    recordings.write(tmp_path / "recordings" / "t.jsonl", recordings.FAULTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    server = [sys.executable, "-m", "mcpproxy.demo.server"]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    given = [*validate[1 : validate.index("--")], "--only=list-tools", f"--env=PYTHONPATH={ROOT}"]
    assert main([*given, "--", *server]) == 1
    assert ",title=SCHEMA-004 " in capsys.readouterr().out

    assert main(accept.split()) == 0
    assert [main(command[1:]) for command in commands] == [0, 0]
    capsys.readouterr()
    recordings.write(tmp_path / "recordings" / "u.jsonl", session())
    assert [main(command[1:]) for command in commands] == [1, 1]
    assert "::error file=recordings/u.jsonl,line=6,title=SCHEMA-004 " in capsys.readouterr().out
    assert "SCHEMA" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    (uploaded,) = [step["with"]["sarif_file"] for step in steps if "upload-sarif" in step.get("uses", "")]
    assert json.loads((tmp_path / uploaded).read_text(encoding="utf-8"))["version"] == "2.1.0"


# The image


def test_the_image_has_what_the_recipes_use() -> None:
    ports = re.findall(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)
    assert ports == ["8765 9464"]
    assert "pip wheel --no-cache-dir --wheel-dir /wheels ." in DOCKERFILE
    assert "--find-links=/wheels mcpproxy " in DOCKERFILE


def test_the_image_is_healthy_while_the_usual_port_takes_connections() -> None:
    (check,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    usual = options(["http", "--upstream", "http://server:3000"]).port
    assert check.count(str(usual)) == 1
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        program, *arguments = json.loads(check.replace(str(usual), str(port)))
        assert program == "python"
        assert subprocess.run([sys.executable, *arguments], check=False).returncode == 0
    stopped = subprocess.run([sys.executable, *arguments], check=False, capture_output=True)
    assert stopped.returncode != 0
