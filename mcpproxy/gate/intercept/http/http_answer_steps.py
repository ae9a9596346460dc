"""The steps by which a tunnel handles a server's answers, and functions that write events and bodies.

A tunnel is a client connection to the proxy, with its connections to the server.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.http.http_heads import new_head
from mcpproxy.gate.intercept.policies import AppliedFault, Instead, Passing
from mcpproxy.judge.session.frame import FaultMark
from mcpproxy.record.framing.bodies import Body, Chunked
from mcpproxy.record.framing.sse import SseBlock, SseFramer

AnswerStepKind: TypeAlias = Literal["pass", "alter", "give", "wait", "hold", "ask", "end"]


@slotted(frozen=True)
class AnswerStep:
    """What the tunnel has to do next, by ``kind``.

    - ``pass``: forward ``data`` as it is.
    - ``alter``: only record ``data``, which the server sent.
    - ``give``: send ``data`` to the client, and record ``content``, a ``head``, ``body`` or ``event`` as
      ``part`` says.
    - ``wait``: wait for ``delay_ns`` nanoseconds.
    - ``hold``: wait until the message ``passing`` is released from the breakpoint ``applied``. Then call
      ``on_release`` with the bytes to give, or with ``None`` to give nothing; it returns the next steps.
    - ``ask``: ask addons by ``hook`` about the message ``passing``, which is in the bytes ``data``. Then call
      ``on_outcome`` with the replacement, or with ``None`` if the message passes; it returns the next steps.
    - ``end``: close the connection, with a reset if ``is_reset``.

    ``has_more`` says that a record with the same ``fault`` follows.
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
    applied: AppliedFault | None = None
    on_release: "Callable[[bytes | None], list[AnswerStep]]" = lambda _: []
    hook: str = ""
    on_outcome: "Callable[[Instead | None], list[AnswerStep]]" = lambda _: []


class ChunksOf(Chunked):
    """A chunked body that can tell whether it is outside of a chunk, and where its last chunk begins."""

    @property
    def is_between(self) -> bool:
        """Whether the bytes read so far end where a chunk may begin, or after the whole body."""
        return self.over or (not self._left and not self._line and self._read == Chunked._size)

    def last_chunk(self, raw: bytes) -> bytes:
        """Return the last chunk, which has no content, and the trailers; ``raw`` ends with them."""
        end_of_size = len(raw) - len(self._lines or b"")
        return raw[raw.rfind(b"\n", 0, end_of_size - 1) + 1 :]


@slotted()
class ExpectedAnswer:
    """A forwarded request whose answer is expected.

    ``session`` is its ``Mcp-Session-Id``, and ``method`` its HTTP method. ``decision`` is a fault that
    changes the head of the answer. ``is_gated``: an addon that fails closed has to see the answer. ``id`` is
    the id, in JSON, of the JSON-RPC request that waits for an answer; empty if there is none, or a fault rule
    acted on it. ``target`` is its path and query.
    """

    session: str
    method: str
    decision: FaultDecision | None = None
    is_gated: bool = False
    id: bytes = b""
    target: str = ""


@slotted()
class HeldAnswer:
    """An answer that is being read and whose body has not ended yet."""

    body: Body
    expected: ExpectedAnswer
    head: bytes
    is_whole: bool
    """Whether all of it has to arrive before any of it passes."""
    is_stream: bool
    """Whether it is an event stream."""
    parts: list[bytes] = field(default_factory=list[bytes])
    """The content of the body so far, if all of it has to arrive first."""
    framer: SseFramer = field(default_factory=SseFramer)
    blocks: list[SseBlock] = field(default_factory=list[SseBlock])
    """The complete events of a stream that are held."""
    unseen: str = ""
    """Why no addon can be asked about the body, or about an event in it; empty if there is no such reason."""
    held_bytes: int = 0
    """How many bytes of events were read and not passed on."""


def given_steps(fault: FaultMark, head: bytes, body: bytes, content: bytes) -> list[AnswerStep]:
    """Return the steps that give a head and a body; ``content`` is the body without its transfer coding."""
    return [
        AnswerStep("give", head, fault, head, "head", has_more=True),
        AnswerStep("give", body, fault, content, "body"),
    ]


def given_head(answer: HeldAnswer) -> bytes:
    """Return the head of an answer, changed if a rule changes it."""
    decision = answer.expected.decision
    return new_head(decision.rule.action, answer.head) if decision else answer.head


def cut_at(decision: FaultDecision, raw: bytes) -> int:
    """Return how many bytes of ``raw`` a ``cut`` leaves: as many as the rule says, or half, but never all."""
    return min(decision.rule.action.count or len(raw) // 2, len(raw) - 1)


def coded(body: Body, content: bytes) -> bytes:
    """Return ``content`` in the transfer coding of ``body``: as a chunk, or as it is."""
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
