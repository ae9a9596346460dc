"""One live client over HTTP and the recorded session that answers it: what goes on which stream.

What the server said goes where it went in the recording: an answer to the POST that asks, with what came on
the same stream before it; the rest on the stream of a GET. A stream that the recorded server closed before
its answer closes here as well, and goes on when the client comes back for the rest.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.replay.http_parts import resumes
from mcpproxy.replay.recording import Exchange, Session
from mcpproxy.replay.server.engine import Engine
from mcpproxy.replay.server.event_stream import Stream, event
from mcpproxy.replay.server.live_messages import Heard, Live, Out
from mcpproxy.replay.server.passthrough import Passing, Server
from mcpproxy.session.frame import SERVER


@dataclass(eq=False, slots=True)
class Post:
    """A POST of the live client, and the recorded exchange that it is like, if any.

    ``owed`` are its requests without an answer. ``texts`` is what was said to it, ``stream`` the same as
    events. ``is_settled`` once nothing more is owed.
    """

    exchange: Exchange | None
    owed: set[Live]
    is_open_ended: bool
    stream: Stream = field(default_factory=Stream)
    texts: list[bytes] = field(default_factory=list[bytes])
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_stream(self) -> bool:
        """Whether it is answered with events."""
        return self.exchange.is_stream if self.exchange else self.is_open_ended

    def settle_if_done(self) -> None:
        """End it when all has been said."""
        if not self.owed:
            self.stream.end()
            self.settled.set()


class LiveSession:
    """``id`` is empty where the recorded server gave none. ``own`` is the stream of a GET.

    ``sends_all_there``: in the transport before Streamable HTTP everything comes on that one stream.
    """

    def __init__(
        self,
        id: str,
        session: Session,
        engine: Engine,
        tell: Callable[[str], None],
        command: Sequence[str],
        *,
        sends_all_there: bool = False,
    ) -> None:
        self.id: Final = id
        self.session: Final = session
        self.engine: Final = engine
        self.own: Final = Stream()
        self.passed_on = 0
        self._tell: Final = tell
        self._command: Final = command
        self._sends_all_there: Final = sends_all_there
        self._posts: Final[dict[Live, Post]] = {}
        self._by_exchange: Final[dict[int, Post]] = {}
        self._streams: Final[list[Stream]] = [self.own]
        self._last_in: Final[dict[int, int]] = {
            said.exchange: said.index for said in session.messages if said.sender == SERVER
        }
        self._loop: Final = asyncio.get_running_loop()
        self._passing: Final = Passing()
        self._server: Server | None = None
        self._send(engine.begin(), self._loop.time())

    def post(self, body: bytes, came_at: float) -> tuple[Post, list[Live]]:
        """Take a body; what becomes of it is told by the ``Post``.

        Recorded pauses count from ``came_at``, the loop's time in seconds.
        """
        heard = self.engine.hear(body)
        for note in heard.notes:
            self._tell(note)
        requests = [live for live in heard.lives if isinstance(live.message, Request)]
        known = [live.said for live in (*requests, *heard.lives) if live.said is not None]
        exchange = self.session.exchanges.get(known[0].exchange) if known else None
        post = Post(exchange, set(requests), is_open_ended=bool(known or heard.passed))
        self._streams.append(post.stream)
        for live in heard.lives:
            self._posts[live] = post
            if live.said is not None and live.said.exchange:
                self._by_exchange[live.said.exchange] = post
        if not post.is_stream:
            post.owed = {live for live in requests if self._is_promised(live, heard)}
        self._send(heard.outs, came_at)
        if exchange is not None and exchange.number not in self._last_in:
            self._pause(post)
        self._pass_on(heard.lives, heard.passed)
        post.settle_if_done()
        return post, heard.lives

    def _is_promised(self, live: Live, heard: Heard) -> bool:
        """Whether something will come for this request."""
        said_now = any(out.live is live or any(one.live is live for one in out.others) for out in heard.outs)
        return said_now or live in heard.passed or self.engine.has_answer(live)

    def stream_with(self, last_id: str) -> Stream | None:
        """The stream on which the event with this id came."""
        return next((stream for stream in self._streams if stream.holds(last_id)), None)

    def end(self) -> None:
        """Close every stream."""
        for stream in self._streams:
            stream.end()
        for post in self._posts.values():
            post.settled.set()
        if self._server is not None:
            self._server.end()
            self._server = None

    def _send(self, outs: list[Out], since: float) -> None:
        """Send each when it is due, counted from ``since``.

        What is due at the same time goes in one turn: the loop keeps no order among equal times.
        """
        for delay_ns, due in groupby(sorted(outs, key=_delay_ns), _delay_ns):
            if delay_ns:
                self._loop.call_at(since + delay_ns / 1e9, self._deliver_all, list(due))
            else:
                self._deliver_all(due)

    def _deliver_all(self, outs: Iterable[Out]) -> None:
        for out in outs:
            self._deliver(out)

    def _deliver(self, out: Out) -> None:
        recorded = out.said.event if out.said else None
        if (out.live and out.live.is_cancelled) or (recorded and recorded.name == "endpoint"):
            return
        post = self._post_for(out)
        id = recorded.id if recorded else None
        if post is None or (self._sends_all_there and (out.said is None or recorded)):
            self.own.put(event(out), id)
        else:
            post.texts.append(out.raw)
            post.stream.put(event(out), id)
        if post is None:
            return
        for each in (out, *out.others):
            if each.live is not None and (each.answers or not post.is_stream):
                post.owed.discard(each.live)
        if out.said and out.said.index == self._last_in.get(out.said.exchange) and post.owed:
            self._pause(post)
        post.settle_if_done()

    def _post_for(self, out: Out) -> Post | None:
        if out.live is None or out.live not in self._posts:
            return None
        post = self._posts[out.live]
        if out.answers or out.said is None or not out.said.exchange:
            return None if post.settled.is_set() else post
        if out.said.exchange in self._by_exchange:
            return self._by_exchange[out.said.exchange]
        return post if self._is_resumed(out.said.exchange) else None

    def _is_resumed(self, exchange: int) -> bool:
        """Whether that was a GET for the rest of another stream."""
        found = self.session.exchanges.get(exchange)
        return found is not None and resumes(found)

    def _pause(self, post: Post) -> None:
        """Close the connection where the recorded server did, before it had answered."""
        exchange = post.exchange
        if exchange is not None and exchange.is_stream and exchange.end and exchange.end.by != "client":
            post.stream.pause()

    def _pass_on(self, lives: Sequence[Live], passed: Sequence[Live]) -> None:
        if not self._command:
            return
        lines = [line for live in lives for line in self._passing.saw(live)]
        for live in passed:
            self.passed_on += 1
            lines += self._passing.pass_on(live)
        if lines:
            self._behind().write(lines)

    def _behind(self) -> Server:
        if self._server is None:

            def hear(line: bytes | None) -> None:
                self._loop.call_soon_threadsafe(self._passed, line)

            self._server = Server(self._command, hear)
        return self._server

    def _passed(self, line: bytes | None) -> None:
        if line is None:
            outs, lines = self._passing.gone(), list[bytes]()
        else:
            outs, lines = self._passing.said(line)
        if lines:
            self._behind().write(lines)
        for out in outs:
            self._deliver(out)


def _delay_ns(out: Out) -> int:
    return out.delay_ns
