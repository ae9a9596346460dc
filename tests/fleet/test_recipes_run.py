"""The recipes are run without a cluster: their command lines as processes, their volumes as folders.

The test does what a kubelet does. Sidecars start first, in order; the server gets SIGTERM first, and the sidecars
after it in the opposite order. Where this machine can do so, every container has a read-only file system.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.fleet.judge.shard import Shard
from mcpproxy.fleet.manifest import Manifest
from tests.fleet.recipes import (
    COMPOSE,
    Container,
    Node,
    Object,
    documents,
    manifest,
    of_pod,
    of_service,
)
from tests.otel.receiver import Receiver
from tests.peers.fixtures import Peers
from tests.peers.object_store import ACCESS_KEY, BUCKET, SECRET_KEY, ObjectStore
from tests.peers.processes import DEADLINE_S, Process, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="containers of the recipes run on Linux")

MCPPROXY: Final = [sys.executable, "-m", "mcpproxy"]
PORTS: Final = (3000, 8765, 9464)


def free_ports(numbers: tuple[int, ...]) -> dict[int, int]:
    """Return a free port here for each port of a container."""
    with ExitStack() as sockets:
        opened = [sockets.enter_context(socket.socket()) for _ in numbers]
        for each in opened:
            each.bind(("127.0.0.1", 0))
        return dict(zip(numbers, (each.getsockname()[1] for each in opened), strict=True))


@pytest.fixture(scope="module")
def store(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    server = peers.object_store(tmp_path_factory.mktemp("object-store"))
    server.start()
    server.wait_until_ready()
    yield server
    server.kill()


class Pod:
    """The pod of the deployment."""

    def __init__(self, template: Object, node: Node) -> None:
        self._spec: Final = template["spec"]
        self.node: Final = node
        self.containers: Final = [
            of_pod(each, node) for each in (*self._spec["initContainers"], *self._spec["containers"])
        ]
        self.running: Final[dict[str, Process]] = {}

    def start(self) -> None:
        """Start the sidecars, each when the one before it has started, and then the server."""
        specs: list[Object] = [*self._spec["initContainers"], *self._spec["containers"]]
        for spec, container in zip(specs, self.containers, strict=True):
            self.start_one(container, spec)

    def start_one(self, container: Container, spec: Object) -> None:
        self.running[container.name] = process = container.start()
        if probe := spec.get("startupProbe"):
            ports = {each["name"]: each["containerPort"] for each in spec["ports"]}
            port = self.node.ports[ports[probe["httpGet"]["port"]]]
            await_answer(f"http://127.0.0.1:{port}{probe['httpGet']['path']}", process)

    def restart(self, name: str) -> None:
        """Kill all of a container, as the kernel does at the limit of its memory, and start it again."""
        self.running[name].stop(9)
        specs = [*self._spec["initContainers"], *self._spec["containers"]]
        index = [each["name"] for each in specs].index(name)
        self.start_one(self.containers[index], specs[index])

    def stop(self) -> dict[str, int]:
        """End the pod within its grace period; return the exit codes in the order of the ends."""
        main = self._spec["containers"]
        pause_s = max(
            each["lifecycle"]["preStop"]["sleep"]["seconds"] for each in main
        )  # nothing happens in it
        deadline = time.monotonic() + self._spec["terminationGracePeriodSeconds"] - pause_s
        names = [each["name"] for each in main]
        names += [each["name"] for each in reversed(self._spec["initContainers"])]
        codes = {name: self.running[name].stop() for name in names}
        assert time.monotonic() < deadline, {name: self.running[name].said for name in names}
        return codes

    def kill(self) -> None:
        for process in self.running.values():
            process.kill()


def await_answer(url: str, process: Process) -> None:
    """Wait until something answers with 200."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
                assert answer.status == 200
                return
        except OSError:
            process.assert_running()
            assert time.monotonic() < deadline, process.said
            time.sleep(0.05)  # nothing else tells that a port is open


