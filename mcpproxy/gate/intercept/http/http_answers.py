"""Read the answers of servers: which bytes pass, and which messages policies decide on. No I/O, no clock.

An ``AnswerReader`` reads the bytes of one connection to a server. It holds a JSON answer until its head and
body are complete, and in an event stream it holds each event until it is complete. An event stream whose head
has a length is held until all of it has arrived, because the head may need another length. Messages that no
policy acts on pass byte for byte. A replacement has the same transfer coding, and the head gets the new
length.

Other answers pass as they arrive: compressed ones, other media types, and bodies longer than ``LIMIT_BYTES``.
If an addon fails closed, they do not pass: the client gets the head of such an answer, and an error for its
request as the body."""

from collections.abc import Callable
from typing import Final

from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES, NOT_COMPLETE, TOO_LONG
from mcpproxy.gate.intercept.http.http_answer_faults import AnswerFaults
from mcpproxy.gate.intercept.http.http_answer_steps import AnswerStep, ChunksOf, ExpectedAnswer, HeldAnswer
from mcpproxy.record.framing.bodies import Chunked, Length, UntilClose, response_body
from mcpproxy.record.framing.heads import Headers, response_head

_HEAD_BYTES: Final = 64 << 10
"""How many bytes may arrive before the end of a head is found."""


def _is_ambiguous(headers: Headers) -> bool:
    """Whether clients may read a body differently, because its type or its coding is given twice."""
    names = [name.lower() for name, value in headers for _ in value.split(",")]
    return max(names.count("content-type"), names.count("content-encoding")) > 1


