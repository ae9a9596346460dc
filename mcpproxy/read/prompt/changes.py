"""Compare a value or a text on the wire, as a server or client sent it, with the prompt of a model."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from re import escape, search
from typing import Final, Literal, TypeAlias
from unicodedata import normalize

from mcpproxy.base.json_values import dumps
from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.masked_values import MARK
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, read
from mcpproxy.protocol.wording import token

Way: TypeAlias = Literal["same", "cut", "extended", "changed", "added", "missing", "as text", "unknown"]
"""What became of a text. The prompt has it as it was (``same``), a part of it (``cut``), all of it within
more text (``extended``), another text (``changed``), a text where there was none (``added``), nothing
(``missing``), or the text in another form, for example as JSON or, of a result, within more (``as text``). It
is ``unknown`` if the prompt is masked, or may have the text in a file."""

_MOST_CHANGES: Final = 200
"""How many differences of two values are reported."""
_SHARED_CHARACTERS: Final = 32
"""How many characters of the beginning and of the end of a longer text are searched for in the prompt."""
_COLOUR_CODES: Final = pattern(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_WORD: Final = pattern(r"\w+")
_NAMING_KEYWORDS: Final = ("properties", "$defs", "definitions", "patternProperties")
"""The keywords of JSON Schema whose members have names that the author chose."""


@slotted(frozen=True)
class TextChange:
    """What became of a text. The prompt has about the first ``kept`` of its ``size`` characters.

    For a file, these count bytes. ``has_end`` is true if the prompt also has the end of the text, which was
    cut in its middle.
    """

    way: Way
    size: int
    kept: int
    has_end: bool = False

    @property
    def is_there(self) -> bool:
        """Whether the prompt has the text, or a part of it."""
        return self.size > 0 and self.way in ("same", "extended", "cut", "as text")


@slotted(frozen=True)
class ValueChange:
    """A difference of two values at ``pointer``. ``name`` is the name of the member there or around it.

    Only the first value has what is ``lost``, and only the second what is ``added``. For a member of
    ``properties``, or of a keyword like it, ``name`` is ``property NAME``. ``as text`` is for a keyword of a
    schema whose name and value the host wrote into the description.
    """

    what: Literal["lost", "as text", "added", "changed"]
    pointer: str
    name: str


def text_change(on_wire: str | None, in_prompt: str | None) -> TextChange:
    """Compare a text on the wire with a text of the prompt, which may have words before or after it.

    Differences of white space do not count, unless the text was cut. ``None`` is an empty text.
    """
    wire, prompt = (on_wire or "").strip(), (in_prompt or "").strip()
    size = len(on_wire or "")
    wire_words, prompt_words = " ".join(wire.split()), " ".join(prompt.split())
    if wire_words == prompt_words:
        return TextChange("same", size, size)
    if not wire or not prompt:
        return TextChange("missing" if wire else "added", size, 0)
    if wire_words in prompt_words:
        return TextChange("extended", size, size)
    cut = _cut(wire, prompt)
    return TextChange("cut", size, *cut) if cut else TextChange("changed", size, 0)


def text_reached(text: str, texts: Iterable[str]) -> TextChange:
    """Return how much of ``text`` is in one of ``texts``: as it is, as JSON, or undecorated."""
    texts = list(texts)
    exact, bare, bare_texts = _text_reached(text, texts), undecorated(text), [*map(undecorated, texts)]
    if exact.way not in ("missing", "cut") or (bare, bare_texts) == (text, texts):
        return exact
    other = _text_reached(bare, bare_texts)
    way: Way = "as text" if other.way == "same" else other.way
    kept = other.kept * len(text) // max(len(bare), 1)
    return TextChange(way, len(text), kept, other.has_end) if kept > exact.kept else exact


def undecorated(text: str) -> str:
    """Return a text without the codes of terminal colours, and with composed accents (Unicode NFC)."""
    bare = _COLOUR_CODES.sub("", text) if "\x1b" in text else text
    return bare if bare.isascii() else normalize("NFC", bare)


def _text_reached(text: str, texts: Iterable[str]) -> TextChange:
    """Return how much of ``text`` is in one of ``texts``: as it is, or as JSON."""
    wire, size = text.strip(), len(text)
    best = TextChange("missing", size, 0)
    for candidate in texts:
        if wire == candidate.strip():
            return TextChange("same", size, size)
        for form in dict.fromkeys((wire, *_json_forms(wire))):
            if _has_part(candidate, form):
                best = TextChange("as text", size, size)
            elif (cut := _cut(form, candidate)) and cut[0] > best.kept:
                best = TextChange("cut", size, min(cut[0] * size // len(form), size - 1), cut[1])
        if MARK in candidate and best.way == "missing":
            best = TextChange("unknown", size, 0)
    return best


def value_reached(value: JSON, texts: Iterable[str]) -> bool:
    """Whether one of ``texts`` has ``value`` as JSON, in any spacing."""
    return any(
        next(changes(value, found), None) is None for candidate in texts for found in _json_values(candidate)
    )


def is_laid_out_anew(text: str, texts: Iterable[str]) -> bool:
    """Whether ``text`` is a JSON object or array that one of ``texts`` has, perhaps in another layout.

    A text in another layout has all words of its strings and numbers, each as often.
    """
    value = read(text.encode("utf-8", "replace"))
    if not isinstance(value, dict | list):
        return False
    texts = list(texts)
    if value_reached(value, texts):
        return True
    own = Counter(word for leaf in _leaves(value) for word in _words(leaf))
    return bool(own) and any(own <= Counter(_words(candidate)) for candidate in texts)


def changes(before: JSON, after: JSON) -> Iterator[ValueChange]:
    """Yield the differences of two values, at most ``_MOST_CHANGES``.

    The members that only one of two objects has come first, then the differences within their members.
    A string that is masked in its recording is not compared, because its text is not known.
    """
    return islice(_differences(before, after), _MOST_CHANGES)


def names(found: Iterable[ValueChange], what: str) -> list[str]:
    """Return the names of the changes of the kind ``what``, each with its count if that is more than one."""
    counted = Counter(change.name for change in found if change.what == what)
    return [name if count == 1 else f"{name} ({count})" for name, count in counted.most_common()]


def common_length(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts, in characters."""
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def _cut(wire: str, prompt: str) -> tuple[int, bool] | None:
    """Return how many first characters of ``wire`` are in ``prompt``, and whether its end follows.

    If ``wire`` is no longer than ``_SHARED_CHARACTERS``, or ``prompt`` does not have its first ones, the two
    must begin alike: with at least eight characters, and half of ``prompt``. If they do not, return ``None``.
    """
    start = prompt.find(wire[:_SHARED_CHARACTERS]) if len(wire) > _SHARED_CHARACTERS else -1
    if start < 0:
        kept = common_length(wire, prompt)
        return (kept, False) if kept >= 8 and kept >= len(prompt) // 2 else None
    kept = common_length(wire, prompt[start:])
    return kept, prompt.find(wire[-_SHARED_CHARACTERS:], start + kept) >= 0


