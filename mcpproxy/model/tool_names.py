"""Whether a tool in a request may be a certain tool of a server.

Hosts put names together, replace characters, cut, and add hashes. Each function takes the tool's own name,
what a host may put before it (``plain`` names of its server), and a tool as a request offers it.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.model.turns import OfferedTool

_OTHERS: Final = pattern(r"[^a-z0-9]+")
_HASH: Final = pattern(r"_[0-9a-f]{8,16}$")
"""What hosts put after a name that they cut, or in which they replaced a character: 8 digits or 12."""

_LONGEST: Final = 512
"""How many characters of a name in a prompt are looked at; interfaces of models take 64 to 128."""

HEAD: Final = 14
TAIL: Final = 20
"""How much of a name is left at its ends by the hosts that cut its middle."""


def written(offered: OfferedTool) -> str:
    """Return the name of a tool in a prompt, with its namespace if it is in one."""
    return f"{offered.namespace} / {offered.name}" if offered.namespace else offered.name


@lru_cache(1 << 14)
def plain(name: str) -> str:
    """Return a name in lower case, with ``_`` in the place of everything but letters and digits."""
    return _OTHERS.sub("_", name.lower()).strip("_")


def whole(offered: OfferedTool) -> str:
    """Return the ``plain`` name of a tool in a prompt, with its namespace before it."""
    return plain(f"{offered.namespace}_{offered.name}" if offered.namespace else offered.name)


def offered_keys(offered: OfferedTool) -> Iterator[str]:
    """Yield by what a tool in a prompt is found: the functions below hold only if one of its keys is one of
    ``sought_keys`` of the name, which saves the comparison of each name with each other. A long name has
    hundreds of keys, too many to be kept for each tool; some may come twice."""
    there = whole(offered)[-_LONGEST:]
    yield offered.name
    yield there[-TAIL:]
    for text in {there, _HASH.sub("", there)}:
        for at in (0, *(at for at, sign in enumerate(text, 1) if sign == "_")):
            yield text[at:]
            yield text[at : at + HEAD]


def sought_keys(name: str, prefixes: AbstractSet[str]) -> set[str]:
    """Return by what a tool of a server is sought; see ``offered_keys``."""
    own = plain(name)
    ends = (own[:HEAD], own[-TAIL:]) if len(own) > HEAD + TAIL else ()
    return {name, own, *ends, *(key for at in prefixes for key in (f"{at}_{own}", f"{own}_mcp_{at}"))}


def is_named_so(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:
    """Whether the tool has exactly this name, in no namespace or in that of its server."""
    return offered.name == name and (
        not offered.namespace or any(f"_{prefix}_" in f"_{plain(offered.namespace)}_" for prefix in prefixes)
    )


def is_prefixed(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:
    """Whether the name stands behind that of its server."""
    return any(f"_{whole(offered)}".endswith(f"_{prefix}_{plain(name)}") for prefix in prefixes)


def is_followed(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:
    """Whether the name stands before that of its server, with ``mcp`` between them."""
    return any(whole(offered) == f"{plain(name)}_mcp_{prefix}" for prefix in prefixes)


def is_alike(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:  # noqa: ARG001 # one shape
    """Whether the name in the prompt ends so."""
    return f"_{whole(offered)}".endswith(f"_{plain(name)}")


def is_hashed(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:  # noqa: ARG001 # one shape
    """Whether the name in the prompt ends so, with a hash after it."""
    return f"_{_HASH.sub('', whole(offered))}".endswith(f"_{plain(name)}")


def is_cut(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:  # noqa: ARG001 # one shape
    """Whether the name is long, and the name in the prompt has its beginning or its end."""
    there, own = whole(offered), plain(name)
    if len(own) <= HEAD + TAIL:
        return False
    return f"_{own[:HEAD]}" in f"_{there}" or there.endswith(own[-TAIL:])


def keeps_both_ends(name: str, prefixes: AbstractSet[str], offered: OfferedTool) -> bool:
    """Whether the name is long, and the name in the prompt is it with its middle or only its end cut off."""
    there, own = _HASH.sub("", whole(offered)), plain(name)
    at = f"_{there}".find(f"_{own[:HEAD]}")
    return (
        is_cut(name, prefixes, offered)
        and at >= 0
        and (there.endswith(own[-TAIL:]) or own.startswith(there[at:]))
    )
