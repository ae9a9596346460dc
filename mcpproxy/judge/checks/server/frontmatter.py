"""The YAML frontmatter of a SKILL.md, as far as it can be read with certainty without a YAML parser.

YAML has many forms, and parsers differ. Only the names of the fields, and a name and a description on one
line, are compared with the entry of the skill in the server's index. Any other form counts as equal.

Source: https://agentskills.io/specification, section Frontmatter
"""

import re
from collections.abc import Mapping
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.masked_values import MARK
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.wording import shown

FENCE: Final = "---"
"""The line before the frontmatter, and the line after it."""

MAX_FIELDS: Final = 64
"""A frontmatter with more fields is not remembered."""

MAX_LINES: Final = 1_000
"""A frontmatter with more lines is not compared."""

COMPARED: Final = ("name", "description")
"""The fields whose values are compared."""

_OTHER_VALUE: Final = r"(?:y|n|yes|no|on|off|true|false|null)"
"""Words that some version of YAML does not read as a text."""

_FIELD: Final = pattern(rf"(?!(?i:{_OTHER_VALUE}):)([A-Za-z][\w-]*):(?:[ \t]++(.*))?")
_CONTINUED: Final = pattern(r"[ \t].*|-(?:[ \t].*)?|#.*|[ \t]*")
"""A line that continues the field above it, a comment, or an empty line."""
_PLAIN: Final = pattern(rf"(?!{_OTHER_VALUE}$)[^\W\d_](?:[^:#]|:(?!\s|$)|(?<!\s)#)*", re.I)
"""A text without quotes on one line that no version of YAML reads as another value."""


@slotted(frozen=True)
class Frontmatter:
    """The frontmatter in an entry: the names of its fields, and hashes of the fields that are compared.

    A field that a recording masks is not compared.
    """

    names: frozenset[str]
    hashes: Mapping[str, int]


def frontmatter_of(entry: JSONObject) -> Frontmatter | None:
    """Return the frontmatter in an entry; ``None`` if there is none or it has too many fields."""
    frontmatter = entry.get("frontmatter")
    if not isinstance(frontmatter, dict) or len(frontmatter) > MAX_FIELDS:
        return None
    texts = {name: text for name in COMPARED if isinstance(text := frontmatter.get(name), str)}
    hashes = {name: hash(text) for name, text in texts.items() if MARK not in text}
    return Frontmatter(frozenset(frontmatter), hashes)


def begins_with_frontmatter(text: str) -> bool:
    """Whether the text of a SKILL.md begins with YAML frontmatter."""
    return _first_line(text) == FENCE


def _first_line(text: str) -> str:
    return text[:80].removeprefix("\ufeff").partition("\n")[0].rstrip()


def unlike(text: str, listed: Frontmatter) -> str:
    """Return how the frontmatter of a SKILL.md differs from that in its entry; empty if it may be equal."""
    fields = _fields(text)
    if fields is None:
        return ""
    for name in fields:
        if name not in listed.names:
            return f"the entry lacks {shown(name)}"
    for name in sorted(listed.names):
        if name not in fields:
            return f"SKILL.md lacks {shown(name)}"
    for name in COMPARED:
        value = fields.get(name)
        if value is not None and listed.hashes.get(name) not in (None, hash(value)):
            return f"{name} is {shown(value)} in SKILL.md"
    return ""


def _fields(text: str) -> dict[str, str | None] | None:
    """Return the fields of a frontmatter, each with its text, or with ``None`` if that is not certain.

    The result is ``None`` if no second fence ends the frontmatter, if a line is neither a field nor a part of
    one, or if a name comes twice.
    """
    lines = [line.rstrip("\r") for line in text.split("\n", MAX_LINES)[1:]]
    if FENCE not in lines:
        return None
    lines = lines[: lines.index(FENCE)]
    fields: dict[str, str | None] = {}
    latest = ""
    for line in lines:
        if _CONTINUED.fullmatch(line):
            if line.strip() and latest:
                fields[latest] = None  # The text may continue here, even after empty lines.
            continue
        field = _FIELD.fullmatch(line.rstrip(" \t"))
        if field is None or field[1] in fields:
            return None
        latest = field[1]
        fields[latest] = _text_of(field[2] or "")
    return fields


def _text_of(value: str) -> str | None:
    """Return the text that a value on one line stands for, ``None`` if that is not certain."""
    quote = value[:1]
    if quote in ('"', "'"):
        inner = value[1:-1]
        is_simple = len(value) > 1 and value[-1] == quote and quote not in inner and "\\" not in inner
        return inner if is_simple else None
    return value if _PLAIN.fullmatch(value) else None
