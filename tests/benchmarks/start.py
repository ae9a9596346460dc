"""What a wrapper adds to start-up and to the end: from start to the first answer, from close to exit."""

import compileall
import http.client
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.benchmarks import http_peers, http_sessions
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import (
    CLOSE,
    DEADLINE_S,
    ROOT,
    Load,
    Session,
    Variant,
    WrongBytesError,
    variants_for,
    verify,
    wait_until_recorded,
)
from tests.peers.ports import free_port

BOOT_MS: Final = (0, 30)

LOAD: Final = Load(150, 1, 1)

POLL_S: Final = 0.0002
"""Between two attempts to connect to a proxy that does not listen yet."""

SCRIPT: Final = """\
#!{python}
import sys
sys.path[0] = {root!r}
from mcpproxy.cli.main import main
if __name__ == '__main__':
    sys.exit(main())
"""
"""The command as installers write it, of this checkout: ``python -m`` takes a third longer to start."""


def run(options: Options) -> list[Section]:
    """Start and end sessions of one call, every variant in turn.

    Raises:
        WrongBytesError: a frame was lost or changed.
    """
    variants, missing = variants_for(options)
    samples, http_samples = Samples(missing), Samples()
    compileall.compile_dir(ROOT / "mcpproxy", quiet=2)  # as installers do
    with (
        tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as folder,
        http_sessions.server() as upstream,
    ):
        script = as_installed(Path(folder))
        variants = (*variants[:-1], wrapping(script))
        trace = Path(folder) / "trace.jsonl"
        for _ in range(options.rounds if options.short else 4 * options.rounds):
            for boot_ms in BOOT_MS:
                server = f"server that takes {boot_ms} ms" if boot_ms else "server that is there at once"
                for variant in variants:
                    with Session(variant, "pipe", LOAD, trace, boot_ms) as session:
                        session.go()
                        exit_us = session.close()
                    samples.add(f"start to first answer, {server}, ms", variant.name, session.start_us / 1000)
                    samples.add(f"close to exit, {server}, ms", variant.name, exit_us / 1000)
                    if variant.records:
                        wait_until_recorded(trace, CLOSE)
                        verify(trace, LOAD)
                        trace.unlink()
            start_proxy(http_samples, script, upstream, trace)
    return [
        Section("start and end", samples, [variant.name for variant in variants]),
        Section("start of `mcpproxy http`", http_samples, [variants[-1].name]),
    ]


def start_proxy(samples: Samples, script: Path, upstream: int, trace: Path) -> None:
    """Start ``mcpproxy http`` before the server on port ``upstream``, connect as soon as it listens, and ask.

    Raises:
        WrongBytesError: it does not listen, or the answer is another.
    """
    port = free_port()
    command = [str(script), "http", f"http://127.0.0.1:{upstream}/mcp", "--listen", f"127.0.0.1:{port}"]
    began_s = time.monotonic()
    process = subprocess.Popen([*command, "--trace", str(trace)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        while True:
            try:
                client.connect()
                break
            except ConnectionRefusedError:
                if process.poll() is not None or time.monotonic() > began_s + DEADLINE_S:
                    raise WrongBytesError("mcpproxy http does not listen") from None
                time.sleep(POLL_S)
        connected_s = time.monotonic()
        client.request("POST", "/mcp", http_peers.INITIALIZE, {"Content-Type": "application/json"})
        answer = client.getresponse().read()
        answered_s = time.monotonic()
        client.close()
        process.send_signal(signal.SIGTERM)
        if answer != http_peers.INITIALIZE_RESULT or process.wait(DEADLINE_S) != 0:
            raise WrongBytesError(f"mcpproxy http: {answer!r}, then exit status {process.returncode}")
    finally:
        process.kill()
        process.wait()
    samples.add("until a client connects, ms", "mcpproxy", (connected_s - began_s) * 1000)
    samples.add("until its first answer, ms", "mcpproxy", (answered_s - began_s) * 1000)
    wait_until_recorded(trace, CLOSE)
    trace.unlink()


def as_installed(folder: Path) -> Path:
    """A script in ``folder`` that starts mcpproxy."""
    script = folder / "mcpproxy"
    script.write_text(SCRIPT.format(python=sys.executable, root=str(ROOT)), encoding="utf-8")
    script.chmod(0o755)
    return script


def wrapping(script: Path) -> Variant:
    """mcpproxy, started by ``script``."""
    return Variant(
        "mcpproxy",
        lambda command, trace: [str(script), "--trace", str(trace), "--", *command],
        records=True,
    )
