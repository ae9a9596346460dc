"""Decide whether a tool in a request to a model may be a certain tool of a server.

Hosts join the names of server and tool, replace characters, cut long names and add hashes. ``name`` is the
tool's own name, ``prefixes`` are the ``plain`` names of its server, which a host may put before it, and
``offered`` is a tool as a request offers it. ``is_named_so`` compares names as they are, and the other
comparisons ``plain`` names, whose parts are separated by ``_``.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.model.turns import ModelCall, OfferedTool

_OTHER_CHARACTERS: Final = pattern(r"[^a-z0-9]+")
_HASH: Final = pattern(r"_[0-9a-f]{8,16}$")
"""The hash that hosts append to a name that they changed: in those we know, of 8 or 12 digits."""

_KEYED_CHARACTERS: Final = 512
"""How many characters at the end of a name in a prompt give keys. Models' interfaces accept 64 to 128."""

HEAD: Final = 14
TAIL: Final = 20
"""How many characters a host that cuts the middle of a name leaves at its beginning and at its end."""


def written(tool: OfferedTool | ModelCall) -> str:
    """Return the name of an offered or called tool in a prompt, with its namespace if it is in one."""
    return f"{tool.namespace} / {tool.name}" if tool.namespace else tool.name


@lru_cache(1 << 14)
def plain(name: str) -> str:
    """Return a name in lower case, with ``_`` for each run of characters but a-z and 0-9, not at the ends."""
    return _OTHER_CHARACTERS.sub("_", name.lower()).strip("_")


def plain_full_name(offered: OfferedTool) -> str:
    """Return the ``plain`` name of a tool in a prompt, with its namespace before it."""
    return plain(f"{offered.namespace}_{offered.name}" if offered.namespace else offered.name)


def offered_keys(offered: OfferedTool) -> Iterator[str]:
    """Yield the keys of a tool in a prompt, for an index, so that not all pairs of names are compared.

    For names of up to ``_KEYED_CHARACTERS``, a comparison below can be true only if one of these keys is
    among the ``sought_keys`` of the tool.
    A long name has hundreds of keys, too many to keep for each tool. A key may be repeated.
    """
    full_name = plain_full_name(offered)[-_KEYED_CHARACTERS:]
    yield offered.name
    yield full_name[-TAIL:]
    for text in {full_name, _HASH.sub("", full_name)}:
        for start in (0, *(after for after, character in enumerate(text, 1) if character == "_")):
            yield text[start:]
            yield text[start : start + HEAD]


def sought_keys(name: str, prefixes: AbstractSet[str]) -> set[str]:
    """Return the keys by which a server's tool is looked up; see ``offered_keys``."""
    own = plain(name)
    ends = (own[:HEAD], own[-TAIL:]) if len(own) > HEAD + TAIL else ()
    return {
        name,
        own,
        *ends,
        *(key for prefix in prefixes for key in (f"{prefix}_{own}", f"{own}_mcp_{prefix}")),
    }


def is_named_so(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:
    """Whether ``offered`` has exactly this name, and no namespace but that of the server."""
    return offered.name == name and (
        not offered.namespace or any(f"_{prefix}_" in f"_{plain(offered.namespace)}_" for prefix in prefixes)
    )


def is_prefixed(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:
    """Whether the name in the prompt ends with a name of the server, followed by the tool's name."""
    return any(f"_{plain_full_name(offered)}".endswith(f"_{prefix}_{plain(name)}") for prefix in prefixes)


def is_followed(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:
    """Whether the name in the prompt is the tool's name, followed by ``mcp`` and a name of the server."""
    return any(plain_full_name(offered) == f"{plain(name)}_mcp_{prefix}" for prefix in prefixes)


def is_alike(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:  # noqa: ARG001 # one shape
    """Whether the name in the prompt ends with the tool's name."""
    return f"_{plain_full_name(offered)}".endswith(f"_{plain(name)}")


def is_hashed(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:  # noqa: ARG001 # one shape
    """Whether the name in the prompt ends with the tool's name, with or without a hash after it."""
    return f"_{_HASH.sub('', plain_full_name(offered))}".endswith(f"_{plain(name)}")


def is_cut(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:  # noqa: ARG001 # one shape
    """Whether the tool's name is long, and the name in the prompt has its beginning or ends with its end.

    A name is long if it has more than ``HEAD + TAIL`` characters. The beginning has ``HEAD`` of them, and the
    end ``TAIL``.
    """
    full_name, own = plain_full_name(offered), plain(name)
    if len(own) <= HEAD + TAIL:
        return False
    return f"_{own[:HEAD]}" in f"_{full_name}" or full_name.endswith(own[-TAIL:])


def keeps_both_ends(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:
    """Whether the tool's name is long, and the name in the prompt lacks only its middle or its end."""
    full_name, own = _HASH.sub("", plain_full_name(offered)), plain(name)
    start = f"_{full_name}".find(f"_{own[:HEAD]}")
    return (
        is_cut(name, prefixes, offered)
        and start >= 0
        and (full_name.endswith(own[-TAIL:]) or own.startswith(full_name[start:]))
    )
