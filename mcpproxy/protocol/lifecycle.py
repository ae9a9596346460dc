"""The handshake of the stateful revisions, as a table.

Theory
======

A stateful session has one state machine for both peers. The client sends ``initialize``, the server answers,
the client confirms with ``notifications/initialized``; after that both may send any request. The
specification restricts the *requests* before that point, except for pings. It does not restrict other
notifications. So only the messages of the handshake, pings and requests are inputs here.

The proxy cannot refuse a message. So every input has a step in every state. A forbidden step names the broken
requirement *and the next state*, which is chosen so that one mistake is reported once: if a client skips the
handshake, only its first request breaks a requirement, because the state becomes ``SKIPPED``, in which
requests are allowed.

``UNKNOWN`` is the state after messages were not seen (a gap, a recording that starts late). Nothing is
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
    NEGOTIATED = auto()  # initialize was answered with a result; initialized was not sent yet
    EAGER = auto()  # like NEGOTIATED, but the client has already sent a request
    OPERATING = auto()  # the handshake is complete
    FAILED = auto()  # initialize was refused
    SKIPPED = auto()  # the client sends requests without a handshake
    UNKNOWN = auto()  # messages were not seen


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
"""The rule and the requirement that a step breaks."""


class Step(NamedTuple):
    """The next state, and what the input breaks, if anything."""

    to: State
    breaks: Breaks | None = None


FIRST: Final[Breaks] = ("PROTO-005", "R-028")  # a client request before the handshake
WAIT: Final[Breaks] = ("SEQ-003", "R-033")  # a client request before initialize is answered
CONFIRM: Final[Breaks] = ("SEQ-003", "R-035")  # a client request between the result and initialized
EARLY: Final[Breaks] = ("PROTO-005", "R-036")  # a server request before the handshake
HOLD: Final[Breaks] = ("SEQ-003", "R-036")  # a server request before initialized
ONCE: Final[Breaks] = ("LIFE-002", "R-037")  # initialized twice, or not after a result
AGAIN: Final[Breaks] = ("LIFE-003", "R-038")  # a second initialize in one session
OVER: Final[Breaks] = ("SEQ-003", "R-039")  # a client request after initialize was refused

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
