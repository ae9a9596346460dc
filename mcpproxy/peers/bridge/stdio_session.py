"""One session with a stdio server: decide to which HTTP response each message of the server goes.

All messages of a stdio server arrive on one channel. A response goes to the POST of its request. Progress
notifications, and the notifications of a subscription, name their request. Notifications about changed lists
and resources go to the GET stream. Any other message does not show what it belongs to: it goes to the only
open request, or else to the GET stream, or, if nobody reads that, to the latest open request. A process for
stateless requests has no GET stream: what belongs to no request is not passed on.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy.base.system_words import end_text
from mcpproxy.peers.bridge.leg import Say
from mcpproxy.peers.bridge.message_bytes import own_error
from mcpproxy.peers.bridge.server_process import ServerProcess
from mcpproxy.peers.session_server.event_stream import GoneEventsError
from mcpproxy.peers.session_server.resumable_streams import ResumableStream, position
from mcpproxy.protocol import raw_json
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    Single,
    parse,
)
from mcpproxy.protocol.message_parts import Key, answered_ids, as_key, key_of, member, singles
from mcpproxy.protocol.meta_keys import LOG_LEVEL_KEY, SUBSCRIPTION_ID_KEY
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.said_once import said_once

_MOST_STREAMS: Final = 32
"""If a session has more streams of POSTs than this, those that its client has read to the end are dropped."""

_MOST_UNREAD: Final = 1024
"""How many streams are kept that have ended, but have events that the client has not taken."""

SESSION_BYTES: Final = 16 << 20
"""How many bytes of events the streams of a session keep together, without the newest event."""


_OF_NO_REQUEST: Final = (
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
)
"""Notifications that belong to no request, unless they name a subscription."""


class PostAnswer:
    """The response to a POST with requests. ``open`` maps the ids of unanswered requests to their bytes.

    ``lines`` has the messages of the response until it is decided whether it is one body or a stream.
    ``tokens`` are the progress tokens of the requests. ``wants_logs``: one of them asks for log messages.
    """

    def __init__(self, requests: dict[Key, bytes], message: Message, stream: ResumableStream) -> None:
        self.open: Final = dict(requests)
        self.tokens: Final = tokens_in(message)
        self.wants_logs: Final = wants_logs(message)
        self.stream: Final = stream
        self.lines: Final[list[bytes]] = []
        self.is_streaming = False
        self.is_own = False
        """Whether the bridge itself has answered one of the requests."""
        self._changed = asyncio.Event()

    def add_message(self, line: bytes, keys: Iterable[Key] = ()) -> None:
        """Add a message, which answers the requests with the ids ``keys``."""
        for key in keys:
            self.open.pop(key, None)
        if self.is_streaming:
            self.stream.put(line)
            if not self.open:
                self.stream.end()
        else:
            self.lines.append(line)
            self._changed.set()

    def begin_stream(self, *, primes: bool) -> None:
        """Put all messages into the stream from now on; with ``primes`` after an event without data."""
        self.is_streaming = True
        self.stream.await_client()
        if primes:
            self.stream.prime()
        for line in self.lines:
            self.stream.put(line)
        self.lines.clear()
        if not self.open:
            self.stream.end()

    async def wait(self, *, for_all: bool) -> None:
        """Wait for the first message, or with ``for_all`` until all requests are answered."""
        while self.open if for_all else not self.lines:
            self._changed.clear()
            await self._changed.wait()


class StdioSession:
    """A process of the server, and the clients' requests that it works on.

    ``make_process`` starts the process, with a function for each line of its stdout and one for its exit
    code. ``say`` writes a line to stderr. Without an ``id`` the session is for stateless requests, whose
    streams have no event ids. ``on_gone`` is called when the process has ended, and ``on_kept`` with the
    change when ``kept_bytes`` changes. ``revision`` is the negotiated revision, empty before.
    ``on_server_message`` gets each message of the server before it is passed on.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(
        self,
        id: str,
        make_process: "Callable[[Callable[[bytes], None], Callable[[int], None]], ServerProcess]",
        say: Say,
        on_gone: "Callable[[StdioSession], None]",
        on_kept: "Callable[[StdioSession, int], None]",
    ) -> None:
        self.id: Final = id
        self.revision = ""
        self.is_gone = False
        self.last_used = time.monotonic()
        self._behind: Final[set[int]] = set()  # the numbers of streams whose clients do not keep up
        self.kept_bytes = 0
        """How many bytes of events its streams keep."""
        self._is_full = False  # whether no more events may be kept until clients have taken some
        self._is_dropping = False
        self._on_kept: Final = on_kept
        self._streams: Final[OrderedDict[int, ResumableStream]] = OrderedDict()
        self.get_stream: Final = self._make_stream(0)
        self._on_gone: Final = on_gone
        self._answers: Final[dict[Key, PostAnswer]] = {}  # id of an open request -> its response
        self._tokens: Final[dict[Key, PostAnswer]] = {}  # progress token of an open request -> its response
        self._given_up: Final[set[Key]] = set()  # the ids of cancelled requests that may still be answered
        self._last_stream = 0
        self._initialize: Key | None = None  # the id of the open ``initialize``
        self._say_once = said_once(say)
        self.on_server_message: Callable[[bytes, Message], None] = _ignore
        self.process: Final = make_process(self._on_line, self._on_exit)

    @property
    def is_idle(self) -> bool:
        """Whether no request is open, and no client reads the GET stream."""
        return not self._answers and not self.get_stream.is_connected

    def is_free_for(self, requests: Iterable[Key], tokens: Iterable[Key], *, wants_logs: bool) -> bool:
        """Whether stateless requests need not wait, and cannot be confused with the open requests.

        ``requests`` are their ids, ``tokens`` their progress tokens, and ``wants_logs`` says that they ask
        for log messages.
        """
        if self._behind:
            return False
        if any(key in self._answers or key in self._given_up for key in requests):
            return False
        if any(token in self._tokens for token in tokens):
            return False
        # A log message does not show to which request it belongs.
        others = set(map(id, self._answers.values()))
        return not others or not (wants_logs or any(answer.wants_logs for answer in self._answers.values()))

    async def send(self, line: bytes) -> bool:
        """Write a message without requests to the server; return false if its stdin is closed."""
        self.last_used = time.monotonic()
        return await self.process.write(line)

    async def send_requests(self, line: bytes, message: Message, requests: dict[Key, bytes]) -> PostAnswer:
        """Write a message with these requests to the server; return the response, to be completed later."""
        self.last_used = time.monotonic()
        self._last_stream += 1
        stream = self._make_stream(self._last_stream)
        answer = PostAnswer(requests, message, stream)
        if isinstance(message, Request) and message.method == "initialize":
            self._initialize = key_of(message)
        self._answers.update(dict.fromkeys(requests, answer))
        self._tokens.update(dict.fromkeys(answer.tokens, answer))
        if not await self.process.write(line) and self.is_gone:
            self._refuse_requests(answer, "the server has exited")
        return answer

    def keep_stream(self, stream: ResumableStream) -> None:
        """Keep a stream with event ids for a client that resumes it."""
        if stream.has_ids:
            self._streams[stream.number] = stream
            self._count_kept(stream.size)
            while len(self._streams) > _MOST_STREAMS:
                ended = [stream for stream in self._streams.values() if stream.is_over]
                dispensable = next((stream for stream in ended if stream.is_done), None)
                if dispensable is None:
                    if len(ended) <= _MOST_UNREAD:
                        break  # all have open requests, or answers that the client has yet to take
                    dispensable = ended[0]
                del self._streams[dispensable.number]
                self._count_kept(-dispensable.size)
            self._fit_events(stream)

    def rewind_stream(self, last_event_id: str) -> ResumableStream:
        """Return the stream of an event, rewound to continue after that event.

        Raises:
            GoneEventsError: the events after it are not kept.
        """
        number, event = position(last_event_id)
        stream = self._streams.get(number) if number else self.get_stream
        if stream is None:
            raise GoneEventsError(f"the events after {number}-{event} are not kept")
        stream.rewind(event)
        return stream

    async def cancel_requests(self, answer: PostAnswer) -> None:
        """Cancel the stateless requests of a POST whose response the client has closed."""
        for key, id in tuple(answer.open.items()):
            self._answers.pop(key, None)
            self._given_up.add(key)  # no other request may use this id until its answer has arrived
            cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}' % id
            await self.process.write(cancelled, journals.CLIENT_OWN)
        answer.open.clear()
        self._forget_tokens(answer)

    def stop(self) -> None:
        """End the process."""
        self.process.stop()

    def _make_stream(self, number: int) -> ResumableStream:
        return ResumableStream(number, self._on_pace, self._on_drop, self._on_size, has_ids=bool(self.id))

    def _on_pace(self, stream: ResumableStream) -> None:
        """Stop reading from the server while a client does not keep up, as a pipe between them would."""
        if stream.is_behind:
            self._behind.add(stream.number)
        else:
            self._behind.discard(stream.number)
        self._hold_server()

    def _hold_server(self) -> None:
        self.process.hold_output(is_held=bool(self._behind) or self._is_full)

    def _on_size(self, stream: ResumableStream, change: int) -> None:
        if stream is self._streams.get(stream.number) or (stream.has_ids and not stream.number):
            self._count_kept(change)
            if change >= 0 or self._is_full:
                self._fit_events(stream)

    def _count_kept(self, change: int) -> None:
        self.kept_bytes += change
        if not self.is_gone:
            self._on_kept(self, change)

    def _fit_events(self, growing: ResumableStream) -> None:
        """Drop events beyond ``SESSION_BYTES``. If too many remain untaken, stop reading the server.

        The newest event of ``growing`` is kept.
        """
        if self._is_dropping:
            return  # dropping an event changes a size, which leads here again
        self._is_dropping = True
        self.drop_events(self.kept_bytes - SESSION_BYTES, growing)
        self._is_dropping = False
        is_full = self.kept_bytes > SESSION_BYTES and self._awaited_bytes() > SESSION_BYTES
        if is_full != self._is_full:
            self._is_full = is_full
            self._hold_server()

    def drop_events(self, excess: int, growing: ResumableStream | None = None) -> None:
        """Drop ``excess`` bytes of events: first events that were sent, then events without a client.

        The oldest streams of POSTs come first, the GET stream last. The newest event of ``growing`` is kept.
        """
        enough = self.kept_bytes - excess
        for unsent in (False, True):
            for stream in (*self._streams.values(), self.get_stream):
                if (left := self.kept_bytes - enough) <= 0:
                    return
                stream.drop_oldest(left, unsent=unsent, keeps_last=stream is growing)

    def _awaited_bytes(self) -> int:
        return sum(stream.awaited_bytes for stream in (*self._streams.values(), self.get_stream))

    def _on_drop(self) -> None:
        self._say_once("the client does not read one of its streams; old messages of it are dropped")

    # Messages of the server

    def _on_line(self, line: bytes) -> None:
        if not line.strip():
            return
        message = parse(line)
        if isinstance(message, Malformed):
            self._say_once("the server wrote a line that is not a message; it is recorded, not passed on")
            return
        self.on_server_message(line, message)
        self.last_used = time.monotonic()
        text = line.removesuffix(b"\r")
        if b"\r" in text:
            text = text.replace(b"\r", b" ")  # a carriage return would end the line in an event
        answered = list(answered_ids(message))
        if answered:
            self._pass_answers(text, message, answered)
        else:
            self._pass_other_message(text, singles(message)[0])

    def _pass_answers(self, text: bytes, message: Message, keys: list[Key]) -> None:
        answers = {id(self._answers[key]): self._answers[key] for key in keys if key in self._answers}
        if len(answers) > 1:  # a batch with answers to several POSTs
            for element in raw_json.elements(text):
                self._on_line(element)
            return
        answer = next(iter(answers.values()), None)
        if self._initialize in keys and isinstance(message, Response):
            self._initialize = None  # a later request may have this id, too
            version = member(message.result, "protocolVersion")
            self.revision = version if isinstance(version, str) else ""
        for key in keys:
            self._answers.pop(key, None)
            self._given_up.discard(key)
        if answer is None:
            self._say_once(
                "the server answered a request that nobody waits for; it is recorded, not passed on"
            )
            return
        answer.add_message(text, keys)
        if not answer.open:
            self._forget_tokens(answer)

    def _pass_other_message(self, text: bytes, single: Single) -> None:
        answer = self._answer_for(single)
        if answer is not None:
            answer.add_message(text)
        elif self.id:
            self.get_stream.put(text)
        else:
            self._say_once(
                "the server sent a message that belongs to no stateless request; it is not passed on"
            )

    def _answer_for(self, single: Single) -> PostAnswer | None:
        """Return the open response to which a message of the server belongs; ``None`` if to none."""
        subscription = as_key(_in_params(single, "_meta", SUBSCRIPTION_ID_KEY))
        if subscription is not None:
            return self._answers.get(subscription)
        if isinstance(single, Notification) and single.method == "notifications/progress":
            token = as_key(_in_params(single, "progressToken"))
            return self._tokens.get(token) if token is not None else None
        if isinstance(single, Notification) and single.method == "notifications/cancelled" and not self.id:
            ended_subscription = as_key(_in_params(single, "requestId"))
            return self._answers.get(ended_subscription) if ended_subscription is not None else None
        if isinstance(single, Notification) and single.method in _OF_NO_REQUEST and self.id:
            return None
        answers = {id(answer): answer for answer in self._answers.values()}
        if len(answers) == 1:
            return next(iter(answers.values()))
        if not self.id or self.get_stream.has_client or not answers:
            return None
        return list(answers.values())[-1]  # better than a stream that nobody reads

    # The end

    def _on_exit(self, code: int) -> None:
        self._on_kept(self, -self.kept_bytes)
        self.is_gone = True
        for answer in {id(answer): answer for answer in self._answers.values()}.values():
            self._refuse_requests(answer, f"the server {end_text(code)}")
        self._answers.clear()
        self.get_stream.end()
        for stream in self._streams.values():
            stream.end()
        self._on_gone(self)

    def _refuse_requests(self, answer: PostAnswer, why: str) -> None:
        """Answer all open requests of a POST with the bridge's own error."""
        answer.is_own = True
        for key, id in tuple(answer.open.items()):
            self._answers.pop(key, None)
            answer.add_message(own_error(id, why), (key,))
        self._forget_tokens(answer)

    def _forget_tokens(self, answer: PostAnswer) -> None:
        """Forget the progress tokens of a response that is complete."""
        for token in answer.tokens:
            if self._tokens.get(token) is answer:
                del self._tokens[token]


def _token_of(single: Single) -> Key | None:
    return as_key(_in_params(single, "_meta", "progressToken")) if isinstance(single, Request) else None


def tokens_in(message: Message) -> list[Key]:
    """Return the progress tokens of the requests in a message."""
    return [token for single in singles(message) if (token := _token_of(single)) is not None]


def wants_logs(message: Message) -> bool:
    """Whether a stateless request asks for log messages."""
    return any(_in_params(single, "_meta", LOG_LEVEL_KEY) is not None for single in singles(message))


def _in_params(single: Single, *names: str) -> JSON:
    return member(single.params, *names) if isinstance(single, Request | Notification) else None


def _ignore(raw: bytes, message: Message) -> None:
    del raw, message
