"""Reduce the steps that show a fault: first to fewer steps, then to smaller messages.

Steps are removed by delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input", IEEE Transactions on Software Engineering 28, 2002), after a guess that is right for most faults: that
the last step alone is the cause.
"""

import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from mcpproxy.peers.fuzz.material import leaves
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.protocol.jsonrpc import Batch, parse
from mcpproxy.protocol.raw_json import without_value

Test = Callable[[list[FuzzStep]], Awaitable[bool]]
"""Sends steps to a fresh server, and returns whether the fault shows again."""

_RUN: Final = re.compile(rb"(.)\1{15,}", re.DOTALL)
"""The same byte many times: a long text, or brackets."""
_LIST: Final = re.compile(rb"\[0(?:,0){15,}\]")
"""A long array of zeros."""
_SHORT: Final = 40
"""Texts of at most this many bytes are not shortened, nor are runs, except those of brackets."""
_TEXT: Final = re.compile(rb'"([^"\\\x80-\xff]*)"(?!\s*:)')
"""A text without escapes that is a value, not the name of a member."""


class Minimiser:
    """Reduces steps. ``test`` is called at most ``limit`` times.

    After ``shrinks_until`` messages are no longer made smaller, and after ``reduces_until`` steps are no
    longer removed, either; both are times of ``time.monotonic``.
    """

    def __init__(self, test: Test, limit: int, shrinks_until: float, reduces_until: float) -> None:
        self._test: Final = test
        self._tests_left = limit
        self._shrinks_until: Final = min(shrinks_until, reduces_until)
        self._reduces_until: Final = reduces_until

    async def minimise(self, steps: Sequence[FuzzStep]) -> list[FuzzStep] | None:
        """Return a list of few and small steps that shows the fault; ``None`` if not even all show it."""
        opening = [step for step in steps if step.is_handshake]
        rest = [step for step in steps if not step.is_handshake]

        def with_handshakes(part: Sequence[FuzzStep]) -> list[FuzzStep]:
            """Return ``part`` with the handshakes of its sessions, in the order of ``steps``."""
            kept = {id(step) for step in part} | {id(step) for step in opening}
            sessions = {step.session for step in part}
            return [step for step in steps if id(step) in kept and step.session in sessions]

        for count in _tail_lengths(len(rest)):
            if await self._shows_fault(with_handshakes(rest[-count:])):
                fewer = await self._remove_steps(rest[-count:], with_handshakes)
                return await self._shrink_steps(with_handshakes(fewer))
        return None

    async def _shows_fault(self, steps: list[FuzzStep]) -> bool:
        if self._tests_left <= 0:
            return False
        self._tests_left -= 1
        return await self._test(steps)

    async def _remove_steps(
        self, steps: list[FuzzStep], with_handshakes: Callable[[Sequence[FuzzStep]], list[FuzzStep]]
    ) -> list[FuzzStep]:
        """Return fewer steps that still show the fault: large parts are removed first, then smaller ones."""
        parts = 2
        while len(steps) > 1 and time.monotonic() < self._reduces_until:
            size = max(1, len(steps) // parts)
            for start in range(0, len(steps), size):
                if time.monotonic() >= self._reduces_until:
                    return steps
                rest = steps[:start] + steps[start + size :]
                if rest and await self._shows_fault(with_handshakes(rest)):
                    steps, parts = rest, max(2, parts - 1)
                    break
            else:
                if size == 1:
                    break
                parts = min(len(steps), parts * 2)
        return steps

    async def _shrink_steps(self, steps: list[FuzzStep]) -> list[FuzzStep]:
        """Return ``steps`` with smaller or original messages, in one piece if the pieces do not matter."""
        for index, step in enumerate(steps):
            if step.is_handshake or not step.is_mutated or time.monotonic() >= self._reduces_until:
                continue
            restored = step.restored()
            is_last = index + 1 == len(steps)
            if restored and not is_last:
                candidate = [*steps[:index], restored, *steps[index + 1 :]]
                if await self._shows_fault(candidate):
                    steps = candidate
                    continue
            if step.pieces:
                plain = replace(step, pieces=(), ids=step.ids[:1])
                if await self._shows_fault([*steps[:index], plain, *steps[index + 1 :]]):
                    steps[index] = step = plain
                else:
                    continue
            is_smaller = True
            while is_smaller and time.monotonic() < self._shrinks_until:
                is_smaller = False
                for raw in _shorter_messages(step):
                    if time.monotonic() >= self._shrinks_until:
                        break
                    smaller = replace(step, raw=raw)
                    if await self._shows_fault([*steps[:index], smaller, *steps[index + 1 :]]):
                        steps[index] = step = smaller
                        is_smaller = True
                        break
        return steps


def _tail_lengths(length: int) -> Iterator[int]:
    """Yield how many of the last steps to try: 1, 2, 8, 32 and so on, and finally all."""
    count = 1
    while count < length:
        yield count
        count *= 4 if count > 1 else 2
    if length:
        yield length


def _shorter_messages(step: FuzzStep) -> Iterator[bytes]:
    """Yield shorter forms of the message of ``step``, the most effective ones first."""
    raw = step.raw
    runs = [run for run in _RUN.finditer(raw) if run[1] not in b"[]" and len(run[0]) > _SHORT]
    for run in runs[:2]:
        for part in (16, 2):
            yield raw[: run.start()] + run[1] * max(1, len(run[0]) // part) + raw[run.end() :]
    if listed := _LIST.search(raw):
        yield raw[: listed.start()] + b"[0]" + raw[listed.end() :]
    deep = next((run for run in _RUN.finditer(raw) if run[1] == b"["), None)
    if deep and raw[deep.end() : deep.end() + len(deep[0])] == b"]" * len(deep[0]):
        for part in (16, 2):
            depth = len(deep[0]) // part
            yield raw[: deep.start()] + b"[" * depth + b"]" * depth + raw[deep.end() + len(deep[0]) :]
    message = parse(raw) if len(raw) < 1 << 16 else None
    if message is None or isinstance(message, Batch) or not isinstance(message.value, dict):
        return
    places = [place for place, _ in leaves(message.value, depth=3)]
    for place in places:
        is_kept = len(place) == 1 or place[0] != "params" or place[-1] == "name" or "_meta" in place[:-1]
        if not is_kept and (without := without_value(raw, place)) is not None:
            yield without
    for run in _TEXT.finditer(raw):
        if len(run[1]) > _SHORT and b"mk" not in run[1]:
            yield raw[: run.start(1)] + run[1][: len(run[1]) // 2] + raw[run.end(1) :]
