"""A run of the fuzzer: sends session after session, and settles what the server did wrong in each.

A fault is reported only if it holds twice. After the steps are made as few as possible, they are sent from
scratch with generous times, and the same steps without a change are sent as a control, which must not show
it. What is seen once and cannot be repeated is counted, and not reported.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from mcpproxy.base import paths
from mcpproxy.fuzz.draws import Draws
from mcpproxy.fuzz.errors import NotFuzzedError
from mcpproxy.fuzz.material import Material
from mcpproxy.fuzz.minimise import Minimiser
from mcpproxy.fuzz.mutations.mutant import Supply
from mcpproxy.fuzz.plan import Plan, control
from mcpproxy.fuzz.replayed import repeats
from mcpproxy.fuzz.steps import Step, with_control
from mcpproxy.fuzz.symptoms import Kind, Symptom
from mcpproxy.fuzz.trial import Limits, Pings, Trial, TrialResult
from mcpproxy.ruleset.ruleset import Ruleset
from mcpproxy.validate.recordings import Target

MOST_FRAMES: Final = 10
"""A recording of a fault has at most as many messages, if the server does not send more by itself."""

_LEAST_PING_S: Final = 2.0
"""While searching, a ping may take at least so long, and 50 times as long as the longest of the control."""
_LEAST_ANSWER_S: Final = 0.25
"""While searching, a request may take at least so long until the next step is sent."""
_TRIES: Final = 2
"""How often a fault may turn out not to repeat before it is given up."""
_TRIALS: Final = 40
"""How many trials may be spent on making a fault small."""
_TRIALS_OF_HANG: Final = 16


@dataclass(frozen=True, slots=True)
class FuzzOptions:
    """What bounds a run: seconds of searching, and how many changed messages are sent and faults are found
    (0: any number)."""

    seed: int = 0
    time_s: float = 60.0
    count: int = 0
    faults: int = 0
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the server, confirmed. ``trace`` is the recording of it, with ``frames`` messages.

    ``changes`` says what was changed, ``is_replayed`` whether ``replay client`` repeats it. ``after_s`` is
    the time from the start until the fault was met for the first time, ``took_s`` until it was settled.
    """

    kind: Kind
    text: str
    changes: str
    trace: str
    frames: int
    is_replayed: bool
    is_lawful: bool
    after_s: float
    took_s: float


@dataclass(slots=True)
class FuzzResult:
    """What came of a run. ``once`` are faults that were seen and did not repeat. ``stopped`` says why it
    ended before its time."""

    seed: int
    changes: int = 0
    sent: int = 0
    sessions: int = 0
    seconds: float = 0.0
    faults: list[Fault] = field(default_factory=list[Fault])
    once: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    stopped: str = ""
    is_interrupted: bool = False


