"""Find recordings on disk: by path, by a handle, or in a folder.

A handle names a recording of the state directory in a few characters:

- nothing: the latest that has a message; a command that could not be started leaves one without;
- ``-2``: the one before the latest, and so on; ``-1`` is the latest;
- a label: the latest recording with that label; ``LABEL~1`` is the one before it with that label;
- its file name, with or without the suffix, or a part of it that no other recording there has.

An existing file of that name comes first: then the name is not a handle. The URL of an object store means its
recordings, which are fetched into a cache folder. A compressed file (``.jsonl.zst``) is unpacked into it.
"""

import os
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Final

from mcpproxy.base import paths
from mcpproxy.base.files import open_regular
from mcpproxy.base.patterns import pattern
from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.terminal import tell
from mcpproxy.errors import TraceError
from mcpproxy.read.opening import read_untouched
from mcpproxy.record.trace.empty_trace import HEAD_BYTES, has_no_message
from mcpproxy.record.trace.recorded_folders import (
    JOURNAL_SUFFIX,
    PACKED,
    SUFFIX,
    folders_below,
    one_path_per_recording,
    paths_below,
)

_SCHEMES: Final = ("s3://", "gs://", "az://", "file://")

HELP: Final = (
    "a recording: its file or URL, -2 for the one before the latest, its label, LABEL~1 for the one before "
    "the latest with this label, or a part of its name"
)
"""The help of a TRACE argument."""

_NAME: Final = pattern(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d\.\d{3})Z-(.+)-\d+(-\d+)?\.jsonl")
"""The file names that mcpproxy generates: time, label, process id."""
_STARTED: Final = pattern(rb'"started_at":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*)')
"""The start time in the header of a trace."""
RECORD_STEP: Final = "record a session with mcpproxy -- SERVER, or try mcpproxy demo"
_url_of: Final[dict[str, str]] = {}
"""The path of a recording in the cache -> the URL that it was fetched from."""
_MOST_CANDIDATES: Final = 5
"""How many recordings the error for an ambiguous handle names."""


def expand(named: str | None, *, tells: bool = True) -> list[str]:
    """Return the paths of the traces that ``named`` means: one file or handle, or all below a folder or URL.

    The path of a journal, the folder beside an unfinished trace, means that trace. A name that means none of
    these is returned as the path of a file.

    With ``tells``, a line on stderr says which recording a handle means. Without ``tells``, that line is
    printed only for a handle that is a part of a file name. If ``named`` is ``None``, another line says if a
    newer session failed.

    Raises:
        UsageError: the folder holds no traces or cannot be read, a URL cannot be used or names no recording,
            nothing was recorded yet, there is no recording at the position ``-N`` or ``LABEL~N``, or a part
            of a name means more than one.
        StoreError: what a URL names cannot be fetched, or a compressed file cannot be unpacked.
    """
    if named is not None and is_url(named):
        return _fetched(named)
    if named is None or _is_handle(named):
        path = _with_handle(named)
        is_guess = bool(path) and named is not None and means_by_part(named, path)
        if path and (tells or is_guess):
            fact = "the only recording with this in its name" if is_guess else ""
            is_last = named is None and path == recent(paths.state_dir())[0]
            latest = "the latest recording" if is_last else "the latest recording with a message"
            what = latest if named is None else f"{named}, {fact}" if fact else named
            tell(f"{what}: {path}")
        if named is None:
            _tell_of_a_failed_start(path)
        return [path or named or ""]
    if named.rstrip(os.sep).endswith(JOURNAL_SUFFIX):
        return [named.rstrip(os.sep).removesuffix(".journal")]
    if named.endswith(PACKED) and os.path.isfile(named):
        return _fetched(named)
    if not os.path.isdir(named):
        return [named]
    found = sorted(set(paths_below(named)))
    if any(path.endswith(PACKED) for path in found):
        found = [path for path in found if not path.endswith(PACKED)] + _fetched(named, packed_only=True)
    if found:
        return found
    raise UsageError(named, "no traces in this folder", "a trace is a .jsonl file that mcpproxy recorded")


def means_by_part(named: str, path: str) -> bool:
    """Whether the handle ``named`` means ``path`` only because it is a part of the file name."""
    is_number = re.fullmatch(r"-[1-9]\d{0,8}", named) is not None
    return not is_number and not _with_name([path], named) and label_of(path) != paths.split_label(named)[0]


def is_url(named: str) -> bool:
    """Whether ``named`` is the URL of an object store, or of a folder in it."""
    return named.lower().startswith(_SCHEMES)


