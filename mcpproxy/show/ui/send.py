"""Sends a call again to the server of its recording, in a session of its own that is recorded.

The client of ``mcpproxy validate`` opens the new session, in the revision of the recorded session if that is
known. Nothing is sent before the user asks for it. A tool that does not say that it only reads needs a
confirmation, and so does the command or the URL of a recording that somebody else may have written.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mcpproxy.base import paths
from mcpproxy.base.files import is_own_below
from mcpproxy.base.upstream.settings import USUAL, UpstreamSettings
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.masked_values import MARK
from mcpproxy.judge.session.outcomes import Kind
from mcpproxy.peers.validate import connected_http, connected_stdio
from mcpproxy.protocol.jsonrpc import ABSENT, JSON
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.mirrors import Mirrors, read_mirrors
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.trace.records import Header

_TIMEOUT_S: Final = 60.0
"""How long the server may take to answer."""
_AGAIN: Final = " again"
"""The end of the label of a session in which a call is sent again."""


class NotSentError(McpProxyError):
    """The call was not sent, or was not answered."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call that can be sent again: its server, its method, and facts for the confirmation by the user.

    ``is_own`` says that the recording is in the state folder and only this user can have written it,
    ``reads_only`` that the call is not of a tool, or of one that says that it only reads. ``mirrors`` maps
    the name of the tool to the arguments that its calls repeat in headers over HTTP.
    """

    header: Header
    revision: str
    method: str
    is_own: bool
    reads_only: bool
    mirrors: Mapping[str, Mirrors]


@dataclass(frozen=True, slots=True)
class SentAnswer:
    """The answer to a call that was sent again.

    ``text`` is the answer as it came. ``path`` is the recording of the new session, ``call`` the row of the
    call in it, and ``took`` the time until the answer came, such as ``12 ms``.
    """

    path: str
    call: int
    text: str
    took: str


def is_own(path: str) -> bool:
    """Whether the recording at ``path`` is in the state folder, and only this user can have written it.

    Nothing that the recording itself says is taken into account.
    """
    return is_own_below(path, paths.state_dir())


def recorded_call(view: View, number: int) -> RecordedCall:
    """Return the call ``number`` of a recording, to send it again.

    Raises:
        NotSentError: the call is not a request of the client.
        IndexError: there is no such call.
    """
    call = view.call(number)
    if call.sender != "client" or call.kind is not Kind.REQUEST:
        raise NotSentError(f"call {number} is not a request of the client")
    tool = next((tool for tool in view.tools.all() if tool.name == call.target and tool.listed), None)
    definition = tool.definition if tool else None
    reads_only = member(definition, "annotations", "readOnlyHint") is True
    return RecordedCall(
        view.header,
        view.sessions[call.session].revision,
        call.method,
        is_own(view.path),
        reads_only or call.method != "tools/call",
        {tool.name: read_mirrors(member(definition, "inputSchema"))} if tool else {},
    )


def refusal(header: Header) -> str:
    """Return why calls of a recording cannot be sent again; empty if they can."""
    if header.imported:
        return "the recording was imported, so its server is not known"
    if header.transport == "http":
        return "" if header.upstream else "a recording in forward mode can have several servers"
    if not header.command:
        return "the recording does not say how its server was started"
    if header.cwd and not os.path.isdir(header.cwd):
        return f"the folder that the server ran in is not there: {header.cwd}"
    if any(MARK in word for word in header.command):
        return "secrets in the command of the server are masked in the recording"
    return ""


def _refuse_unconfirmed(recorded: RecordedCall) -> None:
    """Raise a ``NotSentError`` if the call needs a confirmation."""
    if not recorded.is_own:
        what = "URL" if recorded.header.transport == "http" else "command"
        fact = f"the {what} comes from a recording that somebody else may have written"
        raise NotSentError(f"{fact}; read it, and confirm that it may be used")
    if not recorded.reads_only:
        fact = "the tool does not say that it only reads (readOnlyHint)"
        raise NotSentError(f"{fact}; confirm that the call may be sent")


class CallSender:
    """Sends calls again, each in a session of its own, and records them in ``folder``.

    ``upstream`` says how servers over HTTP are reached.
    """

    def __init__(self, folder: str, upstream: UpstreamSettings = USUAL) -> None:
        self._folder: Final = folder
        self._upstream: Final = upstream

    async def send(self, recorded: RecordedCall, params: JSON, *, confirmed: bool) -> SentAnswer:
        """Send a recorded call again, with ``params``, and wait for the answer.

        ``confirmed`` is whether the user has confirmed what ``RecordedCall`` has facts for.

        Raises:
            NotSentError: the call must not be sent, or the server cannot be reached or does not answer.
            TraceError: the recording of the new session cannot be read.
        """
        header = recorded.header
        if reason := refusal(header):
            raise NotSentError(reason)
        if not confirmed:
            _refuse_unconfirmed(recorded)
        label = f"{header.label.removesuffix(_AGAIN) or 'call'}{_AGAIN}"
        path = os.path.join(self._folder, paths.trace_name(paths.safe(label)))
        revision = recorded.revision if recorded.revision in REVISIONS else STATEFUL[-1]
        if header.transport == "http":
            connecting = connected_http(
                header.upstream,
                upstream=self._upstream,
                revision=revision,
                timeout_s=_TIMEOUT_S,
                trace=path,
                title=label,
            )
        else:
            connecting = connected_stdio(
                header.command,
                cwd=header.cwd,
                revision=revision,
                timeout_s=_TIMEOUT_S,
                trace=path,
                title=label,
            )
        try:
            async with connecting as client:
                path = client.wire.recording.path
                await client.connect()
                client.wire.mirrors.update(recorded.mirrors)
                began = time.monotonic()
                answer = await client.request(recorded.method, ABSENT if params is None else params)
                seconds = time.monotonic() - began
        except McpProxyError as fault:
            raise NotSentError(f"{fault}; recorded in {path}") from fault
        with open_view(path) as view:
            row = next((call.number for call in view.calls(f"method:{recorded.method}", 0, 1)), 1)
        return SentAnswer(
            path, row, answer.frame.raw.decode("utf-8", "backslashreplace"), f"{seconds * 1000:.0f} ms"
        )
