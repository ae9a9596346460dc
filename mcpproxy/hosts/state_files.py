"""The JSON files about hosts in our state folder: they have a version, and are read and written whole."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from mcpproxy.base import files, paths
from mcpproxy.base.system_words import os_reason
from mcpproxy.hosts.errors import HostFileError

T = TypeVar("T")

_VERSION: Final = 1
"""The version of each file's format."""
_LARGEST_BYTES: Final = 64 << 20
"""The size limit of a file."""
_PERMISSIONS: Final = "see its permissions"


def folder() -> str:
    """Return the folder of the files. It may not exist."""
    return os.path.join(paths.state_dir(), "hosts")


def read_state(
    name: str, read: Callable[[Any], T], *, unread: str = _PERMISSIONS, damaged: str = "move it away"
) -> T | None:
    """Return what ``read`` makes of the content of the file ``name``; ``None`` if there is no file.

    Raises:
        HostFileError: it cannot be read, is damaged, or was written by a newer mcpproxy. ``unread`` and
            ``damaged`` are the next steps of the first two.
    """
    path = os.path.join(folder(), name)
    try:
        stored: Any = json.loads(files.read(path, _LARGEST_BYTES))
        if stored["version"] > _VERSION:
            raise HostFileError(path, "written by a newer mcpproxy", "please update")
        return read(stored)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise HostFileError(path, f"cannot be read ({os_reason(fault)})", unread) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HostFileError(path, "damaged", damaged) from None


def save_state(name: str, members: Mapping[str, object], *, unwritten: str = _PERMISSIONS) -> None:
    """Replace the file ``name`` by one with ``members`` and the version.

    Raises:
        HostFileError: it cannot be written. The error's next step is ``unwritten``.
    """
    path = os.path.join(folder(), name)
    text = json.dumps({"version": _VERSION, **members}, indent=1) + "\n"
    try:
        files.replace(path, [text.encode()], 0o600)
    except OSError as fault:
        raise HostFileError(path, f"cannot be written ({os_reason(fault)})", unwritten) from None