def _has_part(text: str, part: str) -> bool:
    """Whether ``text`` has ``part``.

    A part of a few characters must be a line or a JSON string of its own.
    """
    if len(part) >= 8:
        return part in text
    return bool(part) and (f'"{part}"' in text or part in (line.strip() for line in text.splitlines()))


def _json_forms(text: str) -> tuple[str, str]:
    from_json = json.dumps(text, ensure_ascii=False)[1:-1]
    return from_json, json.dumps(text)[1:-1]


def _words(text: str) -> Iterator[str]:
    return (found[0] for found in _WORD.finditer(text))


def _leaves(value: JSON) -> Iterator[str]:
    """Yield the strings and numbers in a value, as text."""
    left = [value]
    while left:
        match left.pop():
            case dict() as members:
                left += members.values()
            case list() as items:
                left += items
            case str() as text:
                yield text
            case bool() | None:
                pass
            case number:
                yield str(number)


_MOST_STARTS: Final = 8
"""How many brackets in a text are tried as the beginning of JSON."""


def _json_values(text: str) -> Iterator[JSON]:
    """Yield the JSON objects and arrays in a text, from its first ``_MOST_STARTS`` brackets."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(_MOST_STARTS):
        starts = [start for start in (text.find("{", at), text.find("[", at)) if start >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield value


def _differences(before: JSON, after: JSON) -> Iterator[ValueChange]:
    """Yield the differences of two values, without recursion: foreign values may be nested deeply."""
    stack: list[tuple[JSON, JSON, str, str, bool]] = [(before, after, "", "", False)]
    while stack:
        one, other, pointer, name, holds_names = stack.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            inner: list[tuple[JSON, JSON, str, str, bool]] = []
            for key in (*one, *(key for key in other if key not in one)):
                place, word = pointer + token(key), f"property {key}" if holds_names else key
                if key not in other:
                    is_described = not holds_names and _is_described(key, one, other)
                    yield ValueChange("as text" if is_described else "lost", place, word)
                elif key not in one:
                    yield ValueChange("added", place, word)
                else:
                    is_of_names = key in _NAMING_KEYWORDS and not holds_names
                    inner.append((one[key], other[key], place, word, is_of_names))
            stack += reversed(inner)
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pairs = enumerate(zip(one, other, strict=True))
            stack += reversed(
                [(left, right, pointer + token(at), name, False) for at, (left, right) in pairs]
            )
        elif not _is_masked(one) and not _is_masked(other) and not _is_equal(one, other):
            yield ValueChange("changed", pointer, name)


def _is_described(keyword: str, before: JSONObject, after: JSONObject) -> bool:
    """Whether a host wrote a keyword into the description, followed by its value as JSON or a bare string."""
    description, own = after.get("description"), before.get("description")
    if not isinstance(description, str):
        return False
    written = description.replace(own, "") if isinstance(own, str) and own else description
    _, _, behind = written.lower().partition(keyword.lower())
    value = before[keyword]
    forms = {dumps(value, compact=True), value if isinstance(value, str) else ""} - {""}
    return any(search(rf"(?<!\w){escape(form.lower())}(?!\w)", behind) for form in forms)


def _is_masked(value: JSON) -> bool:
    return isinstance(value, str) and MARK in value


def _is_equal(one: JSON, other: JSON) -> bool:
    """Whether two values are equal. Unlike in Python, ``1`` is not ``true``."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