def stem(named: str | None, path: str) -> str:
    """Return ``path`` without its suffix; only its name if ``named`` is a URL or a compressed file."""
    without_suffix = os.path.splitext(path)[0]
    is_fetched = named is not None and (is_url(named) or named.endswith(PACKED))
    return os.path.basename(without_suffix) if is_fetched else without_suffix


def _fetched(named: str, *, packed_only: bool = False) -> list[str]:
    """Return the paths of recordings that are fetched from a URL, or unpacked from a file or folder.

    With ``packed_only``, only the compressed files are returned.
    """
    from mcpproxy.send.fleet import urls  # readers of files do not need it

    url = named if is_url(named) else urls.of_path(named)
    urls.check("", url)
    from mcpproxy.send.fleet.fetch import fetch_to_cache

    fetched = fetch_to_cache(url, tell=tell, packed_only=packed_only)
    _url_of.update(fetched)
    return list(fetched)


def shown(path: str) -> str:
    """Return the name to print for a recording: its URL if this process has fetched it, else its path."""
    return _url_of.get(path, path)


def handle_of(path: str) -> str:
    """Return the handle of a recording of the state directory, the end of its file name: ``demo-10175``.

    It is empty for a recording in another folder, and for a name without the ``Z-`` after a time.
    """
    folder, name = os.path.split(os.path.abspath(path))
    _, begun, end = name.removesuffix(".jsonl").rpartition("Z-")
    return end if begun and folder == os.path.abspath(paths.state_dir()) else ""


def fetched_urls(url: str) -> dict[str, str]:
    """Fetch the recordings that ``url`` names. Return the path of each -> its own URL.

    Raises:
        UsageError, StoreError: as in ``expand``.
    """
    from mcpproxy.send.fleet import urls
    from mcpproxy.send.fleet.fetch import fetch_to_cache

    urls.check("", url)
    return fetch_to_cache(url, tell=tell)


def one(named: str | None, *, tells: bool = True, several: str = "name one of them: mcpproxy list {}") -> str:
    """Return the one trace that ``named`` means; see ``expand``.

    ``several`` is the advice for a folder of several recordings; the folder replaces its ``{}``.

    Raises:
        UsageError: as in ``expand``, or ``named`` means a folder or a URL with several.
        StoreError: as in ``expand``.
    """
    traces = expand(named, tells=tells)
    if len(traces) > 1:
        fact = f"a folder with {len(traces)} recordings, and one is needed"
        raise UsageError(named or "", fact, several.format(shlex.quote(named or "")))
    return traces[0]


def find_pair(a: str | None, b: str | None) -> tuple[str, str]:
    """Return the two recordings to compare.

    With ``b``, they are the two named, in this order. Otherwise the earlier one comes first, and recordings
    without a message are passed over:

    - no name means the latest recording, and the one before it with its label;
    - a label means the last two recordings with this label, even empty ones if fewer have a message;
    - ``LABEL~N`` or any other recording is compared with the latest recording of the state directory that has
      its label or, if there is none, with the latest of all.

    Raises:
        UsageError: as in ``one``, no earlier recording has the label, or ``a`` is the latest that has it.
        StoreError: as in ``one``.
    """
    if b is not None:
        return one(a), one(b)
    recordings = recent(paths.state_dir())
    label, back = paths.split_label(a or "")
    is_handle = a is not None and _is_handle(a) and not _with_name(recordings, a)
    if is_handle and (same := _with_label(recordings, label)):
        with_message = [at for at, path in enumerate(same) if not _is_empty(path)]
        before, latest = (with_message[1], with_message[0]) if len(with_message) > 1 else (1, 0)
        return one(f"{label}~{back or before}"), one(f"{label}~{latest}" if latest else label)
    if a is None:
        latest = _with_handle(None)
        same = _positions_of(recordings, label_of(latest))
        at = next((at for path, at in same.items() if path != latest), 0)
        if not at:
            fact = f"there is no earlier recording {_label_words(latest)}"
            raise UsageError(latest, fact, "name the two to compare: mcpproxy diff A B, see mcpproxy list")
        return one(f"-{at}"), one(None)
    named = _with_handle(a) if _is_handle(a) else a
    label = label_of(named)
    latest, at = next(iter(_positions_of(recordings, label).items() if label else ()), ("", 0))
    if latest and os.path.abspath(latest) == os.path.abspath(named):
        fact = f"the latest recording {_label_words(named)}"
        raise UsageError(a, fact, "name the one to compare it with, too: mcpproxy diff A B")
    return one(a), one(f"-{at}" if at > 1 else None)


