"""Asks the relay of a running session what it holds, and answers what it holds.

The socket that is found beside a recording may be anybody's: only one of this user is connected to, and what
it answers is bounded in size and time, and checked, before anybody uses it.
"""

import json
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Final, cast

from mcpproxy.base import own_sockets
from mcpproxy.errors import UsageError
from mcpproxy.gate.intercept.control import Command, control_path

_ANSWER_S: Final = 10.0
"""How long a relay may take to answer, unless ``ask`` is told otherwise."""
_ANSWER_BYTES: Final = 256 << 20
"""The longest answer: the most that is held, in base64, and what is found in it."""
_LARGEST: Final = 1 << 53
"""The largest number in an answer: a browser reads larger ones inexactly."""


class NoAnswerError(UsageError):
    """The relay of a session does not answer, although it runs, or its answer is none."""


class NotHeldError(UsageError):
    """The message that a command names is not held, or not any more."""


def ask(trace: str, command: Command, answer_s: float = _ANSWER_S) -> Command:
    """Send a command to the relay of the session that is recorded into ``trace``; return its answer.

    The members ``held``, ``state`` and ``same`` of the answer have the types that ``control.do_command``
    gives them.

    Raises:
        NoAnswerError: the session runs, but nobody answers within ``answer_s``, or not as a relay does.
        NotHeldError: nothing is held under the number that the command names.
        UsageError: the session does not run, or the command is refused.
    """
    try:
        line = _line(trace, json.dumps(command).encode() + b"\n", answer_s)
    except FileNotFoundError:
        fact = "this session holds nothing at breakpoints"
        raise UsageError(trace, fact, "start one with --break FILTER") from None
    except PermissionError as error:
        fact = f"the socket beside it {error.strerror}" if error.filename else "its socket may not be used"
        raise UsageError(trace, fact, "nothing is asked; only a session of yours can be answered") from None
    except (TimeoutError, BlockingIOError):  # the second one: too many wait to be connected
        fact = "its session does not answer"
        raise NoAnswerError(trace, fact, "its process may be stopped; try again") from None
    except OSError:
        raise UsageError(trace, "its session has ended", "name one that runs") from None
    try:
        said = _checked(command, json.loads(line))
    except (ValueError, KeyError, TypeError, RecursionError):
        fact = "what its socket answers is not an answer of mcpproxy"
        raise NoAnswerError(trace, fact, "see which program listens there") from None
    if "refused" in said:
        kind = NotHeldError if "gone" in said else UsageError
        raise kind(trace, str(said["refused"]), "mcpproxy breakpoints lists what is held")
    return said


def _line(trace: str, asked: bytes, answer_s: float) -> bytes:
    """Return the line that is answered.

    Raises:
        TimeoutError: it does not come in time, or is too long.
        OSError: there is no session.
    """
    end_s = time.monotonic() + answer_s
    with own_sockets.connect(control_path(trace), answer_s) as sock:
        sock.sendall(asked)
        answer = bytearray()
        while not answer.endswith(b"\n"):
            sock.settimeout(max(end_s - time.monotonic(), 0.001))
            if time.monotonic() > end_s or len(answer) > _ANSWER_BYTES:
                raise TimeoutError
            data = sock.recv(1 << 16)
            if not data:
                raise ConnectionAbortedError
            answer += data
    return bytes(answer)


def _checked(command: Command, said: object) -> Command:
    """Return the members of an answer that are known.

    Raises:
        ValueError, TypeError, KeyError: it is not an answer to this command.
    """
    answer = _object(said)
    if "refused" in answer:
        gone: Command = {"gone": True} if answer.get("gone") is True else {}
        return {"refused": _text(answer["refused"]), **gone}
    do = command.get("do")
    if do not in ("list", "show"):
        if answer.get("done") != do:
            raise ValueError(do)
        return {"done": do, "number": _count(answer["number"])}
    if command.get("starts") is not True:
        whole = [_read_members(each, _WHOLE) for each in _list(answer["held"])]
        if do == "show" and len(whole) != 1:
            raise ValueError(do)
        return {"held": whole}
    if answer.get("same") is True:
        return {"same": True}
    state = answer["state"]
    if not isinstance(state, int):
        raise TypeError(state)
    return {"state": state, "held": [_read_members(each, _START) for each in _list(answer["held"])]}


def _object(value: object) -> Command:
    if not isinstance(value, dict):
        raise TypeError(value)
    return cast("Command", value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return cast("list[object]", value)


def _text(value: object) -> str:
    """Return a text without lone surrogates, which JSON can name and UTF-8 cannot write."""
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode("utf-8", "backslashreplace").decode()


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise TypeError(value)
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= _LARGEST:  # so it is no NaN either
        raise TypeError(value)
    return value


def _base64(value: object) -> str:
    text = _text(value)
    b64decode(text, validate=True)
    return text


def _findings(value: object) -> list[Command]:
    members = {"rule": _text, "message": _text}
    return [_read_members(each, members) for each in _list(value)]


def _read_members(value: object, members: Mapping[str, Callable[[object], object]]) -> Command:
    given = _object(value)
    return {name: read(given[name]) for name, read in members.items()}


_FACTS: Final[dict[str, Callable[[object], object]]] = {
    "number": _count,
    "from": _text,
    "rule": _text,
    "held_s": _seconds,
    "left_s": _seconds,
    "then": _text,
    "findings": _findings,
}
_WHOLE: Final[dict[str, Callable[[object], object]]] = {**_FACTS, "base64": _base64}
_START: Final[dict[str, Callable[[object], object]]] = {
    **_FACTS,
    "kind": _text,
    "method": _text,
    "target": _text_or_none,
    "id": _text_or_none,
    "bytes": _count,
    "start": _base64,
}
