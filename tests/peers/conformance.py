"""The official conformance suite, directly and through the proxy: what passes directly must pass through it.

``python -m tests.peers.conformance`` runs every scenario of ``REVISIONS`` both ways and prints the table. A
server under test gets a reverse proxy before it. A client under test is wrapped: the suite starts ``python -m
tests.peers.conformance through MODE FOLDER CLIENT... URL``, which puts a proxy between the two, reverse or,
for ``auth/*``, forward: OAuth clients check the name of the server they use.

``python -m tests.peers.conformance bridge`` does the same with ``mcpproxy bridge``: a server under test
speaks stdio behind it, and a client under test speaks stdio before it. ``auth/*`` is left out: OAuth is not
the bridge's.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeVar, cast

from tests.bridge.ends import Bridge, bridge
from tests.peers import install
from tests.peers.fixtures import HERE
from tests.peers.processes import DEADLINE_S, Proxy, run, server

REVISIONS: Final = ("2025-11-25", "2026-07-28")

OUT_OF_TIME: Final = re.compile(r"failed completely|timed? ?out|abort", re.IGNORECASE)
"""What the suite says of a check whose answer came after its own two to ten seconds, as on a busy machine."""

AT_ONCE: Final = 8
"""How many scenarios a process of the suite runs, one after the other."""

T = TypeVar("T")

Side = Literal["server", "client"]

CheckFunction = tuple[str, str]
"""Scenario and id of a check."""


@dataclass
class Result:
    """The result of a run: for each check, whether it passed every time."""

    held: dict[CheckFunction, bool] = field(default_factory=dict[CheckFunction, bool])

    def passed(self, scenario: str) -> int:
        """Return how many checks of this scenario passed."""
        return sum(held for (one, _), held in self.held.items() if one == scenario)

    def total(self, scenario: str) -> int:
        """Return how many checks this scenario made."""
        return sum(one == scenario for one, _ in self.held)

    def lost(self, through: "Result") -> list[CheckFunction]:
        """Return the checks that passed here and did not pass in ``through``."""
        return [check for check, held in self.held.items() if held and not through.held.get(check)]


@dataclass(frozen=True)
class Suite:
    """The command of the suite, and the Python interpreter that has the SDK for our peers."""

    command: list[str]
    python: str

    def scenarios(self, side: Side, revision: str) -> list[str]:
        """Return the scenarios of a revision for servers or for clients, optional ones last."""
        found: list[str] = []
        heading = ""
        for line in run([*self.command, "list", "--requirements", revision]).splitlines():
            name, _, role = line.strip().removeprefix("- ").partition(" [")
            if not line.startswith(" "):
                heading = line.split(" ")[0].lower()
            elif line.strip().startswith("- ") and side == (role.rstrip("]") or heading):
                found.append(name)
        return found

    def of_server(self, url: str, revision: str, scenarios: Iterable[str]) -> Result:
        """Test the server at ``url``; the suite is the client."""
        asked = ["server", "--url", url, "--spec-version", revision, "--scenario"]
        return self._run({scenario: [*asked, scenario] for scenario in scenarios})

    def of_client(
        self, through: Path | None, revision: str, scenarios: Iterable[str], bridge: Sequence[str] = ()
    ) -> Result:
        """Test our client; the suite is the server. ``through``: the folder for the traces of a proxy.

        With the command of a ``bridge`` the client speaks stdio with it.
        """
        asked: dict[str, list[str]] = {}
        client = [self.python, str(HERE / "conformance_client.py"), *bridge]
        for scenario in scenarios:
            command = client
            if through is not None:
                mode = "forward" if scenario.startswith("auth/") else "reverse"
                wrapper = [sys.executable, "-m", "tests.peers.conformance", "through", mode, str(through)]
                command = [*wrapper, *client]
            started = ["client", "--command", shlex.join(command), "--scenario", scenario]
            asked[scenario] = [*started, "--spec-version", revision]
        return self._run(asked)

    def _run(self, asked: Mapping[str, list[str]]) -> Result:
        """Run scenarios, each with the arguments of the suite. What ran out of time is run once more."""
        checks = self._checks(asked)
        late = [
            scenario
            for scenario, seen in checks.items()
            if any(c["status"] == "FAILURE" and OUT_OF_TIME.search(c.get("errorMessage", "")) for c in seen)
        ]
        checks |= self._checks({scenario: asked[scenario] for scenario in late})
        result = Result()
        for scenario, seen in checks.items():
            for check in seen:
                # Other states are remarks and checks that did not apply.
                if check["status"] in ("SUCCESS", "FAILURE"):
                    key = (scenario, check["id"])
                    result.held[key] = result.held.get(key, True) and check["status"] == "SUCCESS"
        return result

    def _checks(self, asked: Mapping[str, list[str]]) -> dict[str, list[dict[str, str]]]:
        """Run scenarios, a few by one process; return what the suite says of each of its checks."""
        node, index = self.command
        checks: dict[str, list[dict[str, str]]] = {}
        for first in range(0, len(asked), AT_ONCE):
            part = list(asked)[first : first + AT_ONCE]
            with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
                folders = {scenario: Path(folder, str(number)) for number, scenario in enumerate(part)}
                runs = [[*asked[one], "--force", "-o", str(folders[one])] for one in part]
                # Exit code 1: a check failed, which the caller judges.
                said = run([node, str(HERE / "conformance_runs.mjs"), index, json.dumps(runs)], codes=(0, 1))
                for scenario, reported in folders.items():
                    reports = list(reported.rglob("checks.json"))
                    assert len(reports) == 1, f"{scenario}: {said}"
                    seen = json.loads(reports[0].read_text(encoding="utf-8"))
                    checks[scenario] = cast("list[dict[str, str]]", seen)
        return checks


def lost(
    scenarios: Mapping[str, int], through: Result, directly: Callable[[list[str]], Result]
) -> list[CheckFunction]:
    """Return the checks that pass directly and did not pass in ``through``.

    Args:
        scenarios: how many checks of each pass directly, which are all that the suite makes of our peers.
            Where as many passed, nothing can be lost; the others are run ``directly``, too.
    """
    doubtful = [
        name for name, count in scenarios.items() if not through.passed(name) == through.total(name) == count
    ]
    if not doubtful:
        return []
    direct = directly(doubtful)
    assert [name for name in doubtful if not direct.passed(name)] == []
    return direct.lost(through)


def example_server(python: str) -> list[str]:
    """Return the command of the server that has the tools, resources and prompts of the suite."""
    return [python, str(HERE / "conformance_server.py")]


def through(mode: str, folder: Path, command: list[str]) -> int:
    """Run a client, whose last argument is the server's URL, through the proxy; return its exit code."""
    *client, url = command
    env = dict(os.environ)
    options = ["--forward"] if mode == "forward" else [url]
    with Proxy(folder, *options) as proxy:
        if mode == "forward":
            env |= {"HTTP_PROXY": proxy.address, "http_proxy": proxy.address, "NO_PROXY": "", "no_proxy": ""}
        else:
            url = proxy.address
        code = subprocess.run([*client, url], env=env, timeout=DEADLINE_S, check=False).returncode
        proxy.stop()
    return code