def _positions_of(recordings: Sequence[str], label: str) -> dict[str, int]:
    """Return the recordings with this label and a message -> the ``N`` of their handle ``-N``."""
    labelled = ((path, at) for at, path in enumerate(recordings, 1) if label_of(path) == label)
    return {path: at for path, at in labelled if not _is_empty(path)}


def _label_words(path: str) -> str:
    return f"labelled {label}" if (label := label_of(path)) else "without a label"


def place(named: str | None) -> str:
    """Return the folder or the recording that ``named`` means; without a name the folder of all recordings.

    Raises:
        UsageError: ``named`` means no folder or recording that exists, or more than one.
        StoreError: as in ``one``.
    """
    if named is None:
        return paths.state_dir()
    if os.path.isdir(named) and not named.rstrip(os.sep).endswith(JOURNAL_SUFFIX):
        return named
    path = one(named)
    if not os.path.exists(path) and not os.path.isdir(f"{path}.journal"):
        raise UsageError(path, "does not exist", "name a recording, or a folder of recordings")
    return path


def every(named: Sequence[str]) -> list[str]:
    """Return the recordings that the arguments ``named`` mean, each once; without arguments, the latest.

    Raises:
        UsageError, StoreError: as in ``expand``.
    """
    traces = [path for name in named or (None,) for path in expand(name)]
    return list(dict.fromkeys(one_path_per_recording(traces)))


def with_label(label: str) -> list[str]:
    """Return all recordings of the state directory with a label, the latest first.

    Raises:
        UsageError: there are none.
    """
    if recordings := _with_label(recent(paths.state_dir()), label):
        return recordings
    raise UsageError(label, f"no recording in {paths.state_dir()} has this label", "see mcpproxy list")


def latest_first(named: str | None) -> list[str]:
    """Return the recordings that ``named`` means, the latest first; without it, all of the state directory.

    Raises:
        UsageError, StoreError: as in ``expand``.
    """
    folder = paths.state_dir()
    if named is None and not os.path.isdir(folder):
        raise UsageError(folder, "nothing recorded yet", RECORD_STEP)
    recordings = one_path_per_recording(expand(folder if named is None else named))
    return sorted(recordings, key=lambda path: (_start_of(*os.path.split(path)), path), reverse=True)


def tell_of_folders_below(folder: str, command: Callable[[str], list[str]]) -> None:
    """Print which folders below ``folder`` hold recordings that are left out.

    ``command`` returns the command of the user that reads such a folder.
    """
    below, more = folders_below(folder, command)
    for other in below:
        recordings = count(other.recordings, "recording")
        tell(visible(f"{other.path}: {recordings} in this folder left out; {other.command}"))
    if more:
        tell(f"{count(more, 'more folder')} with recordings left out")


