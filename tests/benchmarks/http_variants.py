"""What stands between client and server over HTTP: nothing, the proxies of others, mcpproxy."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.options import Options
from tests.benchmarks.sessions import CLOSE, DEADLINE_S, ROOT, WrongBytesError, wait_until_recorded
from tests.peers import install
from tests.peers.ports import free_port

NGINX: Final = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

TRACE: Final = "trace.jsonl"
LISTENING: Final = re.compile(r"listening on http://127\.0\.0\.1:(\d+)[/ ]")


@dataclass(frozen=True)
class Between:
    """Where the client connects, and the processes there by what they do."""

    port: int
    pids: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Variant:
    """One way to connect the client to the server; ``start`` is given its port and a folder to write to.

    A ``slow`` one is asked for fewer things and for a tenth of the calls.
    """

    name: str
    start: Callable[[int, Path], AbstractContextManager[Between]]
    records: bool = False
    slow: bool = False


@contextmanager
def direct(port: int, folder: Path) -> Generator[Between, None, None]:
    yield Between(port)


NGINX_CONF: Final = """
daemon off;
{user}
worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections {files}; }}
http {{
    access_log off;
    client_body_temp_path {folder}/client;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 0;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    upstream server {{
        server 127.0.0.1:{upstream};
        keepalive 256;
        keepalive_timeout 1h;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://server;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_read_timeout 1h;
        }}
    }}
}}
"""


@contextmanager
def nginx(upstream: int, folder: Path) -> Generator[Between, None, None]:
    """nginx as it is set before an MCP server: nothing buffered, upstream kept alive. One worker, no log."""
    assert NGINX is not None
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    conf = folder / "nginx.conf"
    conf.write_text(
        NGINX_CONF.format(user=user, files=8192, folder=folder, upstream=upstream, port=port),
        encoding="utf-8",
    )
    process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(conf)], stderr=subprocess.PIPE)
    try:
        _await_listener(process, port)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        pids = children.read_text(encoding="ascii").split() if children.exists() else []
        yield Between(port, {"relay": int(pids[0])} if pids else {})
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def mitmdump(python: str, upstream: int, folder: Path) -> Generator[Between, None, None]:
    """mitmproxy without a screen, as a reverse proxy that prints nothing and keeps nothing."""
    port = free_port()
    command = [python, "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()", "-q"]
    command += ["--mode", f"reverse:http://127.0.0.1:{upstream}", "--listen-host", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "-p", str(port), "--set", f"confdir={folder / 'mitmproxy'}"], stderr=subprocess.PIPE
    )
    try:
        _await_listener(process, port)
        yield Between(port, {"relay": process.pid} if processes.AVAILABLE else {})
    finally:
        process.terminate()
        process.communicate()


def _await_listener(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)  # it says nothing when it is ready
    process.kill()
    said = process.communicate()[1].decode(errors="replace").strip()
    raise RuntimeError(f"{process.args} did not start: {said}")


@contextmanager
def mcpproxy(
    command: Sequence[str], upstream: int, folder: Path, path: str = "/mcp"
) -> Generator[Between, None, None]:
    """The mcpproxy that ``command`` starts before a URL, recording and judging.

    On leaving, the trace is complete.

    Raises:
        WrongBytesError: it does not start, fails, or does not complete the trace.
    """
    trace = folder / TRACE
    options = (f"http://127.0.0.1:{upstream}{path}", "--listen", "127.0.0.1:0")
    process = subprocess.Popen([*command, *options, "--trace", str(trace)], cwd=ROOT, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        said = ""
        while (where := LISTENING.search(said)) is None and (line := process.stderr.readline()):
            said += line.decode()
        if where is None:
            process.kill()
            raise WrongBytesError(f"mcpproxy does not start: {said}{process.communicate()[1].decode()}")
        found = processes.find(process.pid)
        yield Between(
            int(where[1]), {"relay": found.relay, "recorder": found.recorder} if found is not None else {}
        )
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1].decode(errors="replace")
        if process.returncode != 0:
            raise WrongBytesError(f"mcpproxy exited with status {process.returncode}: {said}")
        wait_until_recorded(trace, CLOSE)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


DIRECT: Final = Variant("direct", direct)
MCPPROXY: Final = Variant(
    "mcpproxy", partial(mcpproxy, (sys.executable, "-m", "mcpproxy", "http")), records=True
)
VARIANTS: Final = (DIRECT, *([Variant("nginx", nginx)] if NGINX else []), MCPPROXY)
"""What every run compares; mcpproxy is the last."""


def variants_for(options: Options) -> tuple[tuple[Variant, ...], list[str]]:
    """What is compared, mcpproxy the last, and a line for what cannot be had on this machine."""
    if options.ours or options.short:
        return VARIANTS[-1 if options.ours else 0 :], []
    try:
        python = str(install.python_with_competitor("mitmproxy"))
    except install.PeerUnavailableError as unavailable:
        return VARIANTS, [f"mitmdump has no column: {unavailable}."]
    slow = Variant("mitmdump", partial(mitmdump, python), slow=True)
    return (*VARIANTS[:-1], slow, MCPPROXY), []
