"""``mcpproxy pin``: approve the tools of a server as they are now.

The definitions of the tools and the server's instructions (the pins) are written to a file that people review
and keep. ``check --pins`` reports where recordings differ from that file. If the file exists, ``pin`` prints
the differences, and changes the file only with ``--update``.
"""

import argparse
import os
import tempfile
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from mcpproxy.base.style import count
from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.base.visible import visible
from mcpproxy.cli import async_main, find_traces, output, upstream_options
from mcpproxy.cli.arguments import Parser, UsageError, seconds
from mcpproxy.cli.option_table import split_command
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.checks.opt_in.pins import Pins
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports import pin_file
from mcpproxy.read.reports.pin_file import CollectedPins
from mcpproxy.record.recorder.secret_arguments import shown

if TYPE_CHECKING:
    from mcpproxy.peers.validate import Client

DESCRIPTION: Final = """\
Write the definitions of a server's tools, and its instructions, to a file: from recordings, or from the
server itself. check --pins then reports what differs from the file."""

EPILOG: Final = """\
exit codes: 0 pinned, or nothing has changed, 1 something has changed and --update was not given,
            2 there is nothing to pin, or recordings contradict each other

  mcpproxy pin -o pins.json -- python server.py
  mcpproxy pin session.jsonl other.jsonl -o pins.json
  mcpproxy pin http://127.0.0.1:3000/mcp -o pins.json --update
  mcpproxy check recordings/ --pins pins.json"""

_STDOUT: Final = "-"
"""The name that stands for stdout instead of a file."""

_MAX_LISTINGS: Final = 5
"""How often the tools are listed if the server announces a change each time."""


def run(argv: list[str]) -> int:
    """Pin the tools of a server; return 1 if they differ from the existing pins and are not updated.

    Raises:
        McpProxyError: the arguments are not valid, a recording shows no tools, recordings contradict each
            other, the server fails, or the file cannot be read or written.
    """
    options, command = _arguments(argv)
    source, collected = _collect_pins(options, command)
    if collected.contradictions:
        for contradiction in collected.contradictions:
            tell(contradiction)
        raise UsageError(source, "the lists contradict each other", "pin from a recording with one of them")
    for server in sorted(collected.partial):
        listing = f"the list of {visible(server)}" if server else "the list"
        tell(f"{source}: {listing} may lack tools: a page is missing, or the list changed meanwhile")
    return _write_pins(options.output, collected, update=options.update)


def _write_pins(path: str, collected: CollectedPins, *, update: bool) -> int:
    """Write the pins to ``path``, and return the exit code.

    If the file exists, print how its pins differ, and replace them only with ``update``.
    """
    new_pins: Pins = collected.pins
    if path == _STDOUT:
        emit(pin_file.dumps(new_pins).splitlines())
        return 0
    if not os.path.lexists(path):
        _save_pins(path, new_pins)
        emit([f"{path}: {_summary(new_pins)}"])
        return 0
    old_pins, partial = pin_file.read(path), frozenset(collected.partial)
    differences = pin_file.differences(old_pins, new_pins, partial)
    emit(differences)
    if not differences:
        emit([f"{path}: nothing has changed, {_summary(new_pins)}"])
        return 0
    if not update:
        emit([f"{path}: {count(len(differences), 'change')}, not approved; approve with --update"])
        return 1
    _save_pins(path, pin_file.updated(old_pins, new_pins, partial))
    emit([f"{path}: {count(len(differences), 'change')} approved, {_summary(new_pins)}"])
    return 0


def _summary(pins: Pins) -> str:
    number = sum(len(approved.tools) for approved in pins.values())
    return f"{count(number, 'tool')} of {count(len(pins), 'server')} pinned"


def _save_pins(path: str, pins: Pins) -> None:
    output.write(path, pin_file.dumps(pins).splitlines())


def _collect_pins(options: argparse.Namespace, command: list[str]) -> tuple[str, CollectedPins]:
    """Return the name of the source for messages, and the pins from it: from recordings, or from a server.

    Raises:
        McpProxyError: the arguments do not fit together, a recording cannot be read, or the server fails.
    """
    sources: list[str] = options.paths
    urls = [name for name in sources if name.startswith(("http://", "https://"))]
    recordings = set(sources) - set(urls)
    if bool(command) + bool(urls) + bool(recordings) != 1 or len(urls) > 1:
        raise UsageError(
            "pin",
            "recordings, -- COMMAND or one URL is needed",
            "mcpproxy pin -o pins.json -- python server.py",
        )
    if options.header and not urls:
        raise UsageError("--header", "goes together with a URL", "leave it out")
    upstream = upstream_options.from_namespace(options, urls[0] if urls else "")
    if command or urls:
        return _collect_live_pins(command, urls[0] if urls else "", options, upstream)
    traces = find_traces.every(sources)
    collected = CollectedPins()
    for path in traces:
        collected.add(pin_file.collect_pins(open_trace(path)), path)
    return (traces[0] if len(traces) == 1 else "pin"), collected