def recent(folder: str) -> list[str]:
    """Return the paths of the recordings directly in ``folder``, the latest first; none without a folder.

    Of a rotated recording, which has several files, only the first is returned.

    Raises:
        UsageError: ``folder`` cannot be read.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(
            folder, (error.strerror or "unreadable").lower(), "name a folder of traces"
        ) from None
    traces = {n.removesuffix(".journal") for n in names if n.endswith((SUFFIX, JOURNAL_SUFFIX))}
    first = [name for name in traces if not _is_continuation(name, traces)]
    return [
        os.path.join(folder, name)
        for name in sorted(first, key=lambda name: (_start_of(folder, name), name), reverse=True)
    ]


def _is_handle(named: str) -> bool:
    """Whether ``named`` is a handle: it has no path separator, and no file has this name."""
    return bool(named) and os.sep not in named and not os.path.lexists(named) and "\0" not in named


def _with_handle(handle: str | None) -> str:
    """Return the recording of the state directory with a handle; empty if none matches.

    Raises:
        UsageError: nothing was recorded yet, a position is too far back, ``LABEL~N`` has an unknown label,
            or a part of a name is ambiguous.
    """
    folder = paths.state_dir()
    recordings = recent(folder)
    if handle is None or re.fullmatch(r"-[1-9]\d{0,8}", handle):
        position = -int(handle or "-1")
        if not recordings:
            raise UsageError(folder, "nothing recorded yet", RECORD_STEP)
        if position > len(recordings):
            is_one = len(recordings) == 1
            fact = f"there {'is' if is_one else 'are'} {count(len(recordings), 'recording')} in {folder}"
            raise UsageError(handle or "", fact, "see mcpproxy list")
        if handle is None:
            return next((path for path in recordings if not _is_empty(path)), recordings[0])
        return recordings[position - 1]
    if path := _with_name(recordings, handle):
        return path
    label, back = paths.split_label(handle)
    if labelled := _with_label(recordings, label):
        if back < len(labelled):
            return labelled[back]
        fact = f"{count(len(labelled), 'recording')} with this label in {folder}"
        raise UsageError(handle, fact, "see mcpproxy list")
    names = {path: os.path.basename(path) for path in recordings}
    matching = [path for path, name in names.items() if handle in name]
    if len(matching) > 1:
        shown = [names[path] for path in matching[:_MOST_CANDIDATES]]
        more = f" and {len(matching) - _MOST_CANDIDATES} more" if len(matching) > _MOST_CANDIDATES else ""
        fact = f"{len(matching)} recordings have this in their name"
        raise UsageError(handle, fact, f"write more of one of {', '.join(shown)}{more}")
    if not matching and label != handle:
        raise UsageError(handle, f"no recording in {folder} has this label", "see mcpproxy list")
    return matching[0] if matching else ""


def no_message(path: str) -> TraceError:
    """Return an error which says that a recording has no message of MCP, and why, if that is known."""
    from mcpproxy.peers.replay.recording import of_a_model
    from mcpproxy.read.prompt.run import is_of_a_model  # imported for unusable recordings only
    from mcpproxy.read.view.folder import recording

    if is_of_a_model(read_untouched(path)):
        return of_a_model(path)
    entry = recording(path)
    how = f": {entry.ended}" if entry.has_not_begun else ""
    step = "name another recording: mcpproxy list" if how else "record a session first"
    return TraceError(path, None, f"holds no message{how}", step)


def _tell_of_a_failed_start(latest: str) -> None:
    """Print a note if a session newer than ``latest``, the recording to show, failed before any message."""
    from mcpproxy.read.view.folder import recording  # imported only if no recording is named

    for position, path in enumerate(recent(paths.state_dir()), 1):
        if path == latest:
            return
        if (entry := recording(path)).has_not_begun:
            fact = f"a newer session failed before any message: {entry.ended}: {path}"
            tell(f"{fact}; mcpproxy show -{position}")
            return


def _is_empty(path: str) -> bool:
    """Whether a recording has ended without a message, by its beginning; false if it cannot be read."""
    if os.path.isdir(f"{path}.journal"):  # the session runs, or the trace has to be completed
        return False
    try:
        with open(open_regular(path, follows=True), "rb") as file:
            head = file.read(HEAD_BYTES + 1)
    except OSError:
        return False
    return len(head) <= HEAD_BYTES and has_no_message(head)


def _with_name(recordings: Sequence[str], name: str) -> str:
    """Return the recording whose file has this name, with or without its suffix; empty if there is none."""
    names = (name, name + SUFFIX)
    return next((path for path in recordings if os.path.basename(path) in names), "")


def label_of(path: str) -> str:
    """Return the label in the file name of a recording; empty for a name that mcpproxy did not make."""
    part = _NAME.fullmatch(os.path.basename(path))
    return part[7] if part else ""


def _with_label(recordings: Sequence[str], label: str) -> list[str]:
    """Return the ``recordings`` that have this label in their file names, in the same order."""
    return [path for path in recordings if label_of(path) == label]


def _is_continuation(name: str, names: set[str]) -> bool:
    """Whether ``name`` is a later file of a rotated recording: ``NAME.2.jsonl`` beside ``NAME.jsonl``."""
    stem, _, number = name.removesuffix(SUFFIX).rpartition(".")
    return number.isdecimal() and stem + SUFFIX in names


def _start_of(folder: str, name: str) -> str:
    """Return the time when a recording began, as text that sorts by time; empty if it cannot be read.

    It comes from the name of the file, from the header, or else from the file's last change.
    """
    if parts := _NAME.fullmatch(name):
        year, month, day, hour, minute, second = parts.groups()[:6]
        return f"{year}-{month}-{day}T{hour}:{minute}:{second}"
    path = os.path.join(folder, name)
    try:
        with open(open_regular(path, follows=True), "rb") as file:
            if header := _STARTED.search(file.readline(HEAD_BYTES)):
                return header[1].decode()
        return paths.rfc3339(0, unix_ns=os.stat(path).st_mtime_ns).removesuffix("Z")
    except OSError:
        return ""
