"""The relay's side of addons: it asks the addon host about messages, without blocking until the answer.

The addon host is a process that runs the addons. Its answer arrives by a callback. Unless all addons are
concurrent, the host works on one question after the other; the next questions are sent ahead, so that it need
not wait for them.

If the host does not answer within the budget of its addons (how long these may work on a message), or has
ended, the question that it was working on has failed; a new host is started, and gets the other questions.
With concurrent addons all open questions have failed. No more than ``_MOST_STARTS`` new hosts are started
within ``_STARTS_NS``, whatever messages do to them; while there is no host, every question fails at once. A
message whose question has failed passes, unless an addon fails closed: then a request is answered with an
error, an answer is replaced by one, and a notification is dropped."""

import json
import os
import select
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from typing import Final, TypeAlias

from mcpproxy.base.own_process import own_command
from mcpproxy.base.slotted import slotted
from mcpproxy.errors import UsageError
from mcpproxy.gate.intercept.addons.addon_frames import AddonFrame, FrameReader, encode_frame
from mcpproxy.gate.intercept.addons.addon_outcomes import AddonOutcome
from mcpproxy.gate.intercept.policies import Passing
from mcpproxy.judge.session.frame import Sender
from mcpproxy.record.relay.said_once import said_once

_START_S: Final = 30.0
"""How long addons may take to load."""
_START_NS: Final = int(_START_S * 1e9)
_SLACK_NS: Final = 250_000_000
"""For how long after the budget an answer may still arrive: the host itself ends a coroutine that is late."""
_MOST_STARTS: Final = 3
_STARTS_NS: Final = 60 * 10**9
"""A host that has failed is replaced at most ``_MOST_STARTS`` times within ``_STARTS_NS``."""
_CHUNK_BYTES: Final = 64 << 10
"""How many bytes are read at once. Allocating four times as much would delay each message by 20 µs."""
_UNSENT_BYTES: Final = 1 << 20
"""If this many bytes wait to be sent to the host, further questions are not written yet."""
_MOST_NOTES: Final = 20
"""How many different lines about addons are written to stderr at most."""

_HOWS: Final = ("same", "new", "answer", "drop", "error")
"""The values of ``AddonOutcome.how``."""

Register: TypeAlias = Callable[[int, Callable[[int], None], int], None]
"""Watches a file descriptor: the descriptor, a handler that gets the events, and the events to poll for."""


@slotted(frozen=True)
class _Question:
    """A question about the message ``raw``. Its ``words`` are the hook, the sender and the session."""

    number: int
    words: tuple[str, str, str]
    raw: bytes
    on_outcome: Callable[[AddonOutcome], None]