def _collect_live_pins(
    command: list[str], url: str, options: argparse.Namespace, upstream: UpstreamSettings
) -> tuple[str, CollectedPins]:
    """Record the server while it lists its tools; return its name for messages, and the pins that it shows.

    Without ``--revision``, try the newest revision with a handshake; if the server refuses that, try the
    newest without.

    Raises:
        McpProxyError: the server fails, or declares no tools.
    """
    name = shown((url,) if url else command)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-") as folder:
        revisions = (options.revision,) if options.revision else (STATEFUL[-1], STATELESS[-1])
        faults: list[McpProxyError] = []
        for revision in revisions:
            trace = os.path.join(folder, f"{revision}.jsonl")
            client = _client(command, url, revision, trace, options, upstream)
            try:
                server, is_complete = async_main.run_until_terminated(_list_tools(client))
            except McpProxyError as fault:
                faults.append(fault)
                if not _is_refusal(fault):
                    break
            else:
                collected = pin_file.collect_pins(open_trace(trace))
                if is_complete and server is not None:
                    collected.partial.discard(server)
                return name, collected
    if url and (why := _why_no_server(url, faults[0], upstream)):
        raise McpProxyError(why)
    reason = "; without a handshake ".join(map(str, faults))
    raise McpProxyError(reason if reason.startswith(url or command[0]) else f"{name}: {reason}")


def _why_no_server(url: str, fault: McpProxyError, upstream: UpstreamSettings) -> str:
    """Return why there is no MCP server at ``url``; empty if ``fault`` has another cause."""
    from mcpproxy.peers.validate.errors import HttpStatusError
    from mcpproxy.peers.validate.transports.reachability import why_no_server

    if not isinstance(fault, HttpStatusError):
        return ""
    return async_main.run_until_terminated(why_no_server(url, fault, upstream))


def _is_refusal(fault: McpProxyError) -> bool:
    """Whether ``fault`` may mean that the server supports another revision than the requested one."""
    from mcpproxy.peers.validate.errors import HttpStatusError, RefusedError, UnsupportedVersionError

    return isinstance(fault, HttpStatusError | RefusedError | UnsupportedVersionError)


def _client(
    command: list[str],
    url: str,
    revision: str,
    trace: str,
    options: argparse.Namespace,
    upstream: UpstreamSettings,
) -> "AbstractAsyncContextManager[Client]":
    """Return a client of the server; it records its session in ``trace``."""
    from mcpproxy.peers.validate import connected_http, connected_stdio

    if url:
        return connected_http(
            url,
            headers=options.header,
            upstream=upstream,
            revision=revision,
            timeout_s=options.timeout,
            trace=trace,
        )
    return connected_stdio(command, revision=revision, timeout_s=options.timeout, trace=trace)


async def _list_tools(connection: "AbstractAsyncContextManager[Client]") -> tuple[str | None, bool]:
    """List the tools, and list them again if they have changed meanwhile. The client records the messages.

    Return the name that the server gave in the handshake, empty if it gave none, ``None`` without a
    handshake; and whether the last list is complete.

    Raises:
        McpProxyError: the server fails, or declares no tools.
    """
    async with connection as client:
        await client.connect()
        capabilities = client.server.get("capabilities")
        if not isinstance(capabilities, dict) or capabilities.get("tools") is None:
            raise McpProxyError("the server declares no tools; there is nothing to pin")
        is_complete = False
        for _ in range(_MAX_LISTINGS):
            changes_before = _announced_changes(client)
            await client.list("tools/list")
            if _announced_changes(client) == changes_before:
                is_complete = True
                break
        if client.is_stateless:
            return None, is_complete
        name = member(client.server, "serverInfo", "name")
        return (name if isinstance(name, str) else ""), is_complete


def _announced_changes(client: "Client") -> int:
    """Return how often the server has announced that its list of tools has changed."""
    return sum(b"notifications/tools/list_changed" in frame.raw for frame in client.unsolicited)


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    argv, command = split_command(argv)
    parser = Parser("pin", DESCRIPTION, EPILOG)
    parser.usage = "mcpproxy pin -o FILE [--update] [OPTION...] (TRACE... | -- COMMAND [ARG...] | URL)"
    add = parser.add_argument
    add("paths", nargs="*", metavar="TRACE|DIR|URL", help="recordings, folders of them, or an MCP endpoint")
    add("-o", "--output", metavar="FILE", required=True, help="the file of pins; - prints it")
    add("--update", action="store_true", help="approve the changes")
    add(
        "--revision",
        choices=REVISIONS,
        help="the protocol revision to speak; without it one that the server supports",
    )
    add(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=10.0,
        help="how long an answer may take (default: 10)",
    )
    upstream_options.add_options(parser)
    return parser.parse_args(argv), command
