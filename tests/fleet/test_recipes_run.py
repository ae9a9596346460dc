"""The recipes are run without a cluster: their command lines as processes, their volumes as folders.

The test does what a kubelet does. Sidecars start first, in order; the server gets SIGTERM first, and the
sidecars after it in the opposite order. Where this machine can do so, containers have a read-only file
system.
"""

import json
import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.base.ready import is_readable
from mcpproxy.send.fleet.judge.corpus import open_corpus
from mcpproxy.send.fleet.judge.shard import Shard
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
from tests.otel.receiver import Receiver, receiving
from tests.peers.fixtures import Peers
from tests.peers.object_store import BUCKET, ObjectStore
from tests.peers.ports import free_ports
from tests.peers.processes import DEADLINE_S, Process, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="containers of the recipes run on Linux")

MCPPROXY: Final = [sys.executable, "-m", "mcpproxy"]
PORTS: Final = (3000, 8765, 9464)


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


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
        end(self.running[name], signal.SIGKILL)
        specs = [*self._spec["initContainers"], *self._spec["containers"]]
        index = [each["name"] for each in specs].index(name)
        self.start_one(self.containers[index], specs[index])

    def stop(self) -> dict[str, int]:
        """End the pod; return the exit codes in the order of the ends."""
        names = [each["name"] for each in self._spec["containers"]]
        names += [each["name"] for each in reversed(self._spec["initContainers"])]
        return {name: end(self.running[name], signal.SIGTERM) for name in names}

    def kill(self) -> None:
        for process in self.running.values():
            process.kill()


def end(process: Process, number: int) -> int:
    """End the first process of a container by a signal. Then all others are killed, as the kernel does."""
    with ExitStack() as handles:
        inside: list[int] = []
        for pid in descendants(process.pid):
            with suppress(ProcessLookupError):
                inside.append(handle := os.pidfd_open(pid))
                handles.callback(os.close, handle)
        code = process.stop(number)
        for handle in inside:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            assert is_readable(handle, DEADLINE_S)
    return code


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            yield child
            yield from descendants(child)


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


def await_bucket(node: Node, process: Process) -> None:
    """Wait until the store has its bucket."""
    deadline = time.monotonic() + DEADLINE_S
    while "nothing was shipped" not in mcpproxy(node, "verify", f"s3://{BUCKET}"):  # otherwise it says why
        process.assert_running()
        assert time.monotonic() < deadline, process.said


def port_of(collector: Receiver) -> dict[int, int]:
    return {4318: int(collector.url.rpartition(":")[2])}


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
    """Run a command of mcpproxy, whose exit code is its answer, and return its stdout."""
    variables = {**node.variables, "XDG_CACHE_HOME": str(node.folder / "cache")}
    return run([*MCPPROXY, *arguments], variables, (0, 1, 2))


def assert_verified(node: Node, url: str) -> None:
    """In the store nothing is missing, changed or doubled."""
    assert "all there and unchanged" in mcpproxy(node, "verify", url)


def judged(node: Node, url: str) -> list[Object]:
    """Return what check says of each recording in a store."""
    return json.loads(mcpproxy(node, "check", url, "--format", "json"))["traces"]


def test_the_pod_records_and_ships_to_the_last_byte(
    peers: Peers, object_store: ObjectStore, collector: Receiver, tmp_path: Path
) -> None:
    url = f"s3://{BUCKET}/kubernetes"
    config = {
        **manifest("ConfigMap", "mcpproxy-store")["data"],
        "STORE_URL": url,
        "FINDINGS_URL": f"{url}-findings",
    }
    ports = {**dict(zip(PORTS, free_ports(len(PORTS)), strict=True)), **port_of(collector)}
    node = Node(tmp_path, images(peers), ports, object_store.variables, {"mcpproxy-store": config})
    pod = Pod(manifest("Deployment", "mcp-server")["spec"]["template"], node)
    try:
        pod.start()
        await_port(ports[3000], pod.running["server"])
        converse(peers, node)
        collector.await_span("tools/call echo")
        pod.restart("mcpproxy")
        converse(peers, node)
        codes = pod.stop()
    finally:
        pod.kill()
    assert list(codes) == ["server", "mcpproxy", "ship"]
    assert (codes["mcpproxy"], codes["ship"]) == (0, 0), {name: pod.running[name].said for name in codes}

    assert_verified(node, url)
    assert not [each.name for each in node.volume("recordings").iterdir() if ".jsonl" in each.name]
    first, second = sorted(judged(node, url), key=lambda each: Path(each["path"]).name)  # by time
    assert (first["complete"], second["complete"]) == (False, True), (first, second)
    check_shards(node, url)


