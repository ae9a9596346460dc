"""Answer one live client over HTTP from a recorded session: decide on which stream each message is sent.

Server messages are sent on the streams on which they were recorded. A response is sent in the HTTP response
to the POST of its request, together with the messages before it on the same stream. All other messages are
sent on the stream of a GET. If the recorded server closed a stream before the response, the stream is closed
here, too, and continues when the client resumes it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.peers.replay.recording import Exchange, RecordedSession
from mcpproxy.peers.replay.server.engine import ReplayEngine
from mcpproxy.peers.replay.server.live_messages import EngineResult, LiveMessage, OutgoingMessage
from mcpproxy.peers.replay.server.passthrough import Passthrough, PassthroughProcess
from mcpproxy.peers.replay.server.recorded_events import RecordedStream
from mcpproxy.peers.session_server.http_messages import as_body
from mcpproxy.protocol.jsonrpc import Request


@dataclass(eq=False, slots=True)
class LivePost:
    """A POST of the live client, and the recorded exchange that it matches, if any.

    ``unanswered`` are its requests without a response. ``is_open_ended`` says whether it is answered with a
    stream if there is no recorded exchange. ``texts`` are the messages sent in response, and ``stream`` has
    the same messages as events. ``settled`` is set when all requests are answered or the session ends.
    """

    exchange: Exchange | None
    unanswered: set[LiveMessage]
    is_open_ended: bool
    stream: RecordedStream = field(default_factory=RecordedStream)
    texts: list[bytes] = field(default_factory=list[bytes])
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_stream(self) -> bool:
        """Whether the POST is answered with an event stream."""
        return self.exchange.is_stream if self.exchange else self.is_open_ended

    @property
    def status(self) -> int:
        """The recorded status; 0 if there is none."""
        return self.exchange.status if self.exchange else 0

    @property
    def body(self) -> bytes:
        """The messages sent in response as one body: several as a batch, for a refusal one after another."""
        return as_body(self.texts) if self.texts and self.status < 300 else b"".join(self.texts)

    def settle_if_done(self) -> None:
        """End the response if every request of the POST is answered."""
        if not self.unanswered:
            self.stream.end()
            self.settled.set()


class LiveHttpSession:
    """The session of one client. ``id`` is empty if the server issues no ids.

    ``get_stream`` is the stream with which a GET of the client is answered. ``command`` starts the real
    server to which requests are passed on; it is empty if none are. ``passed_on`` counts those requests.
    ``log`` is called with each line for the user.

    With ``uses_one_stream`` the transport is HTTP+SSE: all server messages are sent on ``get_stream``, except
    the recorded bodies of responses to POSTs, which are sent in the responses to the POSTs.
    """

    def __init__(
        self,
        id: str,
        session: RecordedSession,
        engine: ReplayEngine,
        log: Callable[[str], None],
        command: Sequence[str],
        *,
        uses_one_stream: bool = False,
    ) -> None:
        self.id: Final = id
        self.session: Final = session
        self.engine: Final = engine
        self.get_stream: Final = RecordedStream()
        self.passed_on = 0
        self._log: Final = log
        self._command: Final = command
        self._uses_one_stream: Final = uses_one_stream
        self._posts: Final[dict[LiveMessage, LivePost]] = {}
        self._by_exchange: Final[dict[int, LivePost]] = {}
        self._streams: Final[list[RecordedStream]] = [self.get_stream]
        # Exchange -> index of its last server message.
        self._last_in_exchange: Final[dict[int, int]] = {
            entry.exchange: entry.index for entry in session.messages if entry.sender == SERVER
        }
        self._loop: Final = asyncio.get_running_loop()
        self._passthrough: Final = Passthrough()
        self._server: PassthroughProcess | None = None
        self._send_messages(engine.begin(), self._loop.time())

    def post(self, body: bytes, received_at: float) -> tuple[LivePost, list[LiveMessage]]:
        """Process the body of a POST. Return the POST and the client's messages in it.

        Delays are counted from ``received_at``, a time of the event loop's clock, in seconds.
        """
        outcome = self.engine.receive(body)
        for note in outcome.notes:
            self._log(note)
        requests = [live for live in outcome.messages if isinstance(live.message, Request)]
        recorded = [live.recorded for live in (*requests, *outcome.messages) if live.recorded is not None]
        exchange = self.session.exchanges.get(recorded[0].exchange) if recorded else None
        post = LivePost(exchange, set(requests), is_open_ended=bool(recorded or outcome.passed))
        self._streams.append(post.stream)
        for live in outcome.messages:
            self._posts[live] = post
            if live.recorded is not None and live.recorded.exchange:
                self._by_exchange[live.recorded.exchange] = post
        if not post.is_stream:
            post.unanswered = {live for live in requests if self._will_be_answered(live, outcome)}
        self._send_messages(outcome.outgoing, received_at)
        if exchange is not None and exchange.number not in self._last_in_exchange:
            self._pause_if_recorded(post)
        self._pass_on(outcome.messages, outcome.passed)
        post.settle_if_done()
        return post, outcome.messages

    def _will_be_answered(self, live: LiveMessage, outcome: EngineResult) -> bool:
        """Whether a response to the request is sent now or later."""
        is_sent_now = any(live in (out.live, *(item.live for item in out.others)) for out in outcome.outgoing)
        return is_sent_now or live in outcome.passed or self.engine.has_answer(live)

    def resumed_stream(self, last_id: str) -> RecordedStream | None:
        """Return the stream with the event ``last_id``, ready to continue after it; ``None`` without one."""
        return next((stream for stream in self._streams if stream.resume_after(last_id)), None)

    def end(self) -> None:
        """Close every stream, and end the real server behind the recording."""
        for stream in self._streams:
            stream.end()
        for post in self._posts.values():
            post.settled.set()
        if self._server is not None:
            self._server.end()
            self._server = None

    def _send_messages(self, outgoing: list[OutgoingMessage], since: float) -> None:
        """Send each message after its delay, counted from ``since``, a time of the event loop's clock.

        Messages due at the same time are sent in one callback, because the event loop does not keep the order
        of callbacks with equal times.
        """
        for delay_ns, due in groupby(sorted(outgoing, key=_delay_ns), _delay_ns):
            if delay_ns:
                self._loop.call_at(since + delay_ns / 1e9, self._deliver_all, list(due))
            else:
                self._deliver_all(due)

    def _deliver_all(self, outgoing: Iterable[OutgoingMessage]) -> None:
        for out in outgoing:
            self._deliver(out)

    def _deliver(self, out: OutgoingMessage) -> None:
        """Send a message on the stream of its POST or of the GET; drop it if its request was cancelled.

        Recorded ``endpoint`` events are dropped, too.
        """
        recorded_event = out.recorded.event if out.recorded else None
        if (out.live and out.live.is_cancelled) or (recorded_event and recorded_event.name == "endpoint"):
            return
        post = self._post_for(out)
        if post is None or (self._uses_one_stream and (out.recorded is None or recorded_event)):
            self.get_stream.put(out)
        else:
            post.texts.append(out.raw)
            post.stream.put(out)
        if post is None:
            return
        for item in (out, *out.others):
            if item.live is not None and (item.answers or not post.is_stream):
                post.unanswered.discard(item.live)
        if (
            out.recorded
            and out.recorded.index == self._last_in_exchange.get(out.recorded.exchange)
            and post.unanswered
        ):
            self._pause_if_recorded(post)
        post.settle_if_done()

    def _post_for(self, out: OutgoingMessage) -> LivePost | None:
        """Return the POST in whose response a message is sent; ``None`` if it is sent on the GET stream."""
        if out.live is None or out.live not in self._posts:
            return None
        post = self._posts[out.live]
        if out.answers or out.recorded is None or not out.recorded.exchange:
            return None if post.settled.is_set() else post
        if out.recorded.exchange in self._by_exchange:
            return self._by_exchange[out.recorded.exchange]
        return post if self._is_resumption(out.recorded.exchange) else None

    def _is_resumption(self, exchange: int) -> bool:
        """Whether the recorded exchange is a GET that resumes another stream."""
        recorded = self.session.exchanges.get(exchange)
        return recorded is not None and recorded.is_resumption

    def _pause_if_recorded(self, post: LivePost) -> None:
        """Close the connection of a POST if the recorded server closed it before the response."""
        exchange = post.exchange
        if exchange is not None and exchange.is_stream and exchange.end and exchange.end.by != "client":
            post.stream.pause()

    def _pass_on(self, messages: Sequence[LiveMessage], passed: Sequence[LiveMessage]) -> None:
        """Pass the requests ``passed``, which the recording does not answer, on to the real server.

        Of the other ``messages``, it gets the notifications, and the responses to its own requests.
        """
        if not self._command:
            return
        lines = [line for live in messages for line in self._passthrough.on_client_message(live)]
        for live in passed:
            self.passed_on += 1
            lines += self._passthrough.pass_on(live)
        if lines:
            try:
                self._passthrough_process().write(lines)
            except McpProxyError as fault:
                self._log(str(fault))
                self._deliver_all(self._passthrough.on_exit(f"no server behind the recording: {fault}"))
        self._deliver_all(self._passthrough.errors_after_exit())

    def _passthrough_process(self) -> PassthroughProcess:
        """Return the real server behind the recording; start it at the first call.

        Raises:
            McpProxyError: it cannot be started.
        """
        if self._server is None:

            def receive(line: bytes | None) -> None:
                self._loop.call_soon_threadsafe(self._on_server_line, line)

            self._server = PassthroughProcess(self._command, receive)
        return self._server

    def _on_server_line(self, line: bytes | None) -> None:
        """Process a line of the real server; ``None`` if the server has ended."""
        if line is None:
            outgoing, lines = self._passthrough.on_exit(), list[bytes]()
        else:
            outgoing, lines = self._passthrough.on_server_line(line)
        if lines:
            self._passthrough_process().write(lines)
        for out in outgoing:
            self._deliver(out)


def _delay_ns(out: OutgoingMessage) -> int:
    return out.delay_ns
