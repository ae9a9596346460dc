"""The handshake of the stateful revisions, as a table.

Theory
======

A stateful session has one state machine for both peers. The client opens (``initialize``), the server
answers, the client confirms (``notifications/initialized``); after that both may send any request.
The specification restricts *requests* before that point, exempts pings both ways, and leaves other
notifications alone, so only these are inputs here. Everything else changes no state.

The proxy observes and cannot refuse. The table is therefore total: every input has a step in every state.
A forbidden step names the broken requirement *and the next state*, chosen so that one mistake is reported
once. A client that skips the handshake breaks a requirement only with its first request: the state becomes
``SKIPPED``, in which requests are allowed.

``UNKNOWN`` is the state after something was not seen (a gap, a recording that starts late): nothing is
forbidden in it, and the next handshake ends it.

Stateless requests (2026-07-28) and ``server/discover`` probes never enter this machine. One process may
serve both eras at the same time.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
"""

from collections.abc import Mapping
from enum import IntEnum, auto
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias


class State(IntEnum):
    """The progress of the handshake."""

    IDLE = auto()  # nothing but pings and notifications so far
    INITIALIZING = auto()  # initialize is unanswered
    NEGOTIATED = auto()  # initialize has its result; initialized has not come
    EAGER = auto()  # as NEGOTIATED, but the client already sends requests
    OPERATING = auto()  # the handshake is complete
    FAILED = auto()  # initialize was refused
    SKIPPED = auto()  # the client sends requests without a handshake
    UNKNOWN = auto()  # something was not seen


class Input(IntEnum):
    """The inputs of the state machine."""

    INITIALIZE = auto()
    INITIALIZE_RESULT = auto()
    INITIALIZE_ERROR = auto()
    INITIALIZED = auto()
    PING = auto()
    CLIENT_REQUEST = auto()
    SERVER_REQUEST = auto()


Breaks: TypeAlias = tuple[str, str]


class Step(NamedTuple):
    """The next state, and the (rule, requirement) that the input breaks, if any."""

    to: State
    breaks: Breaks | None = None


FIRST: Final[Breaks] = ("PROTO-005", "R-028")  # the handshake is the first interaction
WAIT: Final[Breaks] = ("SEQ-003", "R-033")  # no client request but ping until initialize is answered
CONFIRM: Final[Breaks] = ("SEQ-003", "R-035")  # client request between the result and initialized
EARLY: Final[Breaks] = ("PROTO-005", "R-036")  # server request before there is a handshake
HOLD: Final[Breaks] = ("SEQ-003", "R-036")  # server request before initialized
ONCE: Final[Breaks] = ("LIFE-002", "R-037")  # initialized comes once, after a success result
AGAIN: Final[Breaks] = ("LIFE-003", "R-038")  # one initialize per session
OVER: Final[Breaks] = ("SEQ-003", "R-039")  # no operation after a refused initialize

_S = State
_I = Input

TRANSITIONS: Final[Mapping[State, Mapping[Input, Step]]] = MappingProxyType(
    {
        _S.IDLE: {
            _I.INITIALIZE: Step(_S.INITIALIZING),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.FAILED),
            _I.INITIALIZED: Step(_S.OPERATING, ONCE),
            _I.PING: Step(_S.IDLE),
            _I.CLIENT_REQUEST: Step(_S.SKIPPED, FIRST),
            _I.SERVER_REQUEST: Step(_S.IDLE, EARLY),
        },
        _S.INITIALIZING: {
            _I.INITIALIZE: Step(_S.INITIALIZING, AGAIN),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.FAILED),
            _I.INITIALIZED: Step(_S.OPERATING, ONCE),
            _I.PING: Step(_S.INITIALIZING),
            _I.CLIENT_REQUEST: Step(_S.INITIALIZING, WAIT),
            _I.SERVER_REQUEST: Step(_S.INITIALIZING, HOLD),
        },
        _S.NEGOTIATED: {
            _I.INITIALIZE: Step(_S.NEGOTIATED, AGAIN),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.NEGOTIATED),
            _I.INITIALIZED: Step(_S.OPERATING),
            _I.PING: Step(_S.NEGOTIATED),
            _I.CLIENT_REQUEST: Step(_S.EAGER, CONFIRM),
            _I.SERVER_REQUEST: Step(_S.NEGOTIATED, HOLD),
        },
        _S.EAGER: {
            _I.INITIALIZE: Step(_S.EAGER, AGAIN),
            _I.INITIALIZE_RESULT: Step(_S.EAGER),
            _I.INITIALIZE_ERROR: Step(_S.EAGER),
            _I.INITIALIZED: Step(_S.OPERATING),
            _I.PING: Step(_S.EAGER),
            _I.CLIENT_REQUEST: Step(_S.EAGER),
            _I.SERVER_REQUEST: Step(_S.EAGER, HOLD),
        },
        _S.OPERATING: {
            _I.INITIALIZE: Step(_S.OPERATING, AGAIN),
            _I.INITIALIZE_RESULT: Step(_S.OPERATING),
            _I.INITIALIZE_ERROR: Step(_S.OPERATING),
            _I.INITIALIZED: Step(_S.OPERATING, ONCE),
            _I.PING: Step(_S.OPERATING),
            _I.CLIENT_REQUEST: Step(_S.OPERATING),
            _I.SERVER_REQUEST: Step(_S.OPERATING),
        },
        _S.FAILED: {
            _I.INITIALIZE: Step(_S.INITIALIZING),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.FAILED),
            _I.INITIALIZED: Step(_S.SKIPPED, ONCE),
            _I.PING: Step(_S.FAILED),
            _I.CLIENT_REQUEST: Step(_S.SKIPPED, OVER),
            _I.SERVER_REQUEST: Step(_S.FAILED, HOLD),
        },
        _S.SKIPPED: {
            _I.INITIALIZE: Step(_S.INITIALIZING),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.FAILED),
            _I.INITIALIZED: Step(_S.SKIPPED),
            _I.PING: Step(_S.SKIPPED),
            _I.CLIENT_REQUEST: Step(_S.SKIPPED),
            _I.SERVER_REQUEST: Step(_S.SKIPPED),
        },
        _S.UNKNOWN: {
            _I.INITIALIZE: Step(_S.INITIALIZING),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.FAILED),
            _I.INITIALIZED: Step(_S.OPERATING),
            _I.PING: Step(_S.UNKNOWN),
            _I.CLIENT_REQUEST: Step(_S.UNKNOWN),
            _I.SERVER_REQUEST: Step(_S.UNKNOWN),
        },
    }
)

QUIET: Final = frozenset(
    state
    for state, steps in TRANSITIONS.items()
    if all(steps[input] == Step(state) for input in (_I.PING, _I.CLIENT_REQUEST, _I.SERVER_REQUEST))
)
"""The states in which a request other than ``initialize`` does not affect the handshake."""
