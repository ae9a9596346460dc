"""Send commands to the relay of a running session: list the messages that it holds, and release them.

The socket beside a recording may belong to anybody. So we connect only to a socket of the same user, limit
the size and the time of its answer, and check the answer before using it.
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
"""How many seconds a relay may take to answer by default."""
_ANSWER_BYTES: Final = 256 << 20
"""The longest answer: as much as a relay can hold, in base64, and the findings about it."""
_LARGEST: Final = 1 << 53
"""The largest number in an answer, except ``state``: a browser reads larger ones inexactly."""


class NoAnswerError(UsageError):
    """The relay of a session runs, but does not answer, or what it sends is not an answer of a relay."""


class NotHeldError(UsageError):
    """The message that a command names is not held, or is no longer held."""


def ask(trace: str, command: Command, answer_s: float = _ANSWER_S) -> Command:
    """Send a command to the relay of the session that is recorded into ``trace``; return its answer.

    The members ``held``, ``state`` and ``same`` of the answer have the types that ``control.do_command``
    gives them.

    Raises:
        NoAnswerError: the session runs, but there is no valid answer within ``answer_s`` seconds.
        NotHeldError: nothing is held under the number that the command names.
        UsageError: the session does not run or has no breakpoints, its socket may not be used, or the command
            is refused.
    """
    try:
        line = _exchange_lines(trace, json.dumps(command).encode() + b"\n", answer_s)
    except FileNotFoundError:
        fact = "this session holds nothing at breakpoints"
        raise UsageError(trace, fact, "start one with --break FILTER") from None
    except PermissionError as error:
        fact = f"the socket beside it {error.strerror}" if error.filename else "its socket may not be used"
        raise UsageError(trace, fact, "nothing is asked; only a session of yours can be answered") from None
    except (TimeoutError, BlockingIOError):  # ``BlockingIOError``: too many clients wait to be accepted
        fact = "its session does not answer"
        raise NoAnswerError(trace, fact, "its process may be stopped; try again") from None
    except OSError:
        raise UsageError(trace, "its session has ended", "name one that runs") from None
    try:
        answer = _checked_answer(command, json.loads(line))
    except (ValueError, KeyError, TypeError, RecursionError):
        fact = "what its socket answers is not an answer of mcpproxy"
        raise NoAnswerError(trace, fact, "see which program listens there") from None
    if "refused" in answer:
        kind = NotHeldError if "gone" in answer else UsageError
        raise kind(trace, str(answer["refused"]), "mcpproxy breakpoints lists what is held")
    return answer


def _exchange_lines(trace: str, line: bytes, answer_s: float) -> bytes:
    """Send a line to the relay, and return the line that it answers.

    Raises:
        TimeoutError: the answer does not arrive in time, or is too long.
        OSError: there is no socket, it may not be used, or the session has ended.
    """
    end_s = time.monotonic() + answer_s
    with own_sockets.connect(control_path(trace), answer_s) as sock:
        sock.sendall(line)
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


def _checked_answer(command: Command, value: object) -> Command:
    """Return an answer with only those members that we know.

    Raises:
        ValueError, TypeError, KeyError: ``value`` is not an answer to this command.
    """
    answer = _object(value)
    if "refused" in answer:
        gone: Command = {"gone": True} if answer.get("gone") is True else {}
        return {"refused": _text(answer["refused"]), **gone}
    do = command.get("do")
    if do not in ("list", "show"):
        if answer.get("done") != do:
            raise ValueError(do)
        return {"done": do, "number": _count(answer["number"])}
    if command.get("starts") is not True:
        messages = [_read_members(item, _WHOLE_READERS) for item in _list(answer["held"])]
        if do == "show" and len(messages) != 1:
            raise ValueError(do)
        return {"held": messages}
    if answer.get("same") is True:
        return {"same": True}
    state = answer["state"]
    if type(state) is not int:
        raise TypeError(state)
    return {"state": state, "held": [_read_members(item, _START_READERS) for item in _list(answer["held"])]}


def _object(value: object) -> Command:
    if not isinstance(value, dict):
        raise TypeError(value)
    return cast("Command", value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return cast("list[object]", value)


def _text(value: object) -> str:
    """Return a text whose lone surrogates, which JSON can express but UTF-8 cannot encode, are escaped."""
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode("utf-8", "backslashreplace").decode()


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise TypeError(value)
    return value


def _seconds(value: object) -> float:
    # NaN is in no range, so it is refused, too.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise TypeError(value)
    return value


def _base64(value: object) -> str:
    text = _text(value)
    b64decode(text, validate=True)
    return text


def _findings(value: object) -> list[Command]:
    members = {"rule": _text, "message": _text}
    return [_read_members(item, members) for item in _list(value)]


def _read_members(value: object, readers: Mapping[str, Callable[[object], object]]) -> Command:
    members = _object(value)
    return {name: read(members[name]) for name, read in readers.items()}


_FACT_READERS: Final[dict[str, Callable[[object], object]]] = {
    "number": _count,
    "from": _text,
    "rule": _text,
    "held_s": _seconds,
    "left_s": _seconds,
    "then": _text,
    "findings": _findings,
}
_WHOLE_READERS: Final[dict[str, Callable[[object], object]]] = {**_FACT_READERS, "base64": _base64}
_START_READERS: Final[dict[str, Callable[[object], object]]] = {
    **_FACT_READERS,
    "kind": _text,
    "method": _text,
    "target": _text_or_none,
    "id": _text_or_none,
    "bytes": _count,
    "start": _base64,
}
"""Member of a held message in an answer -> its reader: in all answers, in those with whole messages, and in
those with only their beginnings."""
