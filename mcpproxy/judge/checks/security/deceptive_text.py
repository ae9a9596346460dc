"""Invisible and deceptive characters in the texts of a server about itself and its tools.

These are the texts that a host gives to the model, and shows to a person who decides about them: the
instructions, the server's implementation info (``serverInfo``), and the definitions of tools, prompts,
resources and resource templates. What is invisible on the screen still reaches the model. Results of calls
are data, and are not judged.

Source: https://www.unicode.org/reports/tr31/#Layout_and_Format_Control_Characters
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily
from mcpproxy.judge.checks.security.characters import IN_FRAME, Effect, Unseen, unseen
from mcpproxy.judge.checks.server.definitions import visible
from mcpproxy.judge.checks.server.listings import LISTS
from mcpproxy.judge.session.frame import SERVER, Severity
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.protocol.wording import shown, token, unquoted

_RULES: Final = {
    Effect.HIDDEN: ("SEC-001", "X-013"),
    Effect.DIRECTION: ("SEC-002", "X-014"),
    Effect.ESCAPE: ("SEC-003", "X-015"),
    Effect.CONTROL: ("SEC-003", "X-015"),
    Effect.INVISIBLE: ("SEC-004", "X-016"),
}

_NOUNS: Final = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "resourceTemplates": "template",
}

_NOT_TEXT: Final = frozenset({"_meta", "icons"})
"""Members of a definition that are not for the model or the user to read."""

_VALUES: Final = frozenset({"enum", "const", "default", "examples"})
"""Members of a schema that contain values and not prose."""


def deceptive_text(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report invisible characters that have no use in instructions, ``serverInfo`` and definitions (SEC-001,
    SEC-002, SEC-003, SEC-004).
    """
    if not IN_FRAME.search(context.frame.raw):
        return
    for what, pointer, field, value in _definitions(context):
        for step, text, is_value, is_name in _texts(field, value):
            for characters in unseen(text, is_value=is_value):
                yield _violation(context, what, pointer + step, characters, is_name)


def _violation(
    context: MessageContext, what: str, pointer: str, characters: Unseen, is_name: bool
) -> Violation:
    rule, requirement = _RULES[characters.kind]
    problem = f"{context.sender} put {visible(str(characters))} into {what}"
    # Control characters outside escape sequences and invisible characters mostly come from copied text. But
    # in a name, an invisible character can make two names look equal that are different.
    is_stray = characters.kind is Effect.CONTROL or (characters.kind is Effect.INVISIBLE and not is_name)
    at_most: Severity | None = "info" if is_stray else None
    return Violation(rule, requirement, problem, pointer=context.at + pointer, at_most=at_most)


def _definitions(context: MessageContext[Response]) -> Iterator[tuple[str, str, str, JSON]]:
    """Yield each field that the result defines: its description, JSON Pointer, name and value."""
    result = context.message.result
    if context.method in OPENINGS:
        for field in ("instructions", "serverInfo"):
            yield f"its {field}", f"/result/{field}", field, member(result, field)
        return
    list_name, name_member = LISTS[context.method]
    items = member(result, list_name)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        name = member(item, name_member)
        what = f"{_NOUNS[list_name]} {visible(shown(name)) if isinstance(name, str) else index}"
        for field, value in (as_object(item) or {}).items():
            if field not in _NOT_TEXT:
                described = f"the {visible(unquoted(field))} of {what}"
                yield described, f"/result/{list_name}/{index}{token(field)}", field, value


def _texts(field: str, value: JSON) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield each text in ``value``: its JSON Pointer, the text, ``is_value`` and ``is_name``.

    ``is_value`` says whether the text is within a value that a schema gives (``_VALUES``), and ``is_name``
    whether it is a name. The names of members are texts, too. Regular expressions of a schema are left out.
    """
    # Each entry is a pointer, a value, the name of its member, and whether it is within a value of a schema.
    stack: list[tuple[str, JSON, str, bool]] = [("", value, field, False)]
    while stack:
        pointer, current, name, is_value = stack.pop()
        if isinstance(current, str):
            if not (name == "pattern" and pointer):
                yield pointer, current, is_value, name == "name"
        elif isinstance(current, list):
            for index, item in enumerate(current):
                stack.append((f"{pointer}/{index}", item, name, is_value))
        elif isinstance(current, dict):
            for key, item in current.items():
                below = pointer + token(key)
                if name != "patternProperties":
                    yield below, key, False, True
                stack.append((below, item, key, is_value or key in _VALUES))


FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("SEC-001", "SEC-002", "SEC-003", "SEC-004"),
            deceptive_text,
            (Response,),
            (*OPENINGS, *LISTS),
            sender=SERVER,
        ),
    )
)
