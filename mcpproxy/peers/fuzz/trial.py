"""A trial: send steps in a fresh session, and look for faults of the server."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal

from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.peers.fuzz.material import Material
from mcpproxy.peers.fuzz.steps import MARKER, FuzzStep
from mcpproxy.peers.fuzz.symptoms import Symptom, excuses_server, violation_symptom
from mcpproxy.peers.fuzz.trial_peers import HttpPeer, Peer, StdioPeer
from mcpproxy.peers.validate.errors import ValidateError
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.protocol.jsonrpc import ErrorResponse, Request, RequestId, Response, parse
from mcpproxy.protocol.message_parts import singles
from mcpproxy.protocol.raw_json import messages_with_bytes

Pings = Literal["each", "end", "none"]
"""After which steps a ping checks whether the server still answers.

``each`` is each step except those of the handshake, ``end`` only the last step."""

_SLOW_ANSWER_S: Final = 0.02
"""How long to wait for an answer to a request that was not answered in time before."""


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Time limits in seconds.

    ``ping_s`` is for the answer to a ping. ``start_s`` is for the answer to the recorded handshake,
    ``first_s`` for the answer to any other message that is sent first. ``answer_s`` is for other answers;
    after it, the next step is sent, and that is no fault, because a tool may take as long as it likes.
    """

    ping_s: float = 10.0
    start_s: float = 60.0
    answer_s: float = 1.0
    first_s: float = 10.0


@dataclass(slots=True)
class TrialResult:
    """The result of a trial. ``path`` is its recording, with ``frames`` messages in both directions.

    ``sent`` is how many steps were sent. ``gap`` says why the recording or its judgement is incomplete; empty
    if it is complete. ``slow`` are the methods (with tool names), and the changes, that were not answered in
    time. ``ping_s`` is the time of the slowest ping, ``first_s`` the time to the first answer. ``is_opened``
    says that there was an answer, or that the server ended instead; over HTTP it may not have been the answer
    of an MCP server, and ``refusal`` says why. ``ends_at_ping`` says that the server ended at our ping after
    the last step, not at the step itself.
    """

    path: str
    symptoms: list[Symptom] = field(default_factory=list[Symptom])
    frames: int = 0
    sent: int = 0
    gap: str = ""
    slow: set[str] = field(default_factory=set[str])
    ping_s: float = 0.0
    first_s: float = 0.0
    last_seq: int = 0
    """The number of the last frame or head before the last step."""
    is_opened: bool = False
    refusal: ValidateError | None = None
    ends_at_ping: bool = False

    def symptom(self, key: str) -> Symptom | None:
        """Return the symptom with that key; ``None`` if the trial did not show it."""
        return next((symptom for symptom in self.symptoms if symptom.key == key), None)


class Trial:
    """Runs trials against ``target``, each recorded and judged by ``rules``."""

    def __init__(self, target: Target, material: Material, rules: Ruleset) -> None:
        self._target: Final = target
        self._material: Final = material
        self._rules: Final = rules

    async def run(
        self,
        steps: Sequence[FuzzStep],
        path: str,
        limits: TrialLimits,
        *,
        pings: Pings = "each",
        is_orderly: bool = False,
        slow: frozenset[str] = frozenset(),
        deadline: float = inf,
    ) -> TrialResult:
        """Send ``steps`` to a fresh session, and record it at ``path``, a file that does not exist.

        No step is sent after ``deadline``, a time of ``time.monotonic``. With ``is_orderly`` the session is
        ended as a client should end it; otherwise the process is killed. For methods and changes in ``slow``,
        the next step is sent almost at once.

        Raises:
            CouldNotStartError: the command cannot be run.
        """
        recording = Recordings(self._rules, path, "", "fuzz").begin("fuzz", self._target)
        peer_class = HttpPeer if self._target.url else StdioPeer
        peer: Peer = peer_class(self._target, recording, self._material)
        result = TrialResult(path)
        watch = _Watch(peer, result)
        try:
            await peer.open()
            await self._send_steps(steps, peer, watch, result, limits, pings, slow, deadline)
        finally:
            await peer.close(is_orderly=is_orderly)
            result.frames = recording.frames
            result.gap = recording.fault or recording.judge_fault
        return result

    async def _send_steps(
        self,
        steps: Sequence[FuzzStep],
        peer: Peer,
        watch: "_Watch",
        result: TrialResult,
        limits: TrialLimits,
        pings: Pings,
        slow: frozenset[str],
        deadline: float,
    ) -> None:
        for index, step in enumerate(steps):
            if time.monotonic() >= deadline:
                return
            watch.note_markers(step)
            known_slow = slow | result.slow
            is_slow = step.method in known_slow or step.what in known_slow
            answer_s = _SLOW_ANSWER_S if is_slow else limits.answer_s
            if not result.is_opened:
                answer_s = limits.start_s if step.is_handshake else limits.first_s
            began = time.monotonic()
            result.last_seq = peer.recording.seq
            symptom = await peer.send(step, index, answer_s)
            result.sent = index + 1
            if peer.is_silent:
                result.slow.add(step.what if step.is_mutated else step.method)
            elif step.ids and not result.is_opened:
                result.is_opened, result.refusal = True, peer.refusal
                result.first_s = time.monotonic() - began
            is_last = index + 1 == len(steps)
            is_pinged = (pings == "each" and not step.is_handshake) or (pings == "end" and is_last)
            if symptom is None and not peer.is_gone and is_pinged:
                began = time.monotonic()
                symptom = await peer.ping(step, index, limits.ping_s)
                result.ping_s = max(result.ping_s, time.monotonic() - began)
                result.ends_at_ping = symptom is not None and symptom.kind == "crash"
            watch.look_for_faults(step, index)
            if symptom is not None:
                result.symptoms.append(symptom)
            if peer.is_gone or (symptom is not None and symptom.kind == "hang"):
                return