def await_port(port: int, process: Process) -> None:
    """Wait until something listens on a port."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), DEADLINE_S).close()
            return
        except OSError:
            process.assert_running()
            assert time.monotonic() < deadline, process.said
            time.sleep(0.05)


PLAN: Final = json.dumps(
    [
        {"do": "list tools"},
        {"do": "call", "tool": "echo", "arguments": {"message": "hällo"}},
        {"do": "call", "tool": "get-sum", "arguments": {"a": 2, "b": 40}},
    ]
)


def converse(peers: Peers, node: Node) -> None:
    """A real client calls the server through the proxy."""
    url = f"http://127.0.0.1:{node.ports[8765]}/mcp"
    said = run([*peers.client("python 2", PLAN), "--", url])
    assert "Echo: h\\u00e4llo" in said or "Echo: hällo" in said
    assert "42" in said


def images(peers: Peers) -> dict[str, list[str]]:
    return {"mcpproxy": MCPPROXY, "example/mcp-server": peers.http_server("everything")}


def mcpproxy(node: Node, *arguments: str) -> str:
    return run(
        [*MCPPROXY, *arguments], {**node.variables, "XDG_CACHE_HOME": str(node.folder / "cache")}, (0, 1)
    )


def shipped(node: Node, url: str) -> list[Manifest]:
    """Return the manifests of a store in which nothing is missing, changed or doubled."""
    ran = subprocess.run(
        [*MCPPROXY, "verify", url],
        env={**node.variables, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return []


def judged(node: Node, url: str) -> list[Object]:
    """Return what check says of each recording in a store."""
    return json.loads(mcpproxy(node, "check", url, "--format", "json"))["traces"]


def test_the_pod_records_and_ships_to_the_last_byte(peers: Peers, store: ObjectStore, tmp_path: Path) -> None:
    collector = Receiver()
    url = f"s3://{BUCKET}/kubernetes"
    config = {
        **manifest("ConfigMap", "mcpproxy-store")["data"],
        "STORE_URL": url,
        "FINDINGS_URL": f"{url}-findings",
    }
    ports = {**free_ports(PORTS), 4318: int(collector.url.rpartition(":")[2])}
    node = Node(tmp_path, images(peers), ports, store.variables, {"mcpproxy-store": config})
    pod = Pod(manifest("Deployment", "mcp-server")["spec"]["template"], node)
    try:
        pod.start()
        await_port(ports[3000], pod.running["server"])
        converse(peers, node)
        pod.restart("mcpproxy")
        converse(peers, node)
        codes = pod.stop()
    finally:
        pod.kill()
    assert list(codes) == ["server", "mcpproxy", "ship"]
    assert (codes["mcpproxy"], codes["ship"]) == (0, 0), {name: pod.running[name].said for name in codes}

    shipped(node, url)
    assert not [each.name for each in node.volume("recordings").iterdir() if ".jsonl" in each.name]
    first, second = sorted(judged(node, url), key=lambda each: each["path"])
    assert (first["ending"], second["ending"]) == ("cut", "exited"), (first, second)
    assert collector.spans
    check_shards(node, url)


def check_shards(node: Node, url: str) -> None:
    """Each recording gets its result from the pod of its index, and pods of other indexes find nothing to do."""
    job = manifest("CronJob", "mcpproxy-check")["spec"]["jobTemplate"]["spec"]
    (spec,) = job["template"]["spec"]["containers"]
    corpus = [each["path"].removeprefix(f"{url}/") for each in judged(node, url)]
    results = 0
    for index in range(job["completions"]):
        held = [name for name in corpus if Shard(index, job["completions"]).holds(name)]
        if not held and index:
            continue
        pod = of_pod(spec, node, {"JOB_COMPLETION_INDEX": str(index)}).start()
        assert pod.stop(0) == 0, pod.said
        said = "".join(pod.said)
        assert f"in {len(held)} trace" in said, said
        results += len(held)
    assert results == len(corpus) == 2
