"""The notation that the shape tables are written in, and its reader.

A block describes one thing: a named type, or the params or result of a method. It opens at the
margin and ends with an empty line::

    Icon                                an object with these members
        src        string               a member that must be there
        theme?     'light'|'dark'       a member that may be left out
        icons?     Icon[]    2025-11-25              since that revision
        task?      object    2025-11-25  2026-07-28  and until, not including, that one
        roots?     object    -           2026-07-28  until then from the first on
        ...Other             2026-07-28              the members of Other

    ContentBlock by type                one of several, told by the member ``type``,
        text       TextContent          which is not written again in each of them;
        -          Fallback             "-" when the member is absent,
        *          object               "*" when it is any other string

    Contents with                       one of several, told by a member that is there
        text       TextContents         (it may be any of them: members not listed are lawful);
        -          Fallback             "-" when none is

    Id = string|integer                 another name for a type

Types: ``string number boolean integer null object any``, ``count`` (an integer of 0 or more), ``0..1``
(a number in that range), ``'text'`` (that string), ``T[]``, ``{T}`` (an object whose values are T),
``T|U`` and the name of a block. Objects are open: a member that is not listed may hold anything.
Lines that begin with ``#`` are comments.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.revisions import span

Form: TypeAlias = Literal["object", "by", "with", "alias"]


@slotted(frozen=True)
class ShapeRow:
    """A line of a block: a member, or a variant under the key that tells it."""

    name: str
    type: str
    optional: bool
    revisions: tuple[str, ...]


@slotted(frozen=True)
class Block:
    """What stands for a name in some revisions.

    ``form`` says how to read the rows. ``word`` is the member that a ``by`` goes by, or the type an
    alias stands for. ``insistent`` params must be there even when no member of theirs must.
    """

    name: str
    form: Form
    word: str
    rows: tuple[ShapeRow, ...]
    revisions: tuple[str, ...]
    insistent: bool = False


def read(text: str) -> Mapping[str, tuple[Block, ...]]:
    """The blocks of a table by name; a name may have several, each for revisions of its own."""
    blocks: dict[str, tuple[Block, ...]] = {}
    for paragraph in _paragraphs(text):
        block = _block(paragraph)
        blocks[block.name] = (*blocks.get(block.name, ()), block)
    return blocks


def _paragraphs(text: str) -> Iterator[list[str]]:
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        # A line at the margin opens a block, so that aliases need no empty line between them.
        if lines and not line.startswith(" "):
            yield lines
            lines = []
        if line:
            lines.append(line)


def _block(lines: list[str]) -> Block:
    words = lines[0].split()
    name = [words.pop(0)]
    if words and words[0] in _PARTS:
        name.append(words.pop(0))
    form: Form = "object"
    word = ""
    match words:
        case ["=", word, *words]:
            form = "alias"
        case ["by", word, *words]:
            form = "by"
        case ["with", *words]:
            form = "with"
        case _:
            pass
    title = " ".join(name)
    rows = tuple(_row(line.split()) for line in lines[1:])
    return Block(title.removesuffix("!"), form, word, rows, _span(*words), title.endswith("!"))


_PARTS: Final = ("params", "params!", "result")


def _row(words: list[str]) -> ShapeRow:
    if words[0].startswith("..."):
        return ShapeRow("...", words[0].removeprefix("..."), False, _span(*words[1:]))
    name, type, *span = words
    return ShapeRow(name.removesuffix("?"), type, name.endswith("?"), _span(*span))


@cache
def _span(first: str = "-", end: str = "-") -> tuple[str, ...]:
    return span(first, end)
