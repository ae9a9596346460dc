"""The notation of the shape tables, and its parser.

A block describes a named type, or the params or result of a method. The block begins at the margin and ends
at an empty line or at the next line at the margin. A row is an indented line of a block, and the revisions at
its end say where the row applies; those at the end of the block's first line say where the block does::

    Icon                                an object with these members
        src        string               a required member
        theme?     'light'|'dark'       an optional member
        size??     integer              an optional member that may also be null
        icons?     Icon[]    2025-11-25              from that revision on
        task?      object    2025-11-25  2026-07-28  up to, not including, the second revision
        roots?     object    -           2026-07-28  before that revision
        ...Other             2026-07-28              all members of Other

    ContentBlock by type                one of several variants, selected by the value of the member ``type``
        text       TextContent          if it is "text" (TextContent does not list the member ``type``)
        -          Fallback             if the member is absent
        *          object               if it has any other value

    Contents with                       one of several variants; a value that matches any of them is correct.
        text       TextContents         A wrong value is compared with the first variant whose member it has,
        -          Fallback             or else with "-"

    Id = string|integer                 another name for a type

    method params!                      the params are required, even if all their members are optional

Types: ``string number boolean integer null object any``, ``count`` (an integer of 0 or more), ``0..1`` (a
number in that range, ends included), ``'text'`` (that string), ``T[]``, ``T[1..]`` (an array that is not
empty), ``{T}`` (an object whose values are T), ``T|U`` and the name of a block. Objects are open: a member
that is not listed may have any value. Lines that begin with ``#`` are comments.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.revisions import REVISIONS, span

Form: TypeAlias = Literal["object", "by", "with", "alias"]


@slotted(frozen=True)
class ShapeRow:
    """A row of a block: a member, or a variant with the key (``name``) that selects it.

    A row that includes the members of another type has the name ``...``.
    """

    name: str
    type: str
    optional: bool
    revisions: tuple[str, ...]


@slotted(frozen=True)
class Block:
    """The definition of a name in ``revisions``.

    ``form`` says whether the rows are the members of an ``object``, or the variants of a ``by`` or ``with``
    block; an ``alias`` has no rows. ``word`` is the member after ``by``, or the type after ``=``.
    ``mandatory`` params are required even if all their members are optional.
    """

    name: str
    form: Form
    word: str
    rows: tuple[ShapeRow, ...]
    revisions: tuple[str, ...]
    mandatory: bool = False


def read(text: str, revisions: tuple[str, ...] = REVISIONS) -> Mapping[str, tuple[Block, ...]]:
    """Return the blocks of a table by name. Several blocks of one name are for different revisions.

    ``revisions`` are all versions of the protocol that the table describes.
    """
    blocks: dict[str, tuple[Block, ...]] = {}
    for paragraph in _paragraphs(text):
        block = _block(paragraph, revisions)
        blocks[block.name] = (*blocks.get(block.name, ()), block)
    return blocks


def _paragraphs(text: str) -> Iterator[list[str]]:
    """Yield the lines of each block, without comments and empty lines."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        # A line at the margin begins a block, so that aliases need no empty line between them.
        if lines and not line.startswith(" "):
            yield lines
            lines = []
        if line:
            lines.append(line)


def _block(lines: list[str], revisions: tuple[str, ...]) -> Block:
    """Parse the lines of a block."""
    words = lines[0].split()
    title_words = [words.pop(0)]
    if words and words[0] in _PARTS:
        title_words.append(words.pop(0))
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
    title = " ".join(title_words)
    rows = tuple(_row(line.split(), revisions) for line in lines[1:])
    return Block(title.removesuffix("!"), form, word, rows, _span(revisions, *words), title.endswith("!"))


_PARTS: Final = ("params", "params!", "result")


def _row(words: list[str], revisions: tuple[str, ...]) -> ShapeRow:
    if words[0].startswith("..."):
        return ShapeRow("...", words[0].removeprefix("..."), False, _span(revisions, *words[1:]))
    name, type, *span = words
    if name.endswith("??"):
        type += "|null"
    return ShapeRow(name.rstrip("?"), type, name.endswith("?"), _span(revisions, *span))


@cache
def _span(revisions: tuple[str, ...], first: str = "-", end: str = "-") -> tuple[str, ...]:
    return span(first, end, revisions)
