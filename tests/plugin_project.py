"""A project that uses the pytest plugin: a weather server that logs its requests, a client, and tests."""

import os
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import mcpproxy

# If mcpproxy is not installed, its plugin is imported like any module, and without this pytest would warn.
pytest.register_assert_rewrite("mcpproxy.pytest_plugin")

ROOT: Final = Path(__file__).parent.parent

SERVER: Final = """
import json, pathlib, sys

ASKED = pathlib.Path(__file__).with_name("asked")
REFUSAL = {"code": -32601, "message": "Method not found"}

for line in sys.stdin:
    message = json.loads(line)
    with ASKED.open("a") as log:
        log.write(message["method"] + "\\n")
    if "id" not in message:
        continue
    match message:
        case {"method": "initialize", "params": {"protocolVersion": revision}}:
            about = {"name": "weather", "version": "1"}
            answer = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": about}
        case {"method": "tools/list"}:
            answer = {"tools": [{"name": "forecast", "inputSchema": {"type": "object"}}]}
        case {"method": "tools/call", "params": {"name": "forecast", "arguments": {"city": city}}}:
            answer = {"content": [{"type": "text", "text": city + ": sunny"}]}
        case {"method": "tools/call", "params": {"name": "stations"}}:
            message["id"] = str(message["id"])  # what the client asked with was a number
            answer = {"content": []}
        case _:
            answer = None
    said = {"error": REFUSAL} if answer is None else {"result": answer}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
"""

CLIENT: Final = '''
import json, subprocess


class Client:
    """Speaks MCP with the server that a command starts."""

    def __init__(self, command, first_id=1):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.id = first_id - 1
        about = {"name": "test", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=about)
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.id += 1
        self.send(id=self.id, method=method, params=params)
        answer = json.loads(self.process.stdout.readline())
        assert "result" in answer, answer["error"]["message"]
        return answer["result"]

    def forecast(self, city):
        return self.ask("tools/call", name="forecast", arguments={"city": city})["content"][0]["text"]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()
'''

CONFTEST: Final = """
import pytest
from client import Client


@pytest.fixture
def client(mcp_recording):
    with Client(mcp_recording.command) as client:
        yield client
"""

HEAD: Final = """
import sys
import pytest
from client import Client

WEATHER = [sys.executable, "server.py"]
pytestmark = pytest.mark.mcp_recording("weather", command=WEATHER)
"""

HTTP_SERVER: Final = """
import json, threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Weather(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("asked", "a") as log:
            log.write(asked["method"] + "\\n")
        if "id" not in asked:
            self.send_response(202)
            self.send_header("content-length", "0")
            return self.end_headers()
        if asked["method"] == "initialize":
            about = {"name": "weather", "version": "1"}
            revision = asked["params"]["protocolVersion"]
            result = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": about}
        else:
            result = {"content": [{"type": "text", "text": asked["params"]["arguments"]["city"] + ": sunny"}]}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about):
        pass


def started():
    server = HTTPServer(("127.0.0.1", 0), Weather)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
"""


_ENGINES: Final = ("engine_dask", "engine_ray")
"""Modules that no test of the plugin needs. Dask brings a finder of distributions of its own and switches off
the usual one; pytester would remove the former, and no plugin would be found after that."""


@pytest.fixture(scope="module", autouse=True)
def load_mcpproxy() -> None:
    """Import all modules of mcpproxy.

    After a test pytester removes the modules that were imported since it began. A second import would give
    another copy, whose classes differ from those of the first one, also of libraries. So this comes before.
    """
    for module in pkgutil.walk_packages(mcpproxy.__path__, "mcpproxy."):
        if not module.name.endswith(("__main__", *_ENGINES)):
            try:
                import_module(module.name)
            except ModuleNotFoundError as error:  # the packages of its extra are not installed
                if (error.name or "mcpproxy").startswith("mcpproxy"):
                    raise


_RECORDED: Final[dict[str, dict[str, bytes]]] = {}
"""Tests, and what a run of them has recorded: the content by the name of the file."""


class Project:
    """A folder with the tests of a user, which are run in this process."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(pytester.path)]))
        self._pytester = pytester
        self.recordings = pytester.path / "recordings"
        pytester.makepyfile(server=SERVER, client=CLIENT)
        pytester.makeconftest(CONFTEST)

    def run(self, tests: str, *options: str) -> pytest.RunResult:
        """Run these tests; ``asked`` starts empty."""
        (self._pytester.path / "asked").unlink(missing_ok=True)
        self._pytester.makepyfile(test_weather=HEAD + tests)
        plugin = ("-p", "mcpproxy.pytest_plugin", "-p", "no:cacheprovider", "-W", "error", "--strict-markers")
        return self._pytester.runpytest_inprocess(*plugin, *options)

    def has_recorded(self, tests: str) -> None:
        """Have what a run of these tests, which pass, records. They are run for the first test that asks."""
        if tests not in _RECORDED:
            self.run(tests).assert_outcomes(passed=1)
            _RECORDED[tests] = {path.name: path.read_bytes() for path in self.recordings.iterdir()}
        self.recordings.mkdir(exist_ok=True)
        for name, content in _RECORDED[tests].items():
            (self.recordings / name).write_bytes(content)

    @property
    def asked(self) -> list[str]:
        """The methods that the real server received, without those of the handshake."""
        log = self._pytester.path / "asked"
        said = log.read_text().split() if log.exists() else []
        return [method for method in said if method not in ("initialize", "notifications/initialized")]

    def cities(self, name: str = "weather") -> list[str]:
        """Return the cities in the calls of a recording."""
        calls = mcpproxy.open_trace(self.recordings / f"{name}.jsonl").calls("tools/call")
        return [call.params["arguments"]["city"] for call in calls]
