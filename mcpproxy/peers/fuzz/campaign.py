"""A run of the fuzzer: send session after session, and confirm the faults that each shows."""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.peers.fuzz.confirmation import Confirmer, SuspectedFault, Trials, changes_text
from mcpproxy.peers.fuzz.draws import Draws
from mcpproxy.peers.fuzz.errors import NotBackError, NotFuzzedError
from mcpproxy.peers.fuzz.material import Material
from mcpproxy.peers.fuzz.mutations.mutant import Supply
from mcpproxy.peers.fuzz.plan import Plan, control_steps
from mcpproxy.peers.fuzz.results import FuzzOptions, FuzzResult, ServerFault
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.peers.fuzz.symptoms import Symptom
from mcpproxy.peers.fuzz.trial import TrialLimits, TrialResult
from mcpproxy.peers.validate.errors import ValidateError
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.peers.validate.transports.reachability import why_no_server

_LEAST_PING_S: Final = 2.0
"""While searching, a ping may take this time or, if that is longer, 50 times the control's slowest ping.

The control is the unchanged recording. The first answer of a session may take this time, or 5 times as long
as that of the control. No limit exceeds that of the options; for the first answer that is ``start_s``."""
_LEAST_ANSWER_S: Final = 0.25
"""While searching, an answer may take this time, or 20 times the control's slowest ping, if that is longer.

After that, the next step is sent."""
_TRIES: Final = 2
"""After so many failed attempts to repeat a fault, it is not tried again."""


