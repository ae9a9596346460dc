"""Confirm a suspected fault: reduce its steps, send them again, and keep the recording.

A fault is reported only if it shows again. Its steps are sent to a fresh server with generous time limits.
The same steps without their changes are sent as a control, which must not show the fault.

The fuzzer cannot restart a server behind a URL. If such a server hangs or ends, and does not come back by
itself, nothing can be repeated. Then the first recording is trimmed to the last step, and the fault is
reported as not confirmed.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Final

from mcpproxy.base import paths
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.peers.fuzz.draws import Draws
from mcpproxy.peers.fuzz.errors import NotBackError
from mcpproxy.peers.fuzz.material import Material
from mcpproxy.peers.fuzz.minimise import Minimiser
from mcpproxy.peers.fuzz.mutations.mutant import Supply, probe_template
from mcpproxy.peers.fuzz.plan import handshake_steps
from mcpproxy.peers.fuzz.replayed import replay_shows_fault
from mcpproxy.peers.fuzz.results import ServerFault
from mcpproxy.peers.fuzz.steps import FuzzStep, restored_steps
from mcpproxy.peers.fuzz.symptoms import Symptom
from mcpproxy.peers.fuzz.trial import Pings, Trial, TrialLimits, TrialResult
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.read.edit.trim import trimmed
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.copy import write_trace

_TRIALS: Final = 40
"""How many trials may be spent on reducing the steps of a fault."""
_SMALLER_S: Final = 20.0
"""After this time, in seconds, no message of the fault is made smaller."""
_TRIALS_OF_HANG: Final = 16
"""How many trials may be spent on reducing the steps of a hang: they take long."""
_BACK_S: Final = 10.0
"""How long to wait for a server behind a URL to come back."""
_RETRY_S: Final = 0.5
"""How long to wait between two attempts to reach it."""


@dataclass(frozen=True, slots=True)
class SuspectedFault:
    """A fault that one trial showed: the ``steps`` up to it, and the trial, whose recording still exists.

    ``started`` is the start of the run, by ``time.monotonic``, and ``after_s`` the time from then to the
    fault.
    """

    symptom: Symptom
    steps: Sequence[FuzzStep]
    trial: TrialResult
    after_s: float
    started: float


class Trials:
    """Runs trials, whose recordings are made in the folder ``scratch``."""

    def __init__(self, target: Target, material: Material, rules: Ruleset, scratch: str) -> None:
        self.target: Final = target
        self.material: Final = material
        self.rules: Final = rules
        self.slow: Final[set[str]] = set()
        """The methods (with tool names), and the changes, that were not answered in time so far."""
        self._trial: Final = Trial(target, material, rules)
        self._scratch: Final = scratch
        self._paths = 0

    async def run(
        self,
        steps: Sequence[FuzzStep],
        limits: TrialLimits,
        *,
        pings: Pings = "each",
        is_kept: bool = False,
        is_orderly: bool = False,
        deadline: float = inf,
    ) -> TrialResult:
        """Run one trial, as ``Trial.run`` does; its recording is deleted unless ``is_kept``."""
        path = self.new_path()
        result = await self._trial.run(
            steps,
            path,
            limits,
            pings=pings,
            is_orderly=is_orderly,
            slow=frozenset(self.slow),
            deadline=deadline,
        )
        if not is_kept:
            os.unlink(path)
        return result

    async def wait_until_back(self, limits: TrialLimits) -> bool:
        """Wait until the server answers the recorded handshake, or without one a request.

        Return whether it did within ``_BACK_S``.
        """
        until = time.monotonic() + _BACK_S
        opening = handshake_steps(self.material)
        opening = opening or [Supply(Draws(0)).plain_step(probe_template(self.material))]
        quick = TrialLimits(limits.ping_s, min(limits.start_s, _BACK_S), limits.answer_s, limits.first_s)
        while True:
            result = await self.run(opening, quick, pings="end")
            if not any(symptom.kind in ("hang", "crash") for symptom in result.symptoms):
                return True
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(_RETRY_S)

    def new_path(self) -> str:
        """Return the path of a recording that does not exist."""
        self._paths += 1
        return os.path.join(self._scratch, f"{self._paths}.jsonl")


class Confirmer:
    """Confirms faults, and keeps their recordings in ``folder``.

    ``search`` are the time limits while steps are reduced, ``generous`` the limits afterwards. The run ends
    at ``deadline``, a time of ``time.monotonic``. Half of the remaining time may be spent on reducing the
    steps of a fault.

    ``excused`` are the causes that a control shows as well; causes that a control shows here are added.
    """

    def __init__(
        self,
        trials: Trials,
        folder: str,
        search: TrialLimits,
        generous: TrialLimits,
        excused: set[str],
        deadline: float,
    ) -> None:
        self._trials: Final = trials
        self._deadline: Final = deadline
        self._folder: Final = folder
        self._search: Final = search
        self._generous: Final = generous
        self._excused: Final = excused
        self._kept = 0

    async def confirm_fault(self, suspect: SuspectedFault) -> ServerFault | None:
        """Return the fault, with its recording in the folder; ``None`` if it cannot be confirmed.

        Raises:
            NotBackError: the server does not come back, so that nothing can be repeated.
            TimeoutError: the run is over before the fault is confirmed.
        """
        symptom = suspect.symptom
        pings: Pings = "none" if symptom.kind == "leak" else "end"

        async def shows_fault(candidate: list[FuzzStep]) -> bool:
            await self._await_server(symptom)
            result = await self._trials.run(candidate, self._search, pings=pings)
            return result.symptom(symptom.key) is not None

        limit = _TRIALS_OF_HANG if symptom.kind == "hang" else _TRIALS
        now = time.monotonic()
        minimiser = Minimiser(shows_fault, limit, now + _SMALLER_S, now + self._left_s() / 2)
        async with asyncio.timeout(self._left_s()):
            small = await minimiser.minimise(suspect.steps)
            repeated = await self._repeat_fault(symptom, small, pings) if small else None
        if small is None or repeated is None:
            return None
        result, seen = repeated
        trace = self._free_path(symptom)
        shutil.move(result.path, trace)
        target, rules = self._trials.target, self._trials.rules
        is_replayed = None
        with suppress(TimeoutError):
            async with asyncio.timeout(self._left_s()):
                await self._await_server(symptom)
                is_replayed = await replay_shows_fault(
                    trace, seen, target, rules, self._trials.new_path(), self._search.ping_s
                )
        changed = [step for step in small if step.is_mutated] or small[-1:]
        is_lawful = all(step.is_lawful for step in small)
        return ServerFault(
            symptom.kind,
            seen.text,
            changes_text(changed),
            trace,
            result.frames,
            is_replayed,
            is_lawful,
            suspect.after_s,
            time.monotonic() - suspect.started,
            severity=seen.severity,
        )

    def unconfirmed_fault(self, suspect: SuspectedFault) -> ServerFault:
        """Return a fault that cannot be repeated, with its first recording, trimmed to the last step."""
        trace = self._free_path(suspect.symptom)
        seq = suspect.trial.last_seq
        header, lines = trimmed(open_trace(suspect.trial.path), lambda number: number > seq)
        tally = write_trace(trace, header, lines)
        step = suspect.steps[-1]
        return ServerFault(
            suspect.symptom.kind,
            suspect.symptom.text,
            changes_text([step]),
            trace,
            sum(tally.frames.values()),
            is_replayed=None,
            is_lawful=step.is_lawful,
            after_s=suspect.after_s,
            took_s=time.monotonic() - suspect.started,
            is_confirmed=False,
            severity=suspect.symptom.severity,
        )

    def _left_s(self) -> float:
        return self._deadline - time.monotonic()

    async def _await_server(self, symptom: Symptom) -> None:
        """If the symptom ends a server behind a URL, wait until that server is back.

        Raises:
            NotBackError: it does not come back.
        """
        is_at_risk = symptom.ends_server and bool(self._trials.target.url)
        if is_at_risk and not await self._trials.wait_until_back(self._search):
            raise NotBackError

    async def _repeat_fault(
        self, symptom: Symptom, steps: list[FuzzStep], pings: Pings
    ) -> tuple[TrialResult, Symptom] | None:
        """Send the steps once more with generous time limits, and then the control.

        Return the recorded trial and the symptom in it; ``None`` if the fault is not confirmed.
        """
        await self._await_server(symptom)
        run = self._trials.run
        result = await run(steps, self._generous, pings=pings, is_kept=True, is_orderly=True)
        seen = result.symptom(symptom.key)
        if seen is None or seen.is_provoked or result.gap:
            return None
        if seen.kind == "hang" and any(step.method == "initialize" and step.is_mutated for step in steps):
            return None  # a server need not answer in a session that was not opened
        if symptom.kind == "leak":
            unchanged = [step for step in steps if seen.marker not in step.markers]
        else:
            unchanged = restored_steps(steps)
        await self._await_server(symptom)
        control = await run(unchanged, self._generous, pings=pings)
        if any(other.cause == symptom.cause for other in control.symptoms):
            self._excused.add(symptom.cause)
            return None
        return result, seen

    def _free_path(self, symptom: Symptom) -> str:
        """Return an unused path in the folder for the recording of a fault."""
        paths.make_private(self._folder)
        self._kept += 1
        name = paths.safe("-".join(symptom.key.split(" ")[:3]))
        return paths.free(os.path.join(self._folder, f"{self._kept:02}-{name}.jsonl"))


def changes_text(steps: Sequence[FuzzStep]) -> str:
    """Return a description of the changes in ``steps``, for the user."""
    return "; ".join(dict.fromkeys(f"{step.method} {step.what}".strip() for step in steps))
