"""Put the skill for agents, ``SKILL.md``, into the skills folder of a host, and remove it again.

A skill is text that tells an agent how to use something, in a folder with the skill's name. A record in our
state folder has the path of the file that was written, its hash, and the folders that were made for it. So
files that somebody else has written or changed are never replaced or removed.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, cast

from mcpproxy.base import files
from mcpproxy.base.system_words import os_reason
from mcpproxy.hosts.config_writer import sha256
from mcpproxy.hosts.errors import HostFileError
from mcpproxy.hosts.host_table import Host, skills_folder
from mcpproxy.hosts.server_entries import is_below
from mcpproxy.hosts.state_files import read_state, save_state

NAME: Final = "mcpproxy"
"""The name of the skill, and of its folder."""

_FILE_NAME: Final = "SKILL.md"
_LARGEST_BYTES: Final = 1 << 20
"""The size limit of the skill, in bytes."""
_RECORDS: Final = "skills.json"

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

SOURCE: Final = os.path.join(_PACKAGE, "show", "agents", "skills", NAME, _FILE_NAME)
"""The path of the skill in this installation."""


def skill_text() -> str:
    """Return the text of the installed skill.

    Raises:
        OSError: it cannot be read.
    """
    return files.read(SOURCE, _LARGEST_BYTES, follows=True).decode()


def place_of(host: Host) -> str:
    """Return the path for the skill in a host.

    It is empty if the skills folder is unknown, or the folder that would contain it does not exist.
    """
    skills = skills_folder(host)
    is_there = bool(skills) and os.path.isdir(os.path.dirname(skills))
    return os.path.join(skills, NAME, _FILE_NAME) if is_there else ""


def check_free(path: str) -> None:
    """Check that nobody else has a skill at ``path``.

    Raises:
        HostFileError: there is a file or a folder of the skill that mcpproxy did not make, or the file was
            changed since, or ``path`` is behind a link that leads out of the home folder, or the records
            cannot be read.
    """
    records, home = _records(), os.path.expanduser("~")
    if os.path.lexists(path):
        is_free = _is_ours(path, records)
    else:
        is_free = path in records or not os.path.lexists(os.path.dirname(path))
    if not is_free:
        fact = "a skill that is not from mcpproxy, or was changed since"
        raise HostFileError(os.path.dirname(path), fact, "it stays as it is")
    if is_below(path, home) and not is_below(os.path.realpath(path), os.path.realpath(home)):
        raise HostFileError(path, "behind a link that leads out of your home folder", "nothing was written")


def is_added(path: str) -> bool:
    """Whether the records say that mcpproxy has written a skill to ``path`` and has not removed it.

    Raises:
        HostFileError: the records cannot be read.
    """
    return path in _records()


def add_skill(path: str) -> None:
    """Write the skill to ``path``. The caller has locked the ledger (``ledger.locked_ledger``).

    Raises:
        HostFileError: as ``check_free``, or the skill or its record cannot be written.
        OSError: the installed skill cannot be read.
    """
    check_free(path)
    records = _records()
    above, made = os.path.dirname(path), cast("list[str]", records.get(path, {}).get("made", []))
    while not os.path.lexists(above):
        made = [above, *made]
        above = os.path.dirname(above)
    text = skill_text().encode()
    _save_records({**records, path: {"sha256": sha256(text), "made": made}})
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.replace(path, [text], 0o644)
    except OSError as fault:
        raise _failure(path, "written", fault) from None


def remove_skill(path: str) -> bool:
    """Remove the skill at ``path`` and the folders that were made for it; return whether there was a file.

    Folders with other files stay. Without a record of the skill, nothing is removed. The caller has locked
    the ledger.

    Raises:
        HostFileError: it was changed since it was written, it cannot be removed, or the records cannot be
            read or written.
    """
    records = _records()
    if path not in records:
        return False
    was_there = os.path.lexists(path)
    if was_there and not _is_ours(path, records):
        raise HostFileError(path, "was changed since mcpproxy wrote it", "remove it by hand")
    try:
        if was_there:
            os.unlink(path)
        for made in reversed(cast("list[str]", records[path]["made"])):
            if os.path.isdir(made) and not os.listdir(made):
                os.rmdir(made)
    except OSError as fault:
        raise _failure(path, "removed", fault) from None
    _save_records({other: record for other, record in records.items() if other != path})
    return was_there


_Records = Mapping[str, Mapping[str, object]]
"""Path of a skill -> ``sha256`` of its content, and ``made``: the folders made for it, outer folders
first."""


def _is_ours(path: str, records: _Records) -> bool:
    try:
        return path in records and sha256(files.read(path, _LARGEST_BYTES)) == records[path]["sha256"]
    except OSError:
        return False


def _records() -> _Records:
    """Return the records.

    Raises:
        HostFileError: they cannot be read. Without them, mcpproxy could not recognise its own skills.
    """
    return read_state(_RECORDS, _read, damaged="move it away; the skills in it are then yours") or {}


def _read(stored: Mapping[str, Any]) -> _Records:
    skills = cast("_Records", stored["skills"])
    return {path: {"sha256": record["sha256"], "made": record["made"]} for path, record in skills.items()}


def _save_records(records: _Records) -> None:
    save_state(_RECORDS, {"skills": records})


def _failure(path: str, what: str, fault: OSError) -> HostFileError:
    return HostFileError(path, f"cannot be {what} ({os_reason(fault)})", "see its permissions")
