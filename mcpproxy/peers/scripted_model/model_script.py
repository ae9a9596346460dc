"""A script for a model: its turns (answers of the model), read from JSON Lines, one turn on each line.

Arguments of tools are JSON, null included, so a turn is JSON, too. It is on one line, so that an error has
the number of its line. The README of this package lists the members.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from mcpproxy.base import files
from mcpproxy.base.slotted import slotted
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import McpProxyError, UsageError, nearest
from mcpproxy.protocol.jsonrpc import JSON, Flaw, JSONObject, read
from mcpproxy.protocol.message_parts import as_object

CUT: Final = "cut"
"""The value of ``fail`` for an answer that breaks off."""

_LARGEST_BYTES: Final = 16 << 20

_LONGEST_WAIT_S: Final = 3600

_TURN: Final = ("call", "server", "arguments", "expect", "calls", "say", "wait", "fail", "message", "about")
_CALL: Final = ("call", "server", "arguments", "expect")
_EXPECT: Final = ("contains", "equals", "is_error", "at")
"""The members that a turn, a call and an expectation may have."""


@slotted(frozen=True)
class Expectation:
    """The result that the model must be given for a call.

    ``at`` is a pointer (RFC 6901) into the JSON in the result, which must have a value there, or ``None`` for
    the whole text. Each other member that is not ``None`` must hold; ``equals`` is in a tuple, because null
    is a value.
    """

    at: str | None = None
    contains: str | None = None
    equals: tuple[JSON] | None = None
    is_error: bool | None = None


@slotted(frozen=True)
class ScriptCall:
    """A call of a tool by the name that its server gives it.

    ``server`` is the prefix that hosts put before the tools of its server; it is empty if any will do. The
    result has to fulfil all of ``expects``.
    """

    tool: str
    arguments: JSONObject
    server: str
    expects: tuple[Expectation, ...]


@slotted(frozen=True)
class ScriptFailure:
    """A failure instead of an answer: an HTTP status, or ``None`` if the answer breaks off.

    ``message`` is the text of the error; if it is empty, the response only names the status. An answer that
    breaks off does not contain it.
    """

    status: int | None
    message: str


@slotted(frozen=True)
class ScriptTurn:
    """One answer of the model, after ``wait_s`` seconds: text and calls, or a failure.

    ``line`` counts from 1.
    """

    line: int
    text: str
    calls: tuple[ScriptCall, ...]
    failure: ScriptFailure | None
    wait_s: float


ModelScript: TypeAlias = tuple[ScriptTurn, ...]


class _FaultyTurnError(McpProxyError):
    """A turn is wrong. The text is ``fact; next step``, which becomes a ``UsageError`` with the line."""


def read_script_file(path: str) -> ModelScript:
    """Read a script.

    Raises:
        UsageError: the file cannot be read, has no turn, or has a line that is no turn.
    """
    try:
        content = files.read(path, _LARGEST_BYTES, follows=True)
    except OSError as error:
        raise UsageError(path, f"cannot be read ({os_reason(error)})", "name a script of a model") from None
    lines = enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), 1)
    return _script(path, ((number, _value(path, number, line)) for number, line in lines if line.strip()))


def script_of(turns: Iterable[Any], name: str = "script") -> ModelScript:
    """Read turns that are JSON values already. In errors, ``name`` stands where the path of a file would.

    Raises:
        UsageError: there is none, or one of them is no turn; its number is reported as its line.
    """
    return _script(name, enumerate(turns, 1))


def _value(path: str, number: int, line: bytes) -> JSON:
    value = read(line)
    if isinstance(value, Flaw):
        reason = value.value.replace("the frame", "the line")
        raise UsageError(f"{path}:{number}", reason, 'write a turn on one line, such as {"say": "done"}')
    return value


def _script(path: str, values: Iterable[tuple[int, JSON]]) -> ModelScript:
    turns: list[ScriptTurn] = []
    for number, value in values:
        try:
            turns.append(_turn(number, value))
        except _FaultyTurnError as fault:
            fact, _, next_step = str(fault).partition("; ")
            raise UsageError(f"{path}:{number}", fact, next_step) from None
    if not turns:
        raise UsageError(path, "has no turn", 'write one on each line, such as {"say": "done"}')
    return tuple(turns)


def _turn(number: int, value: JSON) -> ScriptTurn:
    turn = _object(value, "a turn", _TURN)
    text = _text(turn, "say")
    calls = tuple(_calls(turn))
    failure = _failure(turn)
    wait = turn.get("wait", 0)
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= _LONGEST_WAIT_S:
        raise _FaultyTurnError(f"wait is not a number of seconds; write 0 to {_LONGEST_WAIT_S}")
    if failure and (text or calls):
        raise _FaultyTurnError("a turn that fails says and calls nothing; put that in a turn of its own")
    if not (text or calls or failure):
        raise _FaultyTurnError("the turn does nothing; give it call, calls, say or fail")
    return ScriptTurn(number, text, calls, failure, float(wait))


def _calls(turn: JSONObject) -> Iterable[ScriptCall]:
    if "call" in turn:
        yield _call({name: turn[name] for name in _CALL if name in turn})
    elif stray := [name for name in _CALL if name in turn]:
        raise _FaultyTurnError(f"{stray[0]} stands without a call; name the tool with call")
    calls = turn.get("calls", [])
    if not isinstance(calls, list):
        raise _FaultyTurnError('calls is no array; write [{"call": "one"}, {"call": "another"}]')
    yield from (_call(_object(call, "a call", _CALL)) for call in calls)


def _call(value: JSONObject) -> ScriptCall:
    tool = _text(value, "call")
    arguments = as_object(value.get("arguments", {}))
    if not tool:
        raise _FaultyTurnError("the call names no tool; write its name as the server lists it")
    if arguments is None:
        raise _FaultyTurnError(f"the arguments of {tool} are no object; write them in {{}}")
    expected = value.get("expect", [])
    expectations: Sequence[JSON] = expected if isinstance(expected, list) else [expected]
    return ScriptCall(tool, arguments, _text(value, "server"), tuple(map(_expectation, expectations)))


def _expectation(value: JSON) -> Expectation:
    expected = _object(value, "an expectation", _EXPECT)
    at = expected.get("at")
    contains = expected.get("contains")
    is_error = expected.get("is_error")
    if at is not None and not (isinstance(at, str) and (not at or at.startswith("/"))):
        raise _FaultyTurnError("at is no JSON pointer; write one such as /temperature")
    if contains is not None and not isinstance(contains, str):
        raise _FaultyTurnError("contains is no text; compare other values with at and equals")
    if is_error is not None and not isinstance(is_error, bool):
        raise _FaultyTurnError("is_error is neither true nor false; write one of them")
    equals = (expected["equals"],) if "equals" in expected else None
    if at is None and equals and not isinstance(equals[0], str):
        raise _FaultyTurnError('equals compares a text; "at": "" compares the whole JSON in it')
    if not expected:
        raise _FaultyTurnError(f"expect says nothing; give it {', '.join(_EXPECT)}")
    return Expectation(at, contains, equals, is_error)


def _failure(turn: JSONObject) -> ScriptFailure | None:
    fail = turn.get("fail")
    message = _text(turn, "message")
    if fail is None:
        if message:
            raise _FaultyTurnError("message stands without a failure; a text of the model is said with say")
        return None
    if fail == CUT:
        return ScriptFailure(None, message)
    if isinstance(fail, bool) or not isinstance(fail, int) or not 400 <= fail <= 599:
        raise _FaultyTurnError('fail is no HTTP status of an error; write one such as 429, or "cut"')
    return ScriptFailure(fail, message)


def _object(value: JSON, what: str, names: Sequence[str]) -> JSONObject:
    members = as_object(value)
    if members is None:
        raise _FaultyTurnError(f"{what} is no object; write it in {{}}")
    for name in members:
        if name not in names:
            guess = nearest(name, names)
            hint = f"did you mean {guess}?" if guess else f"there are {', '.join(names)}"
            raise _FaultyTurnError(f"{what} has no member {name!r}; {hint}")
    return members


def _text(value: JSONObject, name: str) -> str:
    text = value.get(name, "")
    if not isinstance(text, str):
        raise _FaultyTurnError(f"{name} is no text; write it in quotes")
    return text
