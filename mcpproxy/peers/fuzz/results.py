"""The options and the result of a run of the fuzzer."""

from dataclasses import dataclass, field
from typing import Literal

from mcpproxy.peers.fuzz.symptoms import KINDS, Kind
from mcpproxy.peers.fuzz.trial import TrialLimits


@dataclass(frozen=True, slots=True)
class FuzzOptions:
    """The options of a run.

    The run ends after ``time_s`` seconds, ``count`` changed messages or ``faults`` faults (0: any number).
    ``limits`` are the time limits of a trial. ``kinds`` are the kinds of faults to look for. A violation of a
    SHOULD is a warning, and counts as a fault only if ``strict`` is set.
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

    ``changes`` describes the changes, and ``is_lawful`` says whether a client may send them. ``is_replayed``
    says whether ``replay client`` repeats the fault, ``None`` if that was not tried or not finished in time.
    ``is_confirmed`` is false if the fault could not be repeated, because a server behind a URL has to be
    started again. ``after_s`` is the time from the start of the run until the fault was first seen,
    ``took_s`` until it was confirmed. ``severity`` is ``warning`` for a violation of a SHOULD.
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

    ``changes`` is how many different changes there are, ``sent`` how many changed messages were sent in how
    many ``sessions``. ``once`` are faults that could not be repeated, and ``unconfirmed`` those that could
    not be tried again before the run was over, a sentence each. ``stopped`` says why the run ended early;
    empty if it did not. ``is_interrupted`` says that the user ended it. ``seconds`` is how long it took.
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
        """How many faults count: all with ``strict``, otherwise those that are more than a warning."""
        return sum(self.strict or fault.severity == "error" for fault in self.faults)
