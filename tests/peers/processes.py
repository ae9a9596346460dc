"""Runs HTTP servers, and the proxy before them, as processes.

Tests wait for a line of output or for the exit of a process, with a deadline.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Container, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Final

from tests.relay.hosts import until_recorded

ROOT: Final = Path(__file__).parent.parent.parent

DEADLINE_S: Final = 300

PORT: Final = re.compile(r"^port (\d+)")
GREETING: Final = re.compile(r"listening on (http://\S+)")
RECORDING: Final = re.compile(r"recording to ([^;\n]+)")


def run(command: list[str], env: Mapping[str, str] | None = None, codes: Container[int] = (0,)) -> str:
    """Run a command, check that its exit code is one of ``codes``, and return its stdout."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode in codes, done.stderr
    return done.stdout


class Process:
    """A running command. Its stdout and stderr are read as one stream, line by line, into ``said``."""

    def __init__(self, command: list[str], env: Mapping[str, str] | None = None) -> None:
        self.said: list[str] = []
        self._news: Queue[str | None] = Queue()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def expect(self, pattern: str | re.Pattern[str]) -> str:
        """Return the first group of ``pattern`` in the next line that matches it."""
        while True:
            try:
                line = self._news.get(timeout=DEADLINE_S)
            except Empty:
                line = None
            assert line is not None, f"{pattern} did not come in:\n{''.join(self.said)}"
            if found := re.search(pattern, line):
                return found[1]

    @property
    def pid(self) -> int:
        return self._process.pid

    def assert_running(self) -> None:
        code = self._process.poll()
        assert code is None, f"ended with {code}:\n{''.join(self.said)}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the process with a signal and return its exit code. After that, ``said`` is complete."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            return self._process.wait(DEADLINE_S)
        finally:
            self.kill()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(DEADLINE_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.said.append(line)
                self._news.put(line)
        self._news.put(None)


@contextmanager
def server(command: list[str], env: Mapping[str, str] | None = None) -> Generator[str]:
    """Run a server that prints ``port N`` when it is ready; yield its origin, ``http://127.0.0.1:N``."""
    process = Process(command, env)
    try:
        yield f"http://127.0.0.1:{process.expect(PORT)}"
        process.assert_running()
    except BaseException as error:
        error.add_note(f"the server said:\n{''.join(process.said[-40:])}")
        raise
    finally:
        process.kill()


class Proxy:
    """``mcpproxy http`` before a server (``URL``) or as a forward proxy (``--forward``)."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "mcpproxy", "http", "--listen", "127.0.0.1:0"]
        self._process = Process([*command, "--trace-dir", str(folder), *options])
        self.address = self._process.expect(GREETING)
        """Where clients connect: the MCP endpoint, or in forward mode the proxy itself."""
        self.trace = Path(self._process.expect(RECORDING).strip())

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    @property
    def origin(self) -> str:
        """The origin of its address, ``http://host:port``."""
        return "/".join(self.address.split("/")[:3])

    def stop(self) -> list[str]:
        """End the proxy, which completes the trace; return all that it printed."""
        code = self._process.stop()
        assert code == 0, "".join(self._process.said)
        until_recorded(self.trace)
        return self._process.said
