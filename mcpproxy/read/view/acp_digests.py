"""Make short texts for the messages of the Agent Client Protocol (ACP).

A digest is a function that takes the params or the result of a message and returns its text. A text is empty
if the message does not have the usual members; it is then shown as JSON.
"""

from collections.abc import Callable, Mapping
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import as_object, objects_in

_MAX_TEXT: Final = 400
"""How many characters of a text are shown."""

_Members = Mapping[str, JSON]


def _object(value: JSON) -> _Members:
    """Return ``value`` if it is an object, otherwise an empty one."""
    return as_object(value) or {}


def _words(*values: JSON) -> str:
    """Return the texts and integers among ``values``, separated by spaces, each text cut to ``_MAX_TEXT``."""
    texts = (value[:_MAX_TEXT] if isinstance(value, str) else value for value in values)
    return " ".join(str(text) for text in texts if text != "" and type(text) in (str, int))


def _block(block: _Members) -> str:
    """Return the text of a content block, or its type and name in brackets; empty without text and type."""
    text, kind = block.get("text"), block.get("type")
    if isinstance(text, str):
        return text[:_MAX_TEXT]
    name = block.get("name") or block.get("uri") or block.get("mimeType")
    return f"[{_words(kind, name)}]" if isinstance(kind, str) else ""


def _prompt(params: _Members) -> str:
    return _words(*(_block(block) for block in objects_in(params.get("prompt"))))


def _update(params: _Members) -> str:
    """Return the kind of a session update, and what it says: ``tool_call pending Build``."""
    update = _object(params.get("update"))
    kind = update.get("sessionUpdate")
    if not isinstance(kind, str):
        return ""
    content = update.get("content")
    texts: tuple[JSON, ...] = ()
    if kind.endswith(("_chunk", "_message", "_thought")):
        # A chunk has one block, a complete message a list of blocks.
        blocks = (_block(_object(content)), *(_block(block) for block in objects_in(content)))
        texts = (*blocks, _object(update.get("plan")).get("planId"))
    title = update.get("title") or update.get("toolCallId") or update.get("terminalId")
    state = update.get("state") or update.get("status")
    return _words(kind, state, update.get("stopReason"), update.get("currentModeId"), title, *texts)


def _permission(params: _Members) -> str:
    """Return the action for which an agent asks permission, and the options: ``Build (allow, reject)``."""
    subject = _object(params.get("subject"))
    call = _object(params.get("toolCall")) or _object(subject.get("toolCall"))
    about = params.get("title") or call.get("title") or call.get("toolCallId")
    options = ", ".join(_words(option.get("optionId")) for option in objects_in(params.get("options")))
    action = _words(about, subject.get("command"))
    return f"{action} ({options})" if action and options else action


def _outcome(result: _Members) -> str:
    outcome = _object(result.get("outcome"))
    return _words(outcome.get("outcome"), outcome.get("optionId"))


def _values_of(*names: str) -> Callable[[_Members], str]:
    """Return a digest that gives the values of these members, in this order."""

    def digest(members: _Members) -> str:
        return _words(*(members.get(name) for name in names))

    return digest


def _command(params: _Members) -> str:
    args = params.get("args")
    return _words(params.get("command"), *(args if isinstance(args, list) else ()))


ARGUMENTS: Final[Mapping[str, Callable[[_Members], str]]] = {
    "session/prompt": _prompt,
    "session/update": _update,
    "session/request_permission": _permission,
    "session/set_mode": _values_of("modeId"),
    "session/set_config_option": _values_of("configId", "value"),
    "fs/read_text_file": _values_of("path"),
    "fs/write_text_file": _values_of("path"),
    "terminal/create": _command,
    "terminal/output": _values_of("terminalId"),
    "terminal/wait_for_exit": _values_of("terminalId"),
    "terminal/kill": _values_of("terminalId"),
    "terminal/release": _values_of("terminalId"),
    "elicitation/create": _values_of("mode", "message", "url"),
    "elicitation/complete": _values_of("elicitationId"),
}
"""Method -> the digest of its params."""

RESULTS: Final[Mapping[str, Callable[[_Members], str]]] = {
    "session/new": _values_of("sessionId"),
    "session/prompt": _values_of("stopReason"),
    "session/request_permission": _outcome,
    "terminal/create": _values_of("terminalId"),
    "terminal/output": _values_of("output"),
    "fs/read_text_file": _values_of("content"),
}
"""Method -> the digest of its result."""
