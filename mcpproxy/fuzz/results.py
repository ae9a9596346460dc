"""What a run of the fuzzer found, and what bounds it."""

from dataclasses import dataclass, field

from mcpproxy.fuzz.symptoms import Kind
from mcpproxy.fuzz.trial import TrialLimits


@dataclass(frozen=True, slots=True)
class FuzzOptions:
    """What bounds a run: seconds of searching, and how many changed messages are sent and faults are found
    (0: any number)."""

    seed: int = 0
    time_s: float = 60.0
    count: int = 0
    faults: int = 0
    limits: TrialLimits = field(default_factory=TrialLimits)


@dataclass(frozen=True, slots=True)
class ServerFault:
    """One fault of the server. ``trace`` is the recording of it, with ``frames`` messages.

    ``changes`` says what was changed, ``is_lawful`` whether a client may send it. ``is_replayed`` says
    whether ``replay client`` repeats it. ``is_confirmed`` is false if a server behind a URL has to be
    started again before anything can be repeated. ``after_s`` is the time from the start until the fault was
    met for the first time, ``took_s`` until it was settled.
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
    is_confirmed: bool = True


@dataclass(slots=True)
class FuzzResult:
    """What came of a run. ``once`` are faults that were seen and did not repeat. ``stopped`` says why it
    ended before its time; it is empty otherwise."""

    seed: int
    changes: int = 0
    sent: int = 0
    sessions: int = 0
    seconds: float = 0.0
    faults: list[ServerFault] = field(default_factory=list[ServerFault])
    once: list[str] = field(default_factory=list[str])
    stopped: str = ""
    is_interrupted: bool = False