class _Watch:
    """Looks for violations and leaks in the messages of the server."""

    def __init__(self, peer: Peer, result: TrialResult) -> None:
        self._peer: Final = peer
        self._result: Final = result
        self._judged_count = 0  # how many findings were looked at
        self._is_provoked = False  # whether the server is excused, by a step or by a finding so far
        self._frame_counts: Final[dict[int, int]] = {}  # number of a client -> how many frames were looked at
        self._markers_of: Final[dict[RequestId, set[bytes]]] = {}  # id of a request -> the markers in it
        self._read_only: Final[dict[bytes, FuzzStep]] = {}  # marker -> the read-only request that has it
        self._seen: Final[set[str]] = set()  # the keys of the symptoms so far

    def note_markers(self, step: FuzzStep) -> None:
        """Note the markers of a step before it is sent."""
        for raw in b"".join(step.pieces).splitlines() or [step.raw]:
            markers = set(MARKER.findall(raw))
            if not markers:
                continue
            message = parse(raw)
            for single in singles(message):
                if isinstance(single, Request) and single.id is not None:
                    self._markers_of.setdefault(single.id, set()).update(markers)
            if step.is_read_only:
                self._read_only.update(dict.fromkeys(markers, step))

    def look_for_faults(self, step: FuzzStep, index: int) -> None:
        """Look at all findings and frames since the last call; faults in them are faults after ``step``."""
        findings = self._peer.recording.findings
        new_findings = findings[self._judged_count :]
        self._judged_count = len(findings)
        is_provoked_now = any(map(excuses_server, new_findings))
        self._is_provoked = self._is_provoked or is_provoked_now or not (step.is_lawful and step.is_portable)
        for finding in new_findings:
            symptom = violation_symptom(finding, step, index, is_provoked=self._is_provoked)
            if symptom is not None and not (is_provoked_now and symptom.is_provoked):
                self._add_symptom(symptom)
        for number, client in enumerate(self._peer.clients()):
            for frame in client.received[self._frame_counts.get(number, 0) :]:
                if MARKER.search(frame.raw):
                    for single, raw in messages_with_bytes(frame.message, frame.raw):
                        if isinstance(single, Response | ErrorResponse):
                            self._look_for_leak(single, raw, index)
            self._frame_counts[number] = len(client.received)

    def _look_for_leak(self, answer: Response | ErrorResponse, raw: bytes, index: int) -> None:
        if not isinstance(answer.id, int | str):
            return  # it is unknown which request it answers
        own = self._markers_of.get(answer.id, set[bytes]())
        for marker in MARKER.findall(raw):
            source = self._read_only.get(marker)
            if source is not None and marker not in own:
                text = f"an answer contains a value of another request ({source.method})"
                key = f"leak of {source.method}"
                self._add_symptom(Symptom("leak", key, text, index, marker))

    def _add_symptom(self, symptom: Symptom) -> None:
        if symptom.key not in self._seen:
            self._seen.add(symptom.key)
            self._result.symptoms.append(symptom)
