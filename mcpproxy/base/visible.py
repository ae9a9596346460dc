"""Make untrusted text safe to show: escape control characters and invisible characters.

Most of the text that mcpproxy prints comes from a peer or from the author of a trace. Control characters move
the cursor, forge lines and retitle the window; bidirectional marks reorder the text; invisible characters
hide instructions. So everything that mcpproxy writes for people (to stderr, a terminal, a log or a report)
passes through ``visible``. Only the stderr of the wrapped server is forwarded unchanged.

The relay imports this module before it starts the server, so this module imports nothing.
"""

_SHORT_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}

_INVISIBLE = frozenset(
    map(
        chr,
        (
            0x034F,  # combining grapheme joiner
            0x115F,  # fillers of Hangul
            0x1160,
            0x3164,
            0xFFA0,
            0x17B4,  # inherent vowels of Khmer
            0x17B5,
            *range(0x180B, 0x1810),  # variation selectors of Mongolian
            *range(0xFE00, 0xFE0F),  # variation selectors; U+FE0F, which makes a character an emoji, stays
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Invisible characters that ``str.isprintable`` accepts, because Unicode counts them as letters or marks.
``isprintable`` rejects all other unsafe characters: controls, format characters (bidirectional, zero-width,
tags), surrogates, unassigned code points, and spaces other than U+0020."""


def visible(text: str) -> str:
    """Return ``text`` on one line, with every unsafe character written as an escape: ``\\u001b``.

    The escapes are those of JSON, so a JSON text keeps its value.
    """
    if text.isprintable() and (text.isascii() or _INVISIBLE.isdisjoint(text)):
        return text
    return "".join([c if c.isprintable() and c not in _INVISIBLE else _escape(c) for c in text])


def visible_lines(text: str) -> str:
    """Return ``text`` escaped as by ``visible``, except for its line feeds."""
    return "\n".join(map(visible, text.split("\n")))


def _escape(char: str) -> str:
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