def check_shards(node: Node, url: str) -> None:
    """Each recording gets its result from the pod of its index, and the other pods find nothing to do."""
    job = manifest("CronJob", "mcpproxy-check")["spec"]["jobTemplate"]["spec"]
    (spec,) = job["template"]["spec"]["containers"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in node.variables.items():
            patch.setenv(name, value)
        corpus = [each.name for each in open_corpus(url).recordings()]
    results = 0
    for index in range(job["completions"]):
        part = Shard(index, job["completions"])
        held = [name for name in corpus if part.holds(name)]
        if not held and index:
            continue
        pod = of_pod(spec, node, {"JOB_COMPLETION_INDEX": str(index)}).start()
        assert pod.stop(0) == 0, pod.said
        said = "".join(pod.said)
        assert f"in {len(held)} trace" in said, said
        results += len(held)
    assert results == len(corpus) == 2


class ComposeProject:
    """The services of the Compose file, without those of a profile."""

    def __init__(self, file: Object, node: Node, left_out: set[str]) -> None:
        self.node: Final = node
        services: dict[str, Object] = file["services"]
        self.services: Final = {
            name: each for name, each in services.items() if "profiles" not in each and name not in left_out
        }
        self.order: Final[list[str]] = []
        for name in self.services:
            self._place(name)
        self.running: Final[dict[str, Process]] = {}

    def _place(self, name: str) -> None:
        """Put a service behind those that it depends on."""
        for before in self.services[name].get("depends_on", ()):
            if before in self.services:
                self._place(before)
        if name not in self.order:
            self.order.append(name)

    def start(self, name: str) -> None:
        self.running[name] = of_service(name, self.services[name], self.node).start()

    def stop(self, name: str) -> int:
        """Stop a service."""
        return end(self.running[name], signal.SIGTERM)

    def kill(self) -> None:
        for process in self.running.values():
            process.kill()


def test_the_compose_file_records_and_ships_to_the_last_byte(
    peers: Peers, collector: Receiver, tmp_path: Path
) -> None:
    (file,) = documents(COMPOSE)
    parts = ("s3", "master", "volume", "filer")
    weed = free_ports(2 * len(parts))
    ports = {**dict(zip(PORTS, free_ports(len(PORTS)), strict=True)), 8333: weed[0], **port_of(collector)}
    # The last flag counts: here the parts of the store need ports of their own.
    store: Object = file["services"]["store"]
    store["command"] += [f"-{part}.port={port}" for part, port in zip(parts, weed, strict=False)]
    store["command"] += [f"-{part}.port.grpc={port}" for part, port in zip(parts, weed[4:], strict=True)]
    store["command"] += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    programs = {**images(peers), "chrislusf/seaweedfs": [str(peers.weed())]}
    variables = {key: str(value) for key, value in file["services"]["ship"]["environment"].items()}
    variables["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{weed[0]}"
    node = Node(tmp_path, programs, ports, variables)
    project = ComposeProject(file, node, {"otel-collector"})
    assert project.order.index("store") < project.order.index("ship") < project.order.index("mcpproxy")
    try:
        for name in project.order:
            project.start(name)
            if name == "store":
                await_bucket(node, project.running[name])  # until then ship would be started again
        await_port(ports[3000], project.running["server"])
        await_port(ports[8765], project.running["mcpproxy"])
        converse(peers, node)
        collector.await_span("tools/call echo")
        stopped = [name for name in reversed(project.order) if name != "store"]
        codes = {name: project.stop(name) for name in stopped}
        assert (codes["mcpproxy"], codes["ship"]) == (0, 0), project.running["ship"].said
        assert_verified(node, f"s3://{BUCKET}/fleet")
        (only,) = judged(node, f"s3://{BUCKET}/fleet")
        assert only["complete"]
        assert not [each.name for each in node.volume("recordings").iterdir() if ".jsonl" in each.name]
        checked = of_service("check", file["services"]["check"], node).start()
        assert checked.stop(0) == 0, checked.said
        assert "in 1 trace" in "".join(checked.said)
    finally:
        project.kill()
