"""Read the action of a fault rule, from a TOML table or from the words of ``--fault``.

An action is one verb with its parameters. With ``delay`` it acts after the delay; the verbs of
``_OWN_TIMES``, which hold messages for a time of their own, cannot be delayed.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.errors import McpProxyError, nearest
from mcpproxy.protocol.error_message import INTERNAL_ERROR
from mcpproxy.protocol.wording import pointer_steps

Verb: TypeAlias = Literal[
    "delay", "drop", "duplicate", "reorder", "error", "set", "remove", "merge", "replace", "raw", "truncate",
    "corrupt", "garbage", "split", "join", "oversize", "stall", "bandwidth", "disconnect", "kill", "status",
    "cut", "lose-session", "expire-token", "set-header", "drop-header", "pause",
]  # fmt: skip

OVER_HTTP: Final = frozenset(get_args(Verb)) - {
    "reorder", "split", "join", "stall", "bandwidth", "kill",
}  # fmt: skip
"""The verbs that exist over HTTP."""
FROM_CLIENTS: Final = frozenset({"lose-session", "expire-token", "set-header", "drop-header"})
"""The verbs that act only on what clients send."""
FROM_SERVERS: Final = frozenset({"cut"})
"""The verbs that act only on what servers send."""
ANSWERS_OVER_HTTP: Final = FROM_SERVERS | {"duplicate", "garbage"}
"""The verbs that act only on what servers send over HTTP, where a request cannot have two bodies."""
ONLY_HTTP: Final = frozenset({"status"}) | FROM_CLIENTS | FROM_SERVERS
"""The verbs that do not exist on stdio."""

WITHOUT_MESSAGE: Final = ("delay", "drop", "disconnect", "status", "set-header", "drop-header")
"""The verbs that can act on a request without a message, such as the GET for an event stream."""

FOREVER_NS: Final = 1 << 62
"""How long ``stall = "forever"`` lasts."""

_PARAMETERS: Final[Mapping[str, tuple[Verb, ...]]] = {
    "jitter": ("delay",),
    "hold": ("delay",),
    "gap": ("duplicate", "split"),
    "within": ("reorder", "join", "pause"),
    "then": ("pause",),
    "headers": ("status",),
    "of": ("set-header", "drop-header"),
}
"""Parameter -> the verbs that take it."""

_OWN_TIMES: Final[Mapping[Verb, str]] = {
    "reorder": "within", "join": "within", "pause": "within", "stall": "stall",
}  # fmt: skip
"""The verbs that cannot be delayed -> the name of the time for which each of them holds messages."""

_DURATION: Final = pattern(r"(\d+(?:\.\d+)?)(ms|s|m|min|h)")
_SIZE: Final = pattern(r"(\d+)([kmg]?)(?:i?b)?", 2)  # case does not matter
_CODE_AND_TEXT: Final = pattern(r"-?\d+\s")
"""The beginning of a text that gives ``error`` both a code and a message, which is refused."""
_NS: Final = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MOST_BYTES: Final = 1 << 30
"""The largest size that a rule may name."""
_ENDINGS: Final = ("eof", "half-close", "reset")
_SIGNALS: Final = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
_AFTER_PAUSE: Final = ("pass", "drop", "error")
"""What ``then`` may say: what happens to a message that nobody releases from a breakpoint in time."""


class FaultRuleError(McpProxyError):
    """Fault rules cannot be used. The text says where, what is wrong, and what to write instead."""

    def __init__(self, fact: str, next_step: str, place: str = "") -> None:
        super().__init__(f"{place}: {fact}; {next_step}" if place else f"{fact}; {next_step}")
        self.fact = fact
        self.next_step = next_step


@slotted(frozen=True)
class FaultAction:
    """One verb with its parameters, whose meaning depends on the verb.

    - ``delay_ns``, ``jitter_ns``: the delay, and by how much at most it is randomly longer or shorter.
    - ``keeps_order``: whether later messages of the same direction wait for this one.
    - ``count``: the number of copies, messages, bytes, pieces or bytes per second, or the HTTP status.
    - ``gap_ns``: the time between copies or pieces, or how long ``reorder``, ``join`` and ``pause`` wait.
    - ``edits``: pairs of a JSON Pointer, split into its tokens, and JSON text (``None`` for ``remove``).
    - ``replacements``: pairs of a regular expression and its replacement.
    - ``text``: the new message of ``raw``, the message of ``error``, the ending or signal of ``disconnect``
      and ``kill``; for header verbs, which head changes, ``request`` or ``response``; for ``pause``, what
      becomes of the message at the end: ``pass``, ``drop`` or ``error``.
    - ``code``, ``data``: of ``error``; ``data`` is JSON, empty for none.
    """

    verb: Verb
    delay_ns: int = 0
    jitter_ns: int = 0
    keeps_order: bool = True
    count: int = 0
    gap_ns: int = 0
    edits: tuple[tuple[tuple[str, ...], bytes | None], ...] = ()
    replacements: tuple[tuple[str, str], ...] = ()
    text: str = ""
    code: int = INTERNAL_ERROR
    data: bytes = b""
    headers: tuple[tuple[str, str | None], ...] = ()
    """Header fields and their values, ``None`` for a field that is dropped."""


def read_action(members: Mapping[str, object]) -> FaultAction:
    """Return the action that ``members`` describe.

    Raises:
        FaultRuleError: they describe no action or several, or one has a value or a parameter that cannot be
            used. The error names no place.
    """
    for name in members:
        if name not in (*get_args(Verb), *_PARAMETERS):
            guess = nearest(name, (*get_args(Verb), *_PARAMETERS))
            known = f"do you mean {guess}?" if guess else f"there are {', '.join(get_args(Verb))}"
            raise FaultRuleError(f"there is no action {name}", known)
    given = [name for name in get_args(Verb) if name in members]
    verbs: list[Verb] = [name for name in given if name != "delay"] or given
    if not verbs:
        raise FaultRuleError("it does nothing", f"name one of {', '.join(get_args(Verb))}")
    if len(verbs) > 1:
        raise FaultRuleError(f"{verbs[0]} and {verbs[1]} contradict each other", "make two rules of them")
    for name, takers in _PARAMETERS.items():
        if name in members and not set(takers) & set(given):
            raise FaultRuleError(f"{name} belongs to {' or '.join(takers)}", "leave it out")
    verb = verbs[0]
    if "delay" in members and (time := _OWN_TIMES.get(verb)):
        raise FaultRuleError(
            f"{verb} cannot be delayed", f'leave delay out, or write {time} = "2s" for how long it holds'
        )
    arguments = _READERS[verb](verb, members[verb])
    if "delay" in members:
        arguments["delay_ns"] = _duration("delay", members["delay"])
    if "jitter" in members:
        arguments["jitter_ns"] = _duration("jitter", members["jitter"])
    for name in ("gap", "within"):
        if name in members:
            arguments["gap_ns"] = _duration(name, members[name])
    if "hold" in members:
        if members["hold"] not in ("order", "one"):
            raise FaultRuleError(f"hold = {_shown(members['hold'])} is not known", 'write "order" or "one"')
        arguments["keeps_order"] = members["hold"] == "order"
    if "headers" in members:
        arguments["headers"] = _headers("headers", members["headers"])
    if "then" in members:
        if members["then"] not in _AFTER_PAUSE:
            fact = f"then = {_shown(members['then'])} is not known"
            raise FaultRuleError(fact, f"write {', '.join(_AFTER_PAUSE)}")
        arguments["text"] = members["then"]
    if "of" in members:
        if members["of"] not in ("request", "response"):
            fact = f"of = {_shown(members['of'])} is not known"
            raise FaultRuleError(fact, 'write "request" or "response"')
        arguments["text"] = members["of"]
    return FaultAction(verb, **arguments)


_Arguments: TypeAlias = dict[str, Any]
"""Keyword arguments of ``FaultAction``."""


def _flag(verb: Verb, value: object) -> _Arguments:
    if value is not True:
        raise FaultRuleError(f"{verb} = {_shown(value)} cannot be read", f"write {verb} = true")
    return {}


def _number(least: int, default: int | None = None) -> Callable[[Verb, object], _Arguments]:
    """Return a reader of whole numbers from ``least`` on; ``true`` means the ``default``."""

    def read(verb: Verb, value: object) -> _Arguments:
        if value is True and default is not None:
            return {"count": default}
        if type(value) is not int or value < least:
            raise FaultRuleError(
                f"{verb} = {_shown(value)} is not a number", f"write a whole number from {least} on"
            )
        return {"count": value}

    return read


def _bytes(verb: Verb, value: object) -> _Arguments:
    match = _SIZE.fullmatch(str(value)) if type(value) in (int, str) else None
    number = int(match[1]) * _BYTES[match[2].lower()] if match else 0
    if not 0 < number <= _MOST_BYTES:
        raise FaultRuleError(f"{verb} = {_shown(value)} is not a size", 'write bytes, or "64k", "11MB"')
    return {"count": number}


def _error(verb: Verb, value: object) -> _Arguments:
    if type(value) is int:
        value = {"code": value}
    elif isinstance(value, str):
        if _CODE_AND_TEXT.match(value):
            raise FaultRuleError(
                f"error {value} is a code and a text", 'write {code = -32000, message = "text"}'
            )
        value = {"message": value}
    members = {} if value is True else _table(verb, value, "write a code, a text, or a table")
    _refuse_unknown("error", members, ("code", "message", "data"))
    code, message = members.get("code", INTERNAL_ERROR), members.get("message", "Internal error")
    if type(code) is not int or not isinstance(message, str):
        raise FaultRuleError("error takes a number as code and a text as message", "correct it")
    return {"code": code, "text": message, "data": _json(members["data"]) if "data" in members else b""}


def _set(verb: Verb, value: object) -> _Arguments:
    edits = [(_tokens(pointer), _json(new)) for pointer, new in _table(verb, value).items()]
    return {"edits": tuple(edits)}


def _remove(verb: Verb, value: object) -> _Arguments:
    pointers = cast("list[object]", value) if isinstance(value, list) else [value]
    if not pointers:
        raise FaultRuleError(f"{verb} = [] names nothing", "name a JSON Pointer")
    return {"edits": tuple((_tokens(pointer), None) for pointer in pointers)}


def _merge(verb: Verb, value: object) -> _Arguments:
    """Read a merge patch for each pointer: members with a table are merged, those with another value are set.

    A member with ``null`` is removed when the patch is applied.
    """
    edits: list[tuple[tuple[str, ...], bytes | None]] = []
    for pointer, new in _table(verb, value).items():
        edits += _merge_edits(_tokens(pointer), _table(verb, new))
    return {"edits": tuple(edits)}


def _merge_edits(
    tokens: tuple[str, ...], members: Mapping[str, object]
) -> "list[tuple[tuple[str, ...], bytes | None]]":
    edits: list[tuple[tuple[str, ...], bytes | None]] = []
    for name, new in members.items():
        if isinstance(new, dict):
            edits += _merge_edits((*tokens, name), cast("dict[str, object]", new))
        else:
            edits.append(((*tokens, name), _json(new)))
    return edits


def _replace(verb: Verb, value: object) -> _Arguments:
    import re

    pairs: list[tuple[str, str]] = []
    for expression, new in _table(verb, value).items():
        if not isinstance(new, str):
            raise FaultRuleError(f"replace: {_shown(new)} is not a text", "write the new text")
        try:
            # A replacement that names a missing group is refused here, not later in the session.
            re.compile(expression.encode() + b"|").sub(new.encode(), b"")
        except (re.error, IndexError) as fault:
            raise FaultRuleError(f"replace: {expression!r} cannot be read ({fault})", "correct it") from None
        pairs.append((expression, new))
    return {"replacements": tuple(pairs)}


def _text(verb: Verb, value: object) -> _Arguments:
    if not isinstance(value, str):
        raise FaultRuleError(f"{verb} = {_shown(value)} is not a text", "write the whole message as a text")
    return {"text": value}


def _word(words: tuple[str, ...]) -> Callable[[Verb, object], _Arguments]:
    """Return a reader of one of ``words``; ``true`` means the first of them."""

    def read(verb: Verb, value: object) -> _Arguments:
        if value is True:
            return {"text": words[0]}
        if value not in words:
            raise FaultRuleError(f"{verb} = {_shown(value)} is not known", f"write {', '.join(words)}")
        return {"text": value}

    return read


def _delay(verb: Verb, value: object) -> _Arguments:
    return {"delay_ns": _duration(verb, value)}


def _stall(verb: Verb, value: object) -> _Arguments:
    return {"delay_ns": FOREVER_NS if value in (True, "forever") else _duration(verb, value)}


def _status(verb: Verb, value: object) -> _Arguments:
    if type(value) is not int or not 400 <= value <= 599:
        raise FaultRuleError(f"{verb} = {_shown(value)} is not an error", "write a status from 400 to 599")
    return {"count": value}


def _lose_or_expire(verb: Verb, value: object) -> _Arguments:
    status = 404 if verb == "lose-session" else 401
    return {**_flag(verb, value), "count": status}


def _pause(verb: Verb, value: object) -> _Arguments:
    return {**_flag(verb, value), "gap_ns": 60 * 10**9, "text": "pass"}


def _set_header(verb: Verb, value: object) -> _Arguments:
    return {"headers": _headers(verb, value), "text": "request"}


def _drop_header(verb: Verb, value: object) -> _Arguments:
    names: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name and name.isprintable() for name in names):
        raise FaultRuleError(f"{verb} = {_shown(names)} names no header", 'write "Mcp-Session-Id"')
    return {"headers": tuple((str(name), None) for name in names), "text": "request"}


_READERS: Final[Mapping[Verb, Callable[[Verb, object], _Arguments]]] = {
    "delay": _delay,
    "drop": _flag,
    "duplicate": _number(1, 1),
    "reorder": _number(2, 2),
    "error": _error,
    "set": _set,
    "remove": _remove,
    "merge": _merge,
    "replace": _replace,
    "raw": _text,
    "truncate": _number(0),
    "corrupt": _number(1, 1),
    "garbage": _bytes,
    "split": _number(2, 2),
    "join": _flag,
    "oversize": _bytes,
    "stall": _stall,
    "bandwidth": _bytes,
    "disconnect": _word(_ENDINGS),
    "kill": _word(_SIGNALS),
    "status": _status,
    "cut": _number(1, 0),
    "lose-session": _lose_or_expire,
    "expire-token": _lose_or_expire,
    "set-header": _set_header,
    "drop-header": _drop_header,
    "pause": _pause,
}


def _duration(name: str, value: object) -> int:
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise FaultRuleError(
            f"{name} = {_shown(value)} is not a duration", 'write "500ms", "2s", "1m" or "1h"'
        )
    return round(float(match[1]) * _NS[match[2]])


def _tokens(pointer: object) -> tuple[str, ...]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise FaultRuleError(f"{_shown(pointer)} is not a JSON Pointer", "write it as /params/arguments/name")
    return tuple(pointer_steps(pointer))


def _table(verb: str, value: object, next_step: str = 'write {"what" = "new"}') -> dict[str, object]:
    is_table = isinstance(value, dict)
    table = cast("dict[str, object]", value) if is_table else {}
    if not table:
        raise FaultRuleError(f"{verb} = {_shown(value)} is not a table", next_step)
    return table


def _headers(where: str, value: object) -> tuple[tuple[str, str], ...]:
    fields = _table(where, value, 'write {"Retry-After" = "1"}')
    for name, text in fields.items():
        if not isinstance(text, str) or not name or not f"{name}{text}".isprintable():
            raise FaultRuleError(f"{where}: {name} is not a header", 'write {"Retry-After" = "1"}')
    return tuple((name, str(text)) for name, text in fields.items())


def _refuse_unknown(verb: str, members: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in members:
        if name not in known:
            raise FaultRuleError(f"{verb} has no {name}", f"there are {', '.join(known)}")


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError):  # a date, an infinity, or NaN
        raise FaultRuleError(f"{_shown(value)} cannot be written as JSON", "write a text instead") from None


def _shown(value: object) -> str:
    """Return a value for an error message."""
    return json.dumps(value, ensure_ascii=False, default=str)