def table(suite: Suite, side: Side, revision: str, peer: str, *, through_bridge: bool) -> Iterator[str]:
    """Run every scenario both ways; yield the lines of a section with a Markdown table."""
    scenarios = suite.scenarios(side, revision)
    if through_bridge and side == "client":
        scenarios = [scenario for scenario in scenarios if not scenario.startswith("auth/")]
    with tempfile.TemporaryDirectory(prefix="traces-") as folder:
        traces = Path(folder)
        if side == "server":
            command = everything("streamableHttp")
            on_stdio = everything("stdio")
            if peer != "server-everything":
                command = example_server(suite.python)
                on_stdio = [*command, "stdio"]
            with server(command, {"PORT": "0"}) as origin:
                before = _bridge(traces, on_stdio) if through_bridge else _proxy(traces, f"{origin}/mcp")
                with before as url:
                    urls = f"{origin}/mcp", url
                    direct, proxied = _both(lambda url: suite.of_server(url, revision, scenarios), urls)
        elif through_bridge:
            bridges = (), tuple(bridge(traces))
            direct, proxied = _both(lambda one: suite.of_client(None, revision, scenarios, one), bridges)
        else:
            direct, proxied = _both(lambda one: suite.of_client(one, revision, scenarios), (None, traces))
    lost = direct.lost(proxied)
    held = sum(direct.held.values())
    how = "bridge" if through_bridge else "proxy"
    yield f"### {side}, {revision}: {peer}"
    yield ""
    yield f"{held} checks pass direct, {held - len(lost)} of them through the {how}."
    yield ""
    yield f"| scenario | direct | {how} | lost |"
    yield "| --- | --- | --- | --- |"
    for scenario in scenarios:
        counts = [f"{way.passed(scenario)} of {way.total(scenario)}" for way in (direct, proxied)]
        missing = ", ".join(check for one, check in lost if one == scenario)
        yield f"| {scenario} | {counts[0]} | {counts[1]} | {missing} |"
    yield ""


def _both(test: Callable[[T], Result], ways: tuple[T, T]) -> tuple[Result, Result]:
    """Test directly and through something, at the same time."""
    with ThreadPoolExecutor(2) as pool:
        direct, proxied = pool.map(test, ways)
    return direct, proxied


@contextmanager
def _proxy(traces: Path, url: str) -> Generator[str]:
    with Proxy(traces, url) as proxy:
        yield proxy.address
        proxy.stop()


@contextmanager
def _bridge(traces: Path, on_stdio: list[str]) -> Generator[str]:
    """A bridge before the stdio form of a server, which closes streams as its form over HTTP does."""
    with Bridge(traces, "--poll-after", "0", command=on_stdio) as before:
        yield before.url
        before.stop()


def everything(mode: str) -> list[str]:
    """Return the command of the reference server, which prints its port if it has one."""
    script = install.node_modules() / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    return ["node", "--import", str(HERE / "say_port.mjs"), str(script), mode]


def main(argv: list[str]) -> int:
    """Print the whole table; with ``through``, run one client for the suite."""
    if argv[:1] == ["through"]:
        _, mode, folder, *command = argv
        return through(mode, Path(folder), command)
    parser = argparse.ArgumentParser(prog="python -m tests.peers.conformance", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("proxy", "bridge"), default="proxy")
    through_bridge = parser.parse_args(argv).what == "bridge"
    suite = Suite(install.conformance_suite(), str(install.python_with_sdk(2)))
    runs: list[tuple[Side, str, str]] = [
        ("server", "2025-11-25", "server-everything"),
        *(("server", revision, "Python SDK 2.x") for revision in REVISIONS),
        *(("client", revision, "Python SDK 2.x") for revision in REVISIONS),
    ]
    for side, revision, peer in runs:
        for line in table(suite, side, revision, peer, through_bridge=through_bridge):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
