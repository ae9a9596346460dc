"""What becomes of a fault that was met: its steps are made few, it is confirmed, and its recording is kept.

A fault is reported only if it holds again. Its steps are sent from scratch with generous times, and the same
steps without a change are sent as a control, which must not show it.

A server behind a URL that hangs or is gone cannot be started by us. If it does not come back by itself,
nothing can be repeated: then the recording of what was met is trimmed to the last step, and the fault is
told as not confirmed.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from mcpproxy.base import paths
from mcpproxy.edit.trim import trimmed
from mcpproxy.fuzz.errors import NotBackError
from mcpproxy.fuzz.material import Material
from mcpproxy.fuzz.minimise import Minimiser
from mcpproxy.fuzz.plan import handshake
from mcpproxy.fuzz.replayed import repeats
from mcpproxy.fuzz.results import ServerFault
from mcpproxy.fuzz.steps import FuzzStep, with_control
from mcpproxy.fuzz.symptoms import Symptom
from mcpproxy.fuzz.trial import Pings, Trial, TrialLimits, TrialResult
from mcpproxy.opening import open_trace
from mcpproxy.ruleset.ruleset import Ruleset
from mcpproxy.trace.copy import write_trace
from mcpproxy.validate.recordings import Target

_TRIALS: Final = 40
"""How many trials may be spent on making a fault small."""
_SMALLER_S: Final = 20.0
"""How long steps are made smaller."""
_TRIALS_OF_HANG: Final = 16
_BACK_S: Final = 10.0
"""How long to wait for a server behind a URL to come back."""
_RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Met:
    """A fault as it was met: the ``steps`` up to it, and the trial, whose recording still exists.

    ``after_s`` is the time since the run began, of which ``started`` is the start by ``time.monotonic``.
    """

    symptom: Symptom
    steps: Sequence[FuzzStep]
    trial: TrialResult
    after_s: float
    started: float


class Trials:
    """Runs trials with recordings in a folder of their own, ``scratch``."""

    def __init__(self, target: Target, material: Material, rules: Ruleset, scratch: str) -> None:
        self.target: Final = target
        self.material: Final = material
        self.rules: Final = rules
        self.slow: Final[set[str]] = set()
        """What did not answer in time so far."""
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
        """Run one trial; its recording is deleted unless ``is_kept``. The rest is as for ``Trial.run``."""
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

    async def comes_back(self, limits: TrialLimits) -> bool:
        """Whether the server answers the recorded handshake, at once or within a while."""
        until = time.monotonic() + _BACK_S
        opening = handshake(self.material)
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


class Settlement:
    """Settles faults. ``search`` are the limits for making steps few, ``generous`` those for confirming.

    ``excused`` are the causes that the control shows as well; what is found there is added.
    """

    def __init__(
        self, trials: Trials, folder: str, search: TrialLimits, generous: TrialLimits, excused: set[str]
    ) -> None:
        self._trials: Final = trials
        self._folder: Final = folder
        self._search: Final = search
        self._generous: Final = generous
        self._excused: Final = excused
        self._kept = 0

    async def settle(self, met: Met) -> ServerFault | None:
        """Return the fault if it holds, else ``None``; its recording is then in the folder.

        Raises:
            NotBackError: the server is gone for good, so that nothing can be repeated.
        """
        symptom = met.symptom
        pings: Pings = "none" if symptom.kind == "leak" else "end"

        async def shows(candidate: list[FuzzStep]) -> bool:
            await self._await_server(symptom)
            result = await self._trials.run(candidate, self._search, pings=pings)
            return result.symptom(symptom.key) is not None

        limit = _TRIALS_OF_HANG if symptom.kind == "hang" else _TRIALS
        minimiser = Minimiser(shows, limit, _SMALLER_S)
        small = await minimiser.minimise(met.steps)
        confirmed = await self._confirmed(symptom, small, pings) if small else None
        if small is None or confirmed is None:
            return None
        result, seen = confirmed
        trace = self._free_path(symptom)
        shutil.move(result.path, trace)
        await self._await_server(symptom)
        target, rules = self._trials.target, self._trials.rules
        is_replayed = await repeats(trace, seen, target, rules, self._trials.new_path(), self._search.ping_s)
        changed = [step for step in small if step.is_mutated] or small[-1:]
        is_lawful = all(step.is_lawful for step in small)
        return ServerFault(
            symptom.kind,
            seen.text,
            described(changed),
            trace,
            result.frames,
            is_replayed,
            is_lawful,
            met.after_s,
            time.monotonic() - met.started,
        )

    def unconfirmed(self, met: Met) -> ServerFault:
        """Return a fault that cannot be repeated; its recording is trimmed to the last step."""
        trace = self._free_path(met.symptom)
        seq = met.trial.last_seq
        header, lines = trimmed(open_trace(met.trial.path), lambda number: number > seq)
        tally = write_trace(trace, header, lines)
        step = met.steps[-1]
        return ServerFault(
            met.symptom.kind,
            met.symptom.text,
            described([step]),
            trace,
            sum(tally.frames.values()),
            is_replayed=False,
            is_lawful=step.is_lawful,
            after_s=met.after_s,
            took_s=time.monotonic() - met.started,
            is_confirmed=False,
        )

    async def _await_server(self, symptom: Symptom) -> None:
        """Wait until a server behind a URL is back.

        Raises:
            NotBackError: it does not come back.
        """
        is_at_risk = symptom.ends_server and bool(self._trials.target.url)
        if is_at_risk and not await self._trials.comes_back(self._search):
            raise NotBackError

    async def _confirmed(
        self, symptom: Symptom, steps: list[FuzzStep], pings: Pings
    ) -> tuple[TrialResult, Symptom] | None:
        """Send the steps once more with generous times, and then the control.

        Return the recorded trial and the fault in it; ``None`` if it does not hold.
        """
        await self._await_server(symptom)
        run = self._trials.run
        result = await run(steps, self._generous, pings=pings, is_kept=True, is_orderly=True)
        seen = result.symptom(symptom.key)
        if seen is None or seen.is_provoked or result.fault:
            return None
        if seen.kind == "hang" and any(step.method == "initialize" and step.is_mutated for step in steps):
            return None  # a session that was not opened need not answer
        if symptom.kind == "leak":
            unchanged = [step for step in steps if seen.marker not in step.markers]
        else:
            unchanged = with_control(steps)
        await self._await_server(symptom)
        usual = await run(unchanged, self._generous, pings=pings)
        if any(other.cause == symptom.cause for other in usual.symptoms):
            self._excused.add(symptom.cause)
            return None
        return result, seen

    def _free_path(self, symptom: Symptom) -> str:
        """Return the path for the recording of a fault, in the folder."""
        paths.make_private(self._folder)
        self._kept += 1
        name = paths.safe("-".join(symptom.key.split(" ")[:3]))
        path = os.path.join(self._folder, f"{self._kept:02}-{name}.jsonl")
        attempt = 1
        while os.path.lexists(free := paths.numbered(path, attempt)):
            attempt += 1
        return free


def described(steps: Sequence[FuzzStep]) -> str:
    """Return what was changed in ``steps``, for the user."""
    return "; ".join(dict.fromkeys(f"{step.method} {step.what}".strip() for step in steps))
