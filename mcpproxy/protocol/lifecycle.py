"""The handshake of the stateful revisions, as a table.

Theory
======

A stateful session has one state machine for both peers. The client sends ``initialize``, the server answers,
the client confirms with ``notifications/initialized``; after that both may send any request. The
specification restricts the *requests* before that point, except for pings. It does not restrict other
notifications. So only the messages of the handshake, pings and requests are inputs here.

The table judges messages that were already sent, so every input has a step in every state. A forbidden step
names the broken requirement *and the next state*, which is chosen so that one mistake is reported once. For
example, if a client skips the handshake, only its first request breaks a requirement: the next state is
``SKIPPED``, in which requests are allowed.

The state is ``UNKNOWN`` after messages were missed (a gap, or a recording that starts late). In this state
nothing is forbidden, until the next handshake.

Stateless requests (2026-07-28) and ``server/discover`` are not inputs of this machine. One server process may
serve both eras, stateful and stateless clients, at the same time.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
"""

from collections.abc import Mapping
from enum import IntEnum, auto
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias


class State(IntEnum):
    """The progress of the handshake."""

    IDLE = auto()  # no message of the handshake and no request of the client so far, except pings
    INITIALIZING = auto()  # initialize was sent, and is unanswered
    NEGOTIATED = auto()  # initialize was answered with a result; notifications/initialized is due
    EAGER = auto()  # as NEGOTIATED, but the client has already sent a request
    OPERATING = auto()  # the handshake is complete
    FAILED = auto()  # initialize was refused
    SKIPPED = auto()  # the client goes on without a handshake, or after it was refused
    UNKNOWN = auto()  # messages are missing


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
    """The next state, and the requirement that the input breaks, if any."""

    to: State
    breaks: Breaks | None = None


CLIENT_BEFORE_HANDSHAKE: Final[Breaks] = ("PROTO-005", "R-028")
CLIENT_BEFORE_RESULT: Final[Breaks] = ("SEQ-003", "R-033")  # before initialize was answered
CLIENT_BEFORE_INITIALIZED: Final[Breaks] = ("SEQ-003", "R-035")
CLIENT_AFTER_REFUSAL: Final[Breaks] = ("SEQ-003", "R-039")  # initialize was answered with an error
SERVER_BEFORE_HANDSHAKE: Final[Breaks] = ("PROTO-005", "R-036")
SERVER_BEFORE_INITIALIZED: Final[Breaks] = ("SEQ-003", "R-036")
STRAY_INITIALIZED: Final[Breaks] = ("LIFE-002", "R-037")  # sent twice, or without a result of initialize
SECOND_INITIALIZE: Final[Breaks] = ("LIFE-003", "R-038")

_S = State
_I = Input

TRANSITIONS: Final[Mapping[State, Mapping[Input, Step]]] = MappingProxyType(
    {
        _S.IDLE: {
            _I.INITIALIZE: Step(_S.INITIALIZING),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.FAILED),
            _I.INITIALIZED: Step(_S.SKIPPED, STRAY_INITIALIZED),
            _I.PING: Step(_S.IDLE),
            _I.CLIENT_REQUEST: Step(_S.SKIPPED, CLIENT_BEFORE_HANDSHAKE),
            _I.SERVER_REQUEST: Step(_S.IDLE, SERVER_BEFORE_HANDSHAKE),
        },
        _S.INITIALIZING: {
            _I.INITIALIZE: Step(_S.INITIALIZING, SECOND_INITIALIZE),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.FAILED),
            _I.INITIALIZED: Step(_S.OPERATING, STRAY_INITIALIZED),
            _I.PING: Step(_S.INITIALIZING),
            _I.CLIENT_REQUEST: Step(_S.INITIALIZING, CLIENT_BEFORE_RESULT),
            _I.SERVER_REQUEST: Step(_S.INITIALIZING, SERVER_BEFORE_INITIALIZED),
        },
        _S.NEGOTIATED: {
            _I.INITIALIZE: Step(_S.NEGOTIATED, SECOND_INITIALIZE),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.NEGOTIATED),
            _I.INITIALIZED: Step(_S.OPERATING),
            _I.PING: Step(_S.NEGOTIATED),
            _I.CLIENT_REQUEST: Step(_S.EAGER, CLIENT_BEFORE_INITIALIZED),
            _I.SERVER_REQUEST: Step(_S.NEGOTIATED, SERVER_BEFORE_INITIALIZED),
        },
        _S.EAGER: {
            _I.INITIALIZE: Step(_S.EAGER, SECOND_INITIALIZE),
            _I.INITIALIZE_RESULT: Step(_S.EAGER),
            _I.INITIALIZE_ERROR: Step(_S.EAGER),
            _I.INITIALIZED: Step(_S.OPERATING),
            _I.PING: Step(_S.EAGER),
            _I.CLIENT_REQUEST: Step(_S.EAGER),
            _I.SERVER_REQUEST: Step(_S.EAGER, SERVER_BEFORE_INITIALIZED),
        },
        _S.OPERATING: {
            _I.INITIALIZE: Step(_S.OPERATING, SECOND_INITIALIZE),
            _I.INITIALIZE_RESULT: Step(_S.OPERATING),
            _I.INITIALIZE_ERROR: Step(_S.OPERATING),
            _I.INITIALIZED: Step(_S.OPERATING, STRAY_INITIALIZED),
            _I.PING: Step(_S.OPERATING),
            _I.CLIENT_REQUEST: Step(_S.OPERATING),
            _I.SERVER_REQUEST: Step(_S.OPERATING),
        },
        _S.FAILED: {
            _I.INITIALIZE: Step(_S.INITIALIZING),
            _I.INITIALIZE_RESULT: Step(_S.NEGOTIATED),
            _I.INITIALIZE_ERROR: Step(_S.FAILED),
            _I.INITIALIZED: Step(_S.SKIPPED, STRAY_INITIALIZED),
            _I.PING: Step(_S.FAILED),
            _I.CLIENT_REQUEST: Step(_S.SKIPPED, CLIENT_AFTER_REFUSAL),
            _I.SERVER_REQUEST: Step(_S.FAILED, SERVER_BEFORE_INITIALIZED),
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
"""The states in which requests other than ``initialize`` are allowed and do not change the state."""