class AnswerReader:
    """Reads the answers on one connection of a server.

    If a bug in mcpproxy makes it fail, ``on_bug`` is called, and everything passes from then on; but if an
    addon that fails closed has to see the answer, the answer is refused.
    """

    def __init__(self, faults: AnswerFaults, on_bug: Callable[[Exception], None]) -> None:
        self.is_done = False
        """Whether all further bytes pass unread."""
        self.expected: list[ExpectedAnswer] = []
        self._faults = faults
        self._on_bug = on_bug
        self._held = b""
        """The bytes that the server has sent and that were not passed on yet."""
        self._read = 0
        """How many of the held bytes have been read."""
        self._answer: HeldAnswer | None = None

    def take_held(self) -> bytes:
        """Return the bytes that were not passed on yet, and hold them no more."""
        held, self._held, self._read = self._held, b"", 0
        return held

    def feed(self, data: bytes, at_ns: int) -> list[AnswerStep]:
        """Take the next bytes of the server; return the steps to do."""
        self._held += data
        steps: list[AnswerStep] = []
        try:
            self._read_answers(steps, at_ns)
        except Exception as fault:  # a bug in mcpproxy must not end the connection
            self._on_bug(fault)
            steps += self._give_up()
        if self.is_done:
            steps += self._pass_bytes()
        return steps

    def _read_answers(self, steps: list[AnswerStep], at_ns: int) -> None:
        """Append the steps for the held bytes to ``steps``."""
        while self._held and not self.is_done:
            before = len(self._held), self._read, self._answer
            steps += self._on_head() if self._answer is None else self._on_body(self._answer, at_ns)
            if (len(self._held), self._read, self._answer) == before:
                break

    def end(self) -> list[AnswerStep]:
        """Take note that the server sends nothing more; return the last steps."""
        answer = self._answer
        if answer is not None and answer.is_whole and isinstance(answer.body, UntilClose):
            return self._body_steps(answer)
        if self._fails_closed and (answer is None or answer.expected.is_gated) and self._held:
            return self._refuse_answer(answer, NOT_COMPLETE)
        if answer is not None and isinstance(answer.body, UntilClose):
            return [*self._pass_bytes(), *self._faults.missing(answer)]
        return self._pass_bytes()

    @property
    def _fails_closed(self) -> bool:
        """Whether an addon fails closed, and the bytes of the server are still read."""
        return bool(self._faults.gate.addons) and not self.is_done

    def _refuse_answer(self, answer: HeldAnswer | None, why: str) -> list[AnswerStep]:
        """Let neither the held bytes nor the rest of the answer pass."""
        held = self.take_held()
        self._answer = None
        if answer is None:
            return self._faults.end(held)
        if answer.is_stream and not answer.is_whole:
            return self._faults.refused_stream(answer, held, why)
        return self._faults.refused(answer, held, why)

    def _pass_bytes(self, size: int | None = None) -> list[AnswerStep]:
        """Let the first ``size`` held bytes pass, or all of them."""
        data, self._held = self._held[:size], b"" if size is None else self._held[size:]
        self._read = max(0, self._read - len(data))
        return [AnswerStep("pass", data)] if data else []

    def _give_up(self) -> list[AnswerStep]:
        """Stop reading, as an answer cannot be read; refuse it if an addon that fails closed needs it."""
        answer = self._answer
        if self._fails_closed and (answer is None or answer.expected.is_gated):
            return self._refuse_answer(answer, "it cannot be read")
        self.is_done = True
        return []

    def _on_head(self) -> list[AnswerStep]:
        """Read the head of an answer, if it is complete."""
        end = self._held.find(b"\r\n\r\n") + 4
        if end < 4:
            return [] if len(self._held) <= _HEAD_BYTES else self._give_up()
        parsed = response_head(self._held[:end])
        if isinstance(parsed, str) or not self.expected or parsed[0] == 101:
            return self._give_up()
        status, _, _, headers, framing = parsed
        if status < 200:
            return self._pass_bytes(end)
        expected = self.expected.pop(0)
        body = response_body(expected.method, status, framing)
        if isinstance(body, str):
            return self._give_up()
        fields = {name.lower(): value.lower() for name, value in headers}
        media_type = fields.get("content-type", "").partition(";")[0].strip()
        is_gated = self._fails_closed and expected.is_gated
        is_plain = fields.get("content-encoding", "identity") == "identity" and not body.over
        is_plain = is_plain and not (is_gated and _is_ambiguous(headers))
        is_stream = is_plain and media_type == "text/event-stream"
        is_whole = is_plain and (media_type == "application/json" or (is_stream and isinstance(body, Length)))
        if isinstance(body, Chunked):
            body = ChunksOf()
        unseen = ""
        if is_gated and not is_whole and not is_stream and not body.over:
            is_whole, unseen = True, "it is neither JSON nor an event stream, or is compressed"
        answer = HeldAnswer(body, expected, self._held[:end], is_whole, is_stream, unseen=unseen)
        self._answer = answer if not body.over else None
        self._read = end
        if answer.is_whole:
            return []
        return self._altered_head(answer) or self._pass_bytes(end)

    def _altered_head(self, answer: HeldAnswer) -> list[AnswerStep]:
        """Take a head that a fault changes out of the held bytes, and return its steps; none if it stays."""
        steps = self._faults.altered_head(answer, answer.head)
        if steps:
            size = len(answer.head)
            self._held, self._read = self._held[size:], max(0, self._read - size)
        return steps

    def _on_body(self, answer: HeldAnswer, at_ns: int) -> list[AnswerStep]:
        body = answer.body
        content, self._read = body.feed(self._held, self._read)
        if body.broken:
            return self._give_up()
        steps: list[AnswerStep] = []
        if answer.is_whole:
            answer.parts.append(content)
            if self._read <= LIMIT_BYTES:
                return self._body_steps(answer) if body.over else []
            if self._fails_closed and answer.expected.is_gated:
                return self._refuse_answer(answer, TOO_LONG)
            answer.is_whole = answer.is_stream = False
        if answer.is_stream:
            answer.blocks += answer.framer.feed(content, at_ns)
            answer.held_bytes += len(content)
            is_complete = answer.held_bytes == sum(len(block.raw) for block in answer.blocks)
            is_between = not isinstance(body, ChunksOf) or body.is_between
            is_gated = self._fails_closed and answer.expected.is_gated
            if is_complete and is_between and answer.blocks:
                steps = self._event_steps(answer)
            elif is_gated and body.over and (answer.held_bytes or answer.unseen):
                steps = self._event_steps(answer, answer.framer.spill())
            elif is_gated and answer.held_bytes > LIMIT_BYTES:
                return self._refuse_answer(answer, TOO_LONG)
            elif not answer.blocks and not answer.held_bytes and is_between:
                steps = self._pass_bytes(self._read)
            elif answer.held_bytes > LIMIT_BYTES:
                answer.is_stream = False
        if body.over:
            self._answer = None
        if not answer.is_stream or body.over:
            steps += self._pass_bytes(self._read)
        return steps

    def _body_steps(self, answer: HeldAnswer) -> list[AnswerStep]:
        """Return the steps for a body that is complete."""
        raw, content = self._held[: self._read], b"".join(answer.parts)
        steps = (self._faults.stream if answer.is_stream else self._faults.body)(answer, raw, content)
        self._answer = None
        self._held, self._read = self._held[self._read :], 0
        return self._faults.passed(answer, raw, content) if steps is None else steps

    def _event_steps(self, answer: HeldAnswer, tail: bytes = b"") -> list[AnswerStep]:
        """Return the steps for complete events. ``tail`` is the beginning of an unfinished event."""
        blocks, answer.blocks, answer.held_bytes = answer.blocks, [], 0
        steps = self._faults.events(answer, self._held[: self._read], blocks, tail)
        if steps is None:
            return self._pass_bytes(self._read)
        self._held, self._read = self._held[self._read :], 0
        return steps
