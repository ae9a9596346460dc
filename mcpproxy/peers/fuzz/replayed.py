"""Check whether ``mcpproxy replay client`` repeats a fault from its recording.

The player of that command plays the recording; the connection to the server is recorded and judged, too.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcpproxy.base.telling_line import LastLines
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.session.frame import CLIENT, SERVER, Stderr
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.peers.fuzz.symptoms import Symptom, end_symptom
from mcpproxy.peers.replay.client.driver import (
    LinkEvent,
    ServerFrame,
    ServerGone,
    play,
)
from mcpproxy.peers.replay.client.player import Player, Send
from mcpproxy.peers.replay.recording import RecordedSession, load
from mcpproxy.peers.replay.server.replay_source import replay_source, sessions_of
from mcpproxy.peers.validate.errors import GoneError
from mcpproxy.peers.validate.outcome import ANSWER_RULES
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.peers.validate.transports.stdio_wire import StdioWire
from mcpproxy.peers.validate.transports.wire import FrameReceived, ServerLost, WireEvent
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.record.trace.records import Recorded

if TYPE_CHECKING:  # imports the HTTP library, which stdio does not need
    from mcpproxy.peers.fuzz.replayed_http import RecordedHttpLink


async def replay_shows_fault(
    trace: str, symptom: Symptom, target: Target, rules: Ruleset, path: str, timeout_s: float
) -> bool:
    """Play ``trace`` to the server, record the session at ``path``, and return whether the fault shows again.

    The sessions of an HTTP trace are played one after the other, as the command does. ``timeout_s`` is the
    time limit for one answer.
    """
    recording = Recordings(rules, path, "", "fuzz replay").begin("replay", target)
    sessions = sessions_of(replay_source(load(trace)))
    is_shown = False
    for session in sessions:
        link = _http_link(target, recording, session) if target.url else _StdioLink(target, recording)
        player = Player(session)
        with suppress(McpProxyError):
            await play(player, link, timeout_s)
        is_shown = is_shown or _shows_fault(symptom, player, link)
    return is_shown or (symptom.kind == "protocol" and _shows_violation(symptom, recording))


def _http_link(target: Target, recording: SessionRecording, session: RecordedSession) -> "RecordedHttpLink":
    from mcpproxy.peers.fuzz.replayed_http import RecordedHttpLink

    return RecordedHttpLink(target, recording, session)


def _shows_violation(symptom: Symptom, recording: SessionRecording) -> bool:
    return any(
        symptom.requirement in (finding.requirement, finding.rule)
        for finding in recording.findings
        if finding.blame == SERVER and finding.rule not in ANSWER_RULES
    )


def _shows_fault(symptom: Symptom, player: Player, link: "_StdioLink | RecordedHttpLink") -> bool:
    """Whether a session that was played shows the fault; false for a violation, which only the judge sees."""
    live = player.live.messages
    match symptom.kind:
        case "crash":
            return link.shows_end(symptom)
        case "hang":
            from_client = (entry for entry in live if entry.sender == CLIENT)
            requests = [entry for entry in from_client if isinstance(entry.message, Request)]
            is_answered = bool(requests) and any(entry.answers == requests[-1].index for entry in live)
            return not (is_answered or link.has_ended)
        case "leak":
            return any(
                symptom.marker in entry.raw
                and entry.answers is not None
                and symptom.marker not in live[entry.answers].raw
                for entry in live
                if entry.sender == SERVER
            )
        case "protocol":
            return False


class _StdioLink:
    """A process whose lines are recorded and judged."""

    def __init__(self, target: Target, recording: SessionRecording) -> None:
        self.events: asyncio.Queue[LinkEvent] = asyncio.Queue()
        self.has_ended = False
        """Whether the process ended by itself."""
        self._wire: Final = StdioWire(recording, target.command, target.env, cwd=target.cwd)
        self._wire.on_event = self._on_event
        self._stderr: Final = LastLines()
        self._why = ""
        self._is_input_closed = False
        self._is_closing = False
        self._ended_after_input = False
        recording.add_listener(self._on_record)

    async def open(self) -> None:
        """Start the process."""
        await self._wire.open()

    async def send(self, send: Send) -> None:
        """Write a line; do nothing if the process is gone."""
        if send.raw:
            with suppress(GoneError):
                await self._wire.send(send.raw)

    async def end_input(self) -> None:
        """Close stdin of the process."""
        self._is_input_closed = True
        self._wire.close_stdin()

    async def close(self) -> None:
        """End the process."""
        self._is_closing = True
        await self._wire.kill()

    def shows_end(self, symptom: Symptom) -> bool:
        """Whether the process ended as in ``symptom``."""
        code = self._wire.exit_code
        # A server may end with exit code 0 after its input has ended.
        if not self.has_ended or (self._ended_after_input and not code):
            return False
        end = end_symptom(code, self._why, self._stderr, FuzzStep(b""), 0)
        return end is not None and end.ending == symptom.ending

    def _on_event(self, event: WireEvent) -> None:
        if isinstance(event, FrameReceived):
            self.events.put_nowait(ServerFrame(event.frame.raw))
        elif isinstance(event, ServerLost) and not self._is_closing:
            self.has_ended, self._why = True, event.why
            self._ended_after_input = self._is_input_closed
            self.events.put_nowait(ServerGone(f"the server is gone: {event.why}"))

    def _on_record(self, event: Recorded) -> None:
        if isinstance(event, Stderr):
            self._stderr.add(event.raw)
