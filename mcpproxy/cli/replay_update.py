"""``--update``: record a live server while an old recording is played to it, and replace the old recording.

The server runs behind a second mcpproxy, as if a user had wrapped it. The old recording is replaced
atomically when the new recording is complete. If the new recording fails, the old recording is unchanged.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from mcpproxy.base.files import open_regular
from mcpproxy.base.own_process import own_command
from mcpproxy.base.upstream.settings import USUAL, UpstreamSettings
from mcpproxy.cli import upstream_options
from mcpproxy.cli.arguments import UsageError
from mcpproxy.errors import McpProxyError
from mcpproxy.peers.replay.recording import LoadedTrace
from mcpproxy.read.opening import await_finish, open_trace
from mcpproxy.record.trace import chain

_DEADLINE_S: Final = 30.0
"""How long the proxy may take to exit, and then the recorder to complete the trace."""
_HEADER: Final = b'{"type":"header"'
"""The beginning of a trace that mcpproxy recorded."""
_LISTENING: Final = re.compile(r"listening on (http://\S+)")


@dataclass(slots=True)
class Update:
    """The ``url`` of the server, or its ``command`` if ``url`` is empty, and the settings to reach it.

    The caller sets ``keeps`` to keep the new recording.
    """

    url: str
    command: Sequence[str]
    upstream: UpstreamSettings = USUAL
    keeps: bool = False


@contextmanager
def updating(
    recording: LoadedTrace, url: str, command: Sequence[str], upstream: UpstreamSettings, *, wanted: bool
) -> Generator[Update]:
    """Yield how to reach the server: by ``url`` with the settings ``upstream``, or by ``command``.

    If ``wanted``, the ``Update`` leads to a proxy before the server, which makes a new recording. At the end,
    the new recording replaces ``recording`` if the caller has set ``keeps``.

    Raises:
        McpProxyError: the recording cannot be replaced, or the server cannot be wrapped.
    """
    if not wanted:
        yield Update(url, command, upstream)
        return
    path = os.path.realpath(recording.path)
    if not _is_ours(path):
        raise UsageError("--update", f"{recording.path} was not recorded by mcpproxy", "import it first")
    if len(chain.files_of(path)) > 1:
        raise UsageError("--update", f"{recording.path} continues in other files", "leave --update out")
    try:
        folder = tempfile.mkdtemp(prefix=".renewed-", dir=os.path.dirname(path))
    except OSError as fault:
        raise UsageError(
            "--update", f"nothing can be written beside {recording.path} ({fault.strerror})", "copy it first"
        ) from None
    new = os.path.join(folder, "new.jsonl")
    proxy = own_command("mcpproxy")
    try:
        if url:
            proxy_command = [*proxy, "http", *upstream_options.arguments(upstream), "--trace", new]
            with _proxy_before(url, proxy_command) as proxy_url:
                update = Update(proxy_url, ())
                yield update
        else:
            update = Update("", [*proxy, "run", "--trace", new, "--quiet", "--", *command])
            yield update
        if update.keeps:
            await_finish(new, _DEADLINE_S)
            open_trace(new)  # fails if there is nothing to keep
            os.replace(new, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(path: str) -> bool:
    """Whether ``path`` is a trace of mcpproxy, not a recording of another program."""
    try:
        with open(open_regular(path), "rb") as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


@contextmanager
def _proxy_before(url: str, command: list[str]) -> Generator[str]:
    """Run a proxy before the server at ``url`` during the context. Yield the proxy's URL.

    ``command`` starts the proxy. The URL of the server and the address of the proxy are added to it.

    Raises:
        McpProxyError: the proxy ends before it listens.
    """
    command = [*command, url, "--listen", "127.0.0.1:0", "--live", "off"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        stderr_lines: list[str] = []
        for line in process.stderr:
            stderr_lines.append(line)
            if match := _LISTENING.search(line):
                yield match[1]
                break
        else:
            raise McpProxyError(
                f"{url}: {stderr_lines[-1].strip() if stderr_lines else 'cannot be recorded'}; check the URL"
            )
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_DEADLINE_S)
        process.kill()
        process.wait()
        process.stderr.close()
