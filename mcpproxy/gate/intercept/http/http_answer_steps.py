"""What a tunnel has to do with the answers of a server, and how events and bodies are written."""

import json
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.http.http_heads import new_head
from mcpproxy.gate.intercept.policies import Instead, MetFault, Passing
from mcpproxy.judge.session.frame import FaultMark
from mcpproxy.record.framing.bodies import Body, Chunked
from mcpproxy.record.framing.sse import SseBlock, SseFramer

LIMIT_BYTES: Final = 16 << 20
"""The longest body or event that is held."""

AnswerStepKind: TypeAlias = Literal["pass", "alter", "give", "wait", "hold", "ask", "end"]


@slotted(frozen=True)
class AnswerStep:
    """What the tunnel has to do next.

    ``pass``: forward ``data`` as it is. ``alter``: only record ``data``, which the server sent. ``give``:
    send ``data`` to the client; ``content`` is what is recorded, a ``head``, ``body`` or ``event`` as
    ``part`` says. ``wait``: so many nanoseconds. ``hold``: until the message ``passing`` is released, as the
    breakpoint ``met`` says; ``go_on`` returns the steps for what is given then, ``None`` for nothing.
    ``ask``: call ``hook`` of the addons for the message ``passing`` in the bytes ``data``; ``on_answer``
    returns the steps for what they put in its place, ``None`` if it passes. ``end``: close the connection,
    with a reset if ``is_reset``. ``has_more`` says that something follows with the same ``fault``.
    """

    kind: AnswerStepKind
    data: bytes = b""
    fault: FaultMark | None = None
    content: bytes = b""
    part: str = ""
    delay_ns: int = 0
    has_more: bool = False
    is_reset: bool = False
    passing: Passing | None = None
    met: MetFault | None = None
    go_on: "Callable[[bytes | None], list[AnswerStep]]" = lambda _: []
    hook: str = ""
    on_answer: "Callable[[Instead | None], list[AnswerStep]]" = lambda _: []


class ChunksOf(Chunked):
    """A chunked body that knows whether it is between two chunks, and where its last chunk begins."""

    @property
    def is_between(self) -> bool:
        """Whether no chunk is incomplete."""
        return self.over or (not self._left and not self._line and self._read == Chunked._size)

    def last_chunk(self, raw: bytes) -> bytes:
        """Return the last chunk, which has no content, and the trailers, at the end of ``raw``."""
        end_of_size = len(raw) - len(self._lines or b"")
        return raw[raw.rfind(b"\n", 0, end_of_size - 1) + 1 :]


@slotted()
class ExpectedAnswer:
    """A request whose answer is expected: its session and method; a fault that meets the answer's head.

    ``is_gated``: the answer has to pass a gate that fails closed. ``id``: of the request that waits for an
    answer, as JSON has it; empty if there is none. ``target``: path and query.
    """

    session: str
    method: str
    decision: FaultDecision | None = None
    is_gated: bool = False
    id: bytes = b""
    target: str = ""


@slotted()
class HeldAnswer:
    """An answer whose body has not ended: how it is read, and what is known of it."""

    body: Body
    expected: ExpectedAnswer
    head: bytes
    is_whole: bool
    """Whether nothing of it passes before all of it has come."""
    is_stream: bool
    parts: list[bytes] = field(default_factory=list[bytes])
    """The content of a body that has to be complete."""
    framer: SseFramer = field(default_factory=SseFramer)
    blocks: list[SseBlock] = field(default_factory=list[SseBlock])
    unseen: str = ""
    """Why no addon can be asked about the body, unless it is empty."""
    held_bytes: int = 0
    """How many bytes of events were read and not passed on."""


def given_steps(fault: FaultMark, head: bytes, body: bytes, content: bytes) -> list[AnswerStep]:
    """Return the steps that give a head and a body, whose content is ``content``."""
    return [
        AnswerStep("give", head, fault, head, "head", has_more=True),
        AnswerStep("give", body, fault, content, "body"),
    ]


def given_head(answer: HeldAnswer) -> bytes:
    """Return the head of an answer as a rule about heads makes it."""
    decision = answer.expected.decision
    return new_head(decision.rule.action, answer.head) if decision else answer.head


def is_pause(met: MetFault) -> bool:
    """Whether a rule holds the message at a breakpoint."""
    return met.decision.rule.action.verb == "pause"


def cut_at(decision: FaultDecision, raw: bytes) -> int:
    """Return how many bytes are left of what is cut: as many as the rule says, or half of them."""
    return min(decision.rule.action.count or len(raw) // 2, len(raw) - 1)


def coded(body: Body, content: bytes) -> bytes:
    """Return content in the transfer coding of ``body``."""
    if not isinstance(body, Chunked) or not content:
        return content
    return b"%x\r\n%s\r\n" % (len(content), content)


def with_data(block: SseBlock, data: bytes) -> bytes:
    """Return an event with other data."""
    if block.data_span is not None and b"\n" not in data and b"\r" not in data:
        start, stop = block.data_span
        return block.raw[:start] + data + block.raw[stop:]
    lines = [line for line in block.raw.splitlines() if line and not line.startswith(b"data")]
    lines += [b"data: " + line for line in data.splitlines()]
    return b"\n".join(lines) + b"\n\n"


def marked(fault: FaultMark, data: bytes, part: str = "", *, has_more: bool = False) -> bytes:
    """Return the payload of a record about a fault."""
    mark: dict[str, object] = {"rule": fault.rule, "action": fault.action, "number": fault.number}
    if part:
        mark["part"] = part
    if has_more:
        mark["more"] = True
    return json.dumps(mark).encode() + b"\n" + data
