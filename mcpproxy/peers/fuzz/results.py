"""The options and the result of a run of the fuzzer."""

from dataclasses import dataclass, field
from typing import Literal

from mcpproxy.peers.fuzz.symptoms import KINDS, Kind
from mcpproxy.peers.fuzz.trial import TrialLimits


@dataclass(frozen=True, slots=True)
class FuzzOptions:
    """When a run ends: after ``time_s``, ``count`` changed messages or ``faults`` faults (0: any number).

    ``kinds`` are those that are looked for.
    A violation of a SHOULD is a warning, and counts as a fault only if ``strict`` is set.
    """

    seed: int = 0
    time_s: float = 60.0
    count: int = 0
    faults: int = 0
    limits: TrialLimits = field(default_factory=TrialLimits)
    strict: bool = False
    kinds: frozenset[Kind] = frozenset(KINDS)


@dataclass(frozen=True, slots=True)
class ServerFault:
    """One fault of the server. ``trace`` is the path of its recording, which has ``frames`` messages.

    ``changes`` says what was changed, ``is_lawful`` whether a client may send it. ``is_replayed`` says
    whether ``replay client`` repeats it, ``None`` if that was not tried. ``is_confirmed`` is false if a
    server behind a URL has to be started again before anything can be repeated. ``after_s`` is the time from
    the start until the fault was first seen, ``took_s`` until it was confirmed. ``severity`` is ``warning``
    for a violation of a SHOULD.
    """

    kind: Kind
    text: str
    changes: str
    trace: str
    frames: int
    is_replayed: bool | None
    is_lawful: bool
    after_s: float
    took_s: float
    is_confirmed: bool = True
    severity: Literal["error", "warning"] = "error"


@dataclass(slots=True)
class FuzzResult:
    """The result of a run.

    ``once`` are faults that did not repeat, and ``unconfirmed`` those that could not be tried again before
    the run was over, a sentence each. ``stopped`` says why the run ended early; it is empty otherwise.
    """

    seed: int
    changes: int = 0
    sent: int = 0
    sessions: int = 0
    seconds: float = 0.0
    faults: list[ServerFault] = field(default_factory=list[ServerFault])
    once: list[str] = field(default_factory=list[str])
    unconfirmed: list[str] = field(default_factory=list[str])
    stopped: str = ""
    is_interrupted: bool = False
    strict: bool = False

    @property
    def counted(self) -> int:
        """How many faults count: those that are more than a warning, with ``strict`` all."""
        return sum(self.strict or fault.severity == "error" for fault in self.faults)
