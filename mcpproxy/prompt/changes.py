"""What became of a tool's description and schema, and of a result, between the wire and the prompt."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.model.turns import Content, ModelResult
from mcpproxy.prompt.wire import Piece
from mcpproxy.protocol.jsonrpc import JSON

Way: TypeAlias = Literal["same", "cut", "extended", "changed", "missing", "as text"]

_MOST_DIFFERENCES: Final = 200


@slotted(frozen=True)
class TextChange:
    """What became of a text: ``kept`` of its ``size`` characters are in the prompt, from its beginning on."""

    way: Way
    size: int
    kept: int


@slotted(frozen=True)
class SchemaChange:
    """A difference of two schemas at ``pointer``: ``lost``, ``added`` or ``changed``."""

    what: Literal["lost", "added", "changed"]
    pointer: str
    keyword: str


def text_change(told: str | None, said: str | None) -> TextChange:
    """Compare a description on the wire with that in the prompt. A host may put words before or after it."""
    wire, prompt = told or "", said or ""
    if wire.strip() == prompt.strip():
        return TextChange("same", len(wire), len(wire))
    if wire and wire.strip() in prompt:
        return TextChange("extended", len(wire), len(wire))
    if not prompt:
        return TextChange("missing", len(wire), 0)
    kept = _kept(wire, prompt)
    return TextChange("cut" if kept >= min(len(wire), 8) else "changed", len(wire), kept)


def schema_changes(wire: JSON, prompt: JSON) -> list[SchemaChange]:
    """Return the differences of two schemas, at most ``_MOST_DIFFERENCES``."""
    found: list[SchemaChange] = []
    for change in _differences(wire, prompt, "", ""):
        found.append(change)
        if len(found) == _MOST_DIFFERENCES:
            break
    return found


def keywords(changes: Iterable[SchemaChange], what: str) -> list[str]:
    """Return the keywords that were lost, added or changed, each with how often if that is more than once."""
    counted = Counter(change.keyword for change in changes if change.what == what)
    return [name if count == 1 else f"{name} ({count})" for name, count in counted.most_common()]


def piece_change(
    piece: Piece, result: ModelResult, beside: Iterable[Content], texts: Iterable[str]
) -> TextChange:
    """Say what the model got of a piece of a result, in the result or beside it."""
    if piece.kind in ("text", "resource", "link", "structured") and piece.text:
        said = [content.text for content in result.content if content.kind == "text"]
        return _text_reached(piece, [*said, *texts])
    digests = {content.digest for content in (*result.content, *beside) if content.digest}
    if piece.digest and piece.digest in digests:
        return TextChange("same", piece.size, piece.size)
    return TextChange("missing", piece.size, 0)


def _text_reached(piece: Piece, said: list[str]) -> TextChange:
    text = piece.text.strip()
    if text in (one.strip() for one in said):
        return TextChange("same", len(text), len(text))
    escaped = json.dumps(text)[1:-1]
    unescaped = json.dumps(text, ensure_ascii=False)[1:-1]
    if any(text in one or escaped in one or unescaped in one or _same_json(text, one) for one in said):
        return TextChange("as text", len(text), len(text))
    kept = max((_kept(text, one) for one in said), default=0)
    return (
        TextChange("cut", len(text), kept)
        if kept >= min(len(text), 16)
        else TextChange("missing", len(text), 0)
    )


def _kept(wire: str, prompt: str) -> int:
    """Return how much of the beginning of a text is somewhere in another one."""
    head = wire[:16]
    start = prompt.find(head) if head else -1
    return common_length(wire, prompt[max(start, 0) :])


def common_length(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _same_json(one: str, other: str) -> bool:
    if one[:1] not in "{[" or other[:1] not in "{[":
        return False
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def _differences(wire: JSON, prompt: JSON, pointer: str, keyword: str) -> Iterator[SchemaChange]:
    if wire == prompt:
        return
    if isinstance(wire, dict) and isinstance(prompt, dict):
        for name in (*wire, *(name for name in prompt if name not in wire)):
            place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in prompt:
                yield SchemaChange("lost", place, name)
            elif name not in wire:
                yield SchemaChange("added", place, name)
            else:
                yield from _differences(wire[name], prompt[name], place, name)
    else:
        yield SchemaChange("changed", pointer, keyword)