class Campaign:
    """Fuzzes ``target`` with the ``material`` of a recording; recordings of faults are kept in ``folder``.

    ``on_fault`` is called with each fault as soon as it is in ``result``, ``on_progress`` with a clause about
    the current work. ``result`` is the result so far.
    """

    def __init__(
        self,
        target: Target,
        material: Material,
        rules: Ruleset,
        options: FuzzOptions,
        folder: str,
        *,
        on_fault: Callable[[ServerFault], None] | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self._target: Final = target
        self._material: Final = material
        self._rules: Final = rules
        self._options: Final = options
        self._folder: Final = folder
        self._on_fault: Final = on_fault
        self._on_progress: Final = on_progress
        self._deadline = inf
        self._plan: Final = Plan(material, options.seed, target.transport)
        self._limits = options.limits
        self._excused: Final[set[str]] = set()
        """The causes that the control shows as well, so that no change can be to blame."""
        self._confirmed: Final[set[str]] = set()
        """The keys of the confirmed symptoms."""
        self._unrepeated: Final[dict[str, int]] = {}
        """Key of a symptom -> how often it could not be repeated."""
        self._started = time.monotonic()
        self.result: Final = FuzzResult(options.seed, self._plan.changes, strict=options.strict)

    async def run(self) -> FuzzResult:
        """Fuzz until the time is over, enough was sent or found, or the server does not come back.

        Raises:
            CouldNotStartError: the command cannot be run.
            NotFuzzedError: the server does not answer the unchanged recording well.
        """
        self._started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mcpproxy-fuzz-") as scratch:
            trials = Trials(self._target, self._material, self._rules, scratch)
            try:
                await self._learn_usual_behaviour(trials)
                await self._search_faults(trials)
            finally:
                self.result.seconds = time.monotonic() - self._started
        return self.result

    async def _learn_usual_behaviour(self, trials: Trials) -> None:
        """Send the recording unchanged; note the symptoms that it shows, and how long answers take.

        Raises:
            CouldNotStartError: the command cannot be run.
            NotFuzzedError: the server does not answer the unchanged recording well.
        """
        slowest_s = start_s = 0.0
        for is_marked in (False, True):
            self._tell_progress("the recording is sent unchanged")
            steps = control_steps(
                self._material, Supply(Draws(self._options.seed, "control")), is_marked=is_marked
            )
            result = await trials.run(steps, self._limits)
            if result.refusal and not is_marked:
                raise NotFuzzedError(await self._why_refused(result.refusal))
            for symptom in result.symptoms:
                if symptom.kind in ("crash", "hang") and not is_marked:
                    when = f"with the recorded {steps[symptom.step].method}, unchanged"
                    advice = "check that the recording is of this server"
                    if result.ends_at_ping:
                        when = "at the question whether it still answers, which fuzz asks after each message"
                        advice = "a server that ends at a ping, or at server/discover, cannot be fuzzed"
                    raise NotFuzzedError(f"{self._target.name}: {symptom.text} {when}; {advice}")
                self._excused.add(symptom.cause)
            if not result.is_opened:
                raise NotFuzzedError(
                    f"{self._target.name}: does not answer what was recorded; "
                    "check that the recording is of this server"
                )
            trials.slow.update(result.slow)
            slowest_s = max(slowest_s, result.ping_s)
            start_s = max(start_s, result.first_s)
        limits = self._options.limits
        self._limits = TrialLimits(
            ping_s=min(limits.ping_s, max(_LEAST_PING_S, 50 * slowest_s)),
            start_s=limits.start_s,
            answer_s=min(limits.answer_s, max(_LEAST_ANSWER_S, 20 * slowest_s)),
            first_s=min(limits.start_s, max(_LEAST_PING_S, 5 * start_s)),
        )

    async def _why_refused(self, refusal: ValidateError) -> str:
        """Return why a server over HTTP does not answer the first request of the recording."""
        reason = await why_no_server(self._target.url, refusal, self._target.upstream)
        return reason or f"{self._target.name}: {refusal}; check that the recording is of this server"

    async def _search_faults(self, trials: Trials) -> None:
        deadline = self._deadline = self._started + self._options.time_s
        limits, generous = self._limits, self._options.limits
        confirmer = Confirmer(trials, self._folder, limits, generous, self._excused, deadline)
        for steps in self._plan.sessions():
            if time.monotonic() >= deadline or 0 < self._options.count <= self.result.sent:
                return
            left_s = deadline - time.monotonic()
            self._tell_progress(
                f"{self.result.sent:,} changed messages, {count(len(self.result.faults), 'fault')}, "
                f"at most {left_s:.0f} s left to search"
            )
            result = await trials.run(steps, self._limits, is_kept=True, deadline=deadline)
            self._count_steps(result, steps)
            trials.slow.update(result.slow)
            for symptom in result.symptoms:
                if self._is_new(symptom):
                    await self._confirm_symptom(symptom, steps, result, confirmer)
                if symptom.kind in ("crash", "hang"):
                    self._plan.excluded.add(steps[symptom.step].key)
                if self.result.stopped or 0 < self._options.faults <= self.result.counted:
                    return
            os.unlink(result.path)

    def _count_steps(self, result: TrialResult, steps: Sequence[FuzzStep]) -> None:
        """Count the steps that a session sent, and let the next session of the same kind send the rest."""
        self.result.sessions += 1
        sent = {step.key for step in steps[: result.sent]}
        self.result.sent += sum(step.is_mutated for step in steps[: result.sent])
        unsent = (step.key for step in steps[result.sent :])
        self._plan.unsent.extend(dict.fromkeys(key for key in unsent if key and key not in sent))

    def _is_new(self, symptom: Symptom) -> bool:
        """Whether a fault is wanted, new, perhaps repeatable, and (but for a leak) not the control's, too."""
        is_excused = symptom.kind != "leak" and symptom.cause in self._excused
        is_known = symptom.key in self._confirmed or self._unrepeated.get(symptom.key, 0) >= _TRIES
        return symptom.kind in self._options.kinds and not (is_excused or is_known)

    def _tell_progress(self, text: str) -> None:
        if self._on_progress is not None:
            self._on_progress(text)

    async def _confirm_symptom(
        self, symptom: Symptom, steps: Sequence[FuzzStep], result: TrialResult, confirmer: Confirmer
    ) -> None:
        self._tell_progress(f"a {symptom.kind} is sent again, to confirm it and to make it small")
        after_s = time.monotonic() - self._started
        sentence = f"{changes_text(steps[symptom.step : symptom.step + 1])}: {symptom.text}"
        suspect = SuspectedFault(symptom, steps[: symptom.step + 1], result, after_s, self._started)
        try:
            fault = await confirmer.confirm_fault(suspect)
        except TimeoutError:
            self.result.unconfirmed.append(sentence)
            return
        except NotBackError:
            fault = confirmer.unconfirmed_fault(suspect)
            self.result.stopped = "the server does not answer any more; start it again"
        if fault is None:
            tries = self._unrepeated[symptom.key] = self._unrepeated.get(symptom.key, 0) + 1
            if tries == 1:
                self.result.once.append(sentence)
            return
        self._confirmed.add(symptom.key)
        self.result.faults.append(fault)
        if self._on_fault is not None:
            self._on_fault(fault)
