"""The ready-made sets of fault rules that ship with mcpproxy."""

import os
from typing import Final

_FOLDER: Final = os.path.join(os.path.dirname(__file__), "sets")
_SUFFIX: Final = ".toml"


def names() -> list[str]:
    """Return the names of all sets."""
    return sorted(name.removesuffix(_SUFFIX) for name in os.listdir(_FOLDER) if name.endswith(_SUFFIX))


def path_of(name: str) -> str:
    """Return the path of the set ``name``; ``name`` itself if it is a path that exists, or no set."""
    if os.path.exists(name) or name not in names():
        return name
    return os.path.join(_FOLDER, name + _SUFFIX)