class AddonHostProcess:
    """An addon host. Its first frame says whether it could load its addons, and describes them.

    Until then ``is_ready`` is false. ``addons`` are their names, ``hooks`` the hooks that at least one of
    them has, and ``budget_ns`` is the sum of their budgets. ``is_concurrent``: all of them are concurrent.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(self, transport: str, names: Sequence[str]) -> None:
        self.sock, other = socket.socketpair()
        module = "mcpproxy.gate.intercept.addons.addon_host"
        with other, ExitStack() as unless_started:
            unless_started.callback(self.sock.close)
            self._process = subprocess.Popen(
                own_command(module, str(other.fileno()), transport, *names),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
            )
            unless_started.pop_all()
        self._names = names
        self._frames = FrameReader()
        self.sock.setblocking(False)
        self.is_ready = False
        self.hooks: frozenset[str] = frozenset()
        self.is_concurrent = False
        self.budget_ns = 0
        self.fail_closed = ""
        """The names of the addons that fail closed."""
        self.addons = ", ".join(names)

    def wait_until_ready(self, where: str) -> None:
        """Wait until the addons are loaded. ``where`` names the command in an error.

        Raises:
            UsageError: an addon cannot be used, or the host ends or does not answer for ``_START_S`` seconds.
        """
        self.sock.settimeout(_START_S)
        try:
            while not self.is_ready:
                self.receive()
        except (LookupError, OSError, ValueError) as error:
            self.kill()
            if isinstance(error, TimeoutError):
                fact, step = f"not loaded after {_START_S:.0f} s", "correct it"
            else:
                is_refused = isinstance(error, LookupError)
                why = str(error.args[0]) if is_refused else f"{self.addons}: it ends; correct it"
                fact, _, step = why.rpartition("; ")
            raise UsageError(where, f"--addon: {fact}", step) from None
        self.sock.setblocking(False)

    def receive(self) -> list[AddonFrame]:
        """Return the frames that have arrived, except the first frame of the host.

        Raises:
            LookupError: an addon cannot be used; the error has the reason.
            OSError: nothing has arrived, or the host has ended.
            ValueError: the bytes that have arrived are not frames of a host.
        """
        data = self.sock.recv(_CHUNK_BYTES)
        if not data:
            raise ConnectionAbortedError
        frames = self._frames.feed(data)
        if frames and not self.is_ready:
            _, words, content = frames.pop(0)
            if words == ["refused"]:
                raise LookupError(content.decode("utf-8", "replace"))
            self._read_description(content)
        return frames

    def _read_description(self, content: bytes) -> None:
        try:
            about = json.loads(content)
            self.hooks = frozenset(about["hooks"])
            self.is_concurrent, self.fail_closed = bool(about["concurrent"]), ", ".join(about["fail_closed"])
            self.budget_ns = int(float(about["budget_s"]) * 1e9)
            self.addons = ", ".join(about["addons"])
        except (LookupError, TypeError, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from None
        self.is_ready = True

    def kill(self) -> None:
        """Kill the process, and wait for its end."""
        self._process.kill()
        self.let_end(1.0)

    def let_end(self, patience_s: float = 3.0) -> None:
        """Let the process call the ``closed`` hooks and end; after ``patience_s`` seconds, kill it."""
        with suppress(OSError):  # it has ended already
            self.sock.shutdown(socket.SHUT_RDWR)  # the recorder has a copy of the descriptor
        self.sock.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # the system will end it later
                self._process.wait(patience_s)


class AddonCalls:
    """Asks a host, which has to be ready, about messages.

    ``start`` starts another host without waiting until it is ready. ``say`` writes a line to stderr.
    """

    def __init__(
        self, host: AddonHostProcess, start: Callable[[], AddonHostProcess], say: Callable[[str], None]
    ) -> None:
        self._host: AddonHostProcess | None = host
        self._start = start
        self._register: Register | None = None
        self._unregister: Callable[[int], None] = _ignore
        self._first = host  # later hosts have the same addons, so its description holds for them, too
        self._ready_by_ns = 0
        """Until when questions wait for a new host to become ready."""
        self._waiting: deque[_Question] = deque()
        self._asked: dict[int, tuple[_Question, int]] = {}
        """Number -> a question that was sent to the host, and when; the oldest first."""
        self._answered_ns = 0
        """When the host last answered."""
        self._number = 0
        self._starts: deque[int] = deque(maxlen=_MOST_STARTS)
        """When the last hosts were started to replace others."""
        self._started_ns = 0
        self._unsent = b""
        self._say_once = said_once(lambda text: say(f"addon {text}"), _MOST_NOTES)
        self._trace = ""
        self._after: Callable[[], None] = _do_nothing

    def attach(
        self, register: Register, unregister: Callable[[int], None], after: Callable[[], None] | None = None
    ) -> None:
        """Watch the host in the relay's loop, by the loop's functions ``register`` and ``unregister``.

        ``after`` is called after answers or notes have come, once for all that came together.
        """
        self._register, self._unregister = register, unregister
        self._after = after or _do_nothing
        self._watch_host()

    def _start_host_for(self, hook: str) -> bool:
        """Whether an addon has to see the messages of ``hook``; start a host if there is none.

        If no host can be started, this is false, unless an addon fails closed.
        """
        if hook not in self._first.hooks and not self._is_remembered(hook):
            return False
        self._start_if_needed(time.monotonic_ns())
        return self._host is not None or bool(self.fail_closed)

    @property
    def fail_closed(self) -> str:
        """The names of the addons that fail closed; empty if there is none."""
        return self._first.fail_closed

    def remember_or_wait(self, hook: str, passing: Passing) -> bool:
        """Whether a message has to wait until addons have answered.

        If addons need it only beside its response, it is sent to them here, and need not wait.
        """
        if not self._start_host_for(hook):
            return False
        if self.only_remembers(hook):
            self.remember(passing.session, passing.sender, passing.raw)
            return False
        return True

    def ask(
        self, hook: str, session: str, sender: Sender, raw: bytes, on_outcome: Callable[[AddonOutcome], None]
    ) -> None:
        """Ask about the message ``raw`` by the hook of this name; ``on_outcome`` is called once, later."""
        self._number += 1
        self._waiting.append(_Question(self._number, (hook, sender, session), raw, on_outcome))
        self._send_questions()

    def only_remembers(self, hook: str) -> bool:
        """Whether addons see the messages of ``hook`` only beside their responses, so that no message waits.

        If an addon fails closed, it must not see a response without its request, so the request waits."""
        return self._is_remembered(hook) and not self.fail_closed

    def _is_remembered(self, hook: str) -> bool:
        return hook == "request" and hook not in self._first.hooks and "response" in self._first.hooks

    def remember(self, session: str, sender: Sender, raw: bytes) -> None:
        """Send a request to the host, to show it to addons beside its response.

        If too many bytes already wait to be sent, or no host is ready, the request is left out.
        """
        if len(self._unsent) < _UNSENT_BYTES:
            self._tell_host("remember", sender, session, content=raw)

    def follow(self, trace: str) -> None:
        """Let the host call the ``finding`` hooks for the findings that are recorded into ``trace``."""
        self._trace = trace
        if trace and "finding" in self._first.hooks:
            self._tell_host("recording", content=os.fsencode(trace))

    def close_session(self, session: str) -> None:
        """Let the host call the ``closed`` hooks for a session that has ended."""
        if "closed" in self._first.hooks:
            self._tell_host("closed", "", session)

    def _tell_host(self, *words: str, content: bytes = b"") -> None:
        """Send the host a frame that it does not answer; nothing, if no host is ready."""
        if self._host is not None and self._host.is_ready:
            self._unsent += encode_frame(0, *words, content=content)
            self._flush_unsent()

    @property
    def next_due_ns(self) -> int | None:
        """When ``give_up_late`` has to be called next, in monotonic ns.

        ``None`` if no question was sent, and none waits for a host to become ready.
        """
        if self._asked:
            return self._late_ns
        if self._waiting and (self._host is None or not self._host.is_ready):
            return self._ready_by_ns
        return None

    @property
    def _late_ns(self) -> int:
        """By when the oldest question that was sent has to be answered, in monotonic ns."""
        _, since_ns = next(iter(self._asked.values()))
        if not self._first.is_concurrent:  # the host began with it after it had answered the one before
            since_ns = max(since_ns, self._answered_ns)
        return since_ns + self._first.budget_ns + _SLACK_NS

    def give_up_late(self, now_ns: int) -> None:
        """Let the questions fail that should have been answered by now."""
        if self._asked and self._late_ns <= now_ns:
            self._replace_host("did not answer in time", now_ns)
        host = self._host
        if self._waiting and (host is None or (not host.is_ready and now_ns >= self._ready_by_ns)):
            waiting, self._waiting = self._waiting, deque[_Question]()
            self._fail_questions(waiting)

    def _fail_questions(self, questions: Collection[_Question]) -> None:
        closed = self.fail_closed
        outcome = AddonOutcome("error" if closed else "same", closed or self._first.addons)
        for question in questions:
            question.on_outcome(outcome)
        if questions:
            self._after()

    def close(self) -> None:
        """Let the host end, and ask nothing more."""
        self._register = None
        if self._host is not None:
            self._unregister(self._host.sock.fileno())
            host, self._host = self._host, None
            host.let_end(1.0 + self._first.budget_ns / 1e9)

    def _send_questions(self) -> None:
        """Send the waiting questions, as many as may be sent now."""
        if self._host is None or not self._host.is_ready:
            return
        now_ns = time.monotonic_ns()
        while self._waiting and len(self._unsent) < _UNSENT_BYTES:
            question = self._waiting.popleft()
            self._asked[question.number] = question, now_ns
            self._unsent += encode_frame(question.number, *question.words, content=question.raw)
        self._flush_unsent()

    def _flush_unsent(self) -> None:
        if self._host is None or not self._unsent or not self._host.is_ready:
            return
        with suppress(BlockingIOError, ConnectionError):  # if the host has ended, reading from it shows that
            self._unsent = self._unsent[self._host.sock.send(self._unsent) :]
        if self._unsent:
            self._watch_host()

    def _watch_host(self) -> None:
        if self._host is None or self._register is None:
            return
        fd = self._host.sock.fileno()
        with suppress(KeyError):  # it is not watched yet
            self._unregister(fd)
        self._register(fd, self._on_host_events, select.POLLIN | (select.POLLOUT if self._unsent else 0))

    def _on_host_events(self, events: int) -> None:
        if self._host is None:
            return
        if events & select.POLLOUT:
            self._flush_unsent()
            if not self._unsent:
                self._watch_host()
                self._send_questions()
        was_ready = self._host.is_ready
        now_ns = time.monotonic_ns()
        try:
            frames = self._host.receive()
        except BlockingIOError:
            return
        except (LookupError, OSError, ValueError) as error:
            ended = "has ended" if isinstance(error, OSError) else "answers what cannot be read"
            self._replace_host(str(error) if isinstance(error, LookupError) else ended, now_ns)
            return
        if not was_ready:
            self.follow(self._trace)
            self._send_questions()
        for number, words, content in frames:
            if words[0] == "note":
                self._say_once(content.decode("utf-8", "replace"))
            elif number not in self._asked:
                continue
            elif len(words) != 2 or words[0] not in _HOWS:
                self._replace_host("answers what cannot be read", now_ns)
                return
            else:
                question, _ = self._asked.pop(number)
                self._answered_ns = now_ns
                question.on_outcome(AddonOutcome(words[0], words[1], content))
        self._after()

    def _replace_host(self, why: str, now_ns: int) -> None:
        """Kill the host, let the questions fail that it was working on, and start another host."""
        assert self._host is not None
        self._say_once(f"{self._first.addons} {why}; {self._consequence}")
        self._unregister(self._host.sock.fileno())
        self._host.kill()
        self._host, self._unsent = None, b""
        asked = [question for question, _ in self._asked.values()]
        self._asked.clear()
        failed_count = len(asked) if self._first.is_concurrent else 1
        self._waiting.extendleft(reversed(asked[failed_count:]))
        self._start_if_needed(now_ns)
        self._fail_questions(asked[:failed_count])

    @property
    def _consequence(self) -> str:
        return "messages are answered with an error" if self.fail_closed else "messages pass"

    def _start_if_needed(self, now_ns: int) -> None:
        """Start a host unless there is one, or too many were started lately; replace one that never loads."""
        if self._register is None:  # the session has not begun, or is over
            return
        if self._host is not None:
            if not self._host.is_ready and now_ns - self._started_ns > _START_NS:
                self._replace_host(f"is not loaded after {_START_S:.0f} s", now_ns)
            return
        self._ready_by_ns = now_ns
        if len(self._starts) == _MOST_STARTS and now_ns - self._starts[0] < _STARTS_NS:
            self._say_once(f"{self._first.addons} failed too often; for up to a minute {self._consequence}")
            return
        self._starts.append(now_ns)
        try:
            self._host = self._start()
        except OSError as error:
            why = error.strerror or error
            self._say_once(f"{self._first.addons} cannot be started ({why}); {self._consequence}")
            return
        self._started_ns = now_ns
        self._ready_by_ns += max(self._first.budget_ns, 10**9)
        self._watch_host()


MakeAddons: TypeAlias = Callable[[Callable[[str], None], str], AddonCalls]
"""Makes an ``AddonCalls``, given a function that writes a line to stderr, and the path of the recording."""


def _ignore(fd: int) -> None:
    del fd


def _do_nothing() -> None:
    return