class Campaign:
    """Fuzzes ``target`` with what a recording gives. The recordings of faults are kept in ``folder``."""

    def __init__(
        self,
        target: Target,
        material: Material,
        rules: Ruleset,
        options: FuzzOptions,
        folder: str,
        *,
        told: Callable[[Fault], None] | None = None,
    ) -> None:
        self._target: Final = target
        self._material: Final = material
        self._rules: Final = rules
        self._options: Final = options
        self._folder: Final = folder
        self._told: Final = told
        self._trial: Final = Trial(target, material, rules)
        self._plan: Final = Plan(material, options.seed, target.transport)
        self._limits = options.limits
        self._slow: Final[set[str]] = set()
        self._excused: Final[set[str]] = set()
        self._settled: Final[set[str]] = set()
        self._failed: Final[dict[str, int]] = {}
        self._paths = 0
        self._scratch = ""
        self._started = time.monotonic()
        self.result: Final = FuzzResult(options.seed, self._plan.changes)

    async def run(self) -> FuzzResult:
        """Fuzz until the time is over or enough was sent.

        Raises:
            CouldNotStartError: the command cannot be run.
            NotFuzzedError: the server does not even take the recording without a change.
        """
        self._started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mcpproxy-fuzz-") as self._scratch:
            try:
                await self._learn_what_is_usual()
                await self._search()
            finally:
                self.result.seconds = time.monotonic() - self._started
        return self.result

    async def _learn_what_is_usual(self) -> None:
        """Send the recording without a change, and note what the judge finds and how long answers take."""
        slowest_s = start_s = 0.0
        for is_marked in (False, True):
            steps = control(self._material, Supply(Draws(self._options.seed, "control")), is_marked=is_marked)
            result = await self._run(steps, self._limits)
            for symptom in result.symptoms:
                if symptom.kind in ("crash", "hang") and not is_marked:
                    step = steps[symptom.step]
                    raise NotFuzzedError(
                        f"{self._target.name}: {symptom.text} with the recorded {step.method}, unchanged; "
                        "check that the recording is of this server"
                    )
                self._excused.add(_cause(symptom))
            if not result.is_opened:
                raise NotFuzzedError(
                    f"{self._target.name}: does not answer what was recorded; "
                    "check that the recording is of this server"
                )
            self._slow.update(result.slow)
            slowest_s = max(slowest_s, result.ping_s)
            start_s = max(start_s, result.first_s)
        limits = self._options.limits
        self._limits = Limits(
            ping_s=min(limits.ping_s, max(_LEAST_PING_S, 50 * slowest_s)),
            start_s=limits.start_s,
            answer_s=min(limits.answer_s, max(_LEAST_ANSWER_S, 20 * slowest_s)),
            first_s=min(limits.start_s, max(_LEAST_PING_S, 5 * start_s)),
        )

    async def _search(self) -> None:
        deadline = self._started + self._options.time_s
        for steps in self._plan.sessions():
            if time.monotonic() >= deadline or (0 < self._options.count <= self.result.sent):
                return
            result = await self._run(steps, self._limits, deadline=deadline)
            self.result.sessions += 1
            self.result.sent += sum(step.is_mutated for step in steps[: result.sent])
            self._slow.update(result.slow)
            sent = {step.key for step in steps[: result.sent]}
            self._plan.unsent.extend(
                dict.fromkeys(step.key for step in steps[result.sent :] if step.key and step.key not in sent)
            )
            for symptom in result.symptoms:
                if self.is_new(symptom):
                    await self._settle(symptom, steps[: symptom.step + 1])
                if symptom.kind in ("crash", "hang"):
                    self._plan.excluded.add(steps[symptom.step].key)
                if 0 < self._options.faults <= len(self.result.faults):
                    return
            if self.result.stopped:
                return

    def is_new(self, symptom: Symptom) -> bool:
        """Whether a fault is neither known nor usual, and has not failed to repeat too often."""
        is_excused = symptom.kind != "leak" and _cause(symptom) in self._excused
        return (
            not is_excused and symptom.key not in self._settled and self._failed.get(symptom.key, 0) < _TRIES
        )

    async def _settle(self, symptom: Symptom, steps: Sequence[Step]) -> None:
        """Make the steps to a fault few, confirm it, and keep its recording."""
        met_s = time.monotonic() - self._started
        pings: Pings = "none" if symptom.kind == "leak" else "end"

        async def shows(candidate: list[Step]) -> bool:
            result = await self._run(candidate, self._limits, pings=pings)
            return result.symptom(symptom.key) is not None

        minimiser = Minimiser(shows, _TRIALS_OF_HANG if symptom.kind == "hang" else _TRIALS)
        small = await minimiser.minimise(steps)
        confirmed = await self._confirmed(symptom, small, pings) if small else None
        if small is None or confirmed is None:
            self._failed[symptom.key] = self._failed.get(symptom.key, 0) + 1
            if self._failed[symptom.key] == 1:
                self.result.once.append(f"{_described(steps[-1:])}: {symptom.text}")
            return
        self._settled.add(symptom.key)
        result, seen = confirmed
        trace = self._keep(result.path, symptom)
        is_replayed = await repeats(
            trace, seen, self._target, self._rules, self._new_path(), self._limits.ping_s
        )
        changed = [step for step in small if step.is_mutated] or small[-1:]
        fault = Fault(
            symptom.kind,
            seen.text,
            _described(changed),
            trace,
            result.frames,
            is_replayed,
            all(step.is_lawful for step in small),
            met_s,
            time.monotonic() - self._started,
        )
        self.result.faults.append(fault)
        if self._told is not None:
            self._told(fault)

    async def _confirmed(
        self, symptom: Symptom, steps: list[Step], pings: Pings
    ) -> tuple[TrialResult, Symptom] | None:
        """Send the steps once more with generous times, and then the control.

        Return the recorded trial and the fault in it; ``None`` if it does not hold.
        """
        result = await self._run(steps, self._options.limits, pings=pings, is_orderly=True)
        seen = result.symptom(symptom.key)
        if seen is None or seen.is_provoked or result.fault:
            return None
        if seen.kind == "hang" and any(step.method == "initialize" and step.is_mutated for step in steps):
            return None  # a session that was not opened need not answer
        if symptom.kind == "leak":
            unchanged = [step for step in steps if seen.marker not in step.markers]
        else:
            unchanged = with_control(steps)
        usual = await self._run(unchanged, self._options.limits, pings=pings)
        if any(_cause(other) == _cause(symptom) for other in usual.symptoms):
            self._excused.add(_cause(symptom))
            return None
        return result, seen

    async def _run(
        self,
        steps: Sequence[Step],
        limits: Limits,
        *,
        pings: Pings = "each",
        is_orderly: bool = False,
        deadline: float = inf,
    ) -> TrialResult:
        path = self._new_path()
        slow = frozenset(self._slow)
        result = await self._trial.run(
            steps, path, limits, pings=pings, is_orderly=is_orderly, slow=slow, deadline=deadline
        )
        if not is_orderly:
            os.unlink(path)
        return result

    def _new_path(self) -> str:
        self._paths += 1
        return os.path.join(self._scratch, f"{self._paths}.jsonl")

    def _keep(self, path: str, symptom: Symptom) -> str:
        """Move the recording of a fault to the folder, and return its new path."""
        paths.make_private(self._folder)
        number = len(self.result.faults) + 1
        name = paths.safe("-".join(symptom.key.split(" ")[:3]))
        kept = os.path.join(self._folder, f"{number:02}-{name}.jsonl")
        attempt = 1
        while os.path.lexists(free := paths.numbered(kept, attempt)):
            attempt += 1
        shutil.move(path, free)
        return free


def _cause(symptom: Symptom) -> str:
    """Return what makes a fault the same as one of the control; for a violation its requirement."""
    return " ".join(symptom.key.split(" ")[:2]) if symptom.kind == "protocol" else symptom.key


def _described(steps: Sequence[Step]) -> str:
    """Return what was changed in ``steps``, for the user."""
    return "; ".join(dict.fromkeys(f"{step.method} {step.what}".strip() for step in steps))
