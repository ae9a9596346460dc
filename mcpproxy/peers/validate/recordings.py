"""The recordings of a validation and the names of their files.

With ``--trace FILE`` the first session is recorded in that file, and each later session beside it, in a file
named after the session. Without ``--trace``, all sessions are recorded in a new folder. Over HTTP, one
recording has all sessions of a revision.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Final
from urllib.parse import urlsplit

from mcpproxy import __version__
from mcpproxy.base import paths
from mcpproxy.base.upstream.settings import USUAL, UpstreamSettings
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.record.recorder.secret_arguments import masked, shown
from mcpproxy.record.trace.records import ARGUMENTS_MASKED, Header


@dataclass(frozen=True, slots=True)
class Target:
    """The server to validate: a ``command`` or a ``url``.

    ``env`` is added to our environment for the command, and ``cwd`` is the folder it runs in (empty: the
    current folder). ``headers`` are sent to the URL, and ``upstream`` says how it is reached.
    """

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str = ""
    url: str = ""
    headers: Sequence[tuple[str, str]] = ()
    upstream: UpstreamSettings = USUAL

    @property
    def transport(self) -> str:
        """``stdio`` or ``http``."""
        return "http" if self.url else "stdio"

    @property
    def name(self) -> str:
        """The command line or the URL, without secrets."""
        return shown((self.url,) if self.url else self.command)


class Recordings:
    """Starts the recordings of one run, which are in ``folder`` and judged by ``rules``.

    ``trace`` is the file of ``--trace``; if it is empty, ``label`` is part of the name of the new folder. The
    header of each recording has the label ``title``, by default a label with the name of the session.
    """

    def __init__(self, rules: Ruleset, trace: str, label: str, title: str = "") -> None:
        self.rules: Final = rules
        self.folder: Final = os.path.dirname(trace) if trace else _new_folder(label)
        self._trace: Final = trace
        self._title: Final = title
        self._used_paths: Final[set[str]] = set()

    def begin(self, name: str, target: Target) -> SessionRecording:
        """Start the recording of a session called ``name``.

        Raises:
            McpProxyError: the file cannot be written.
        """
        path = self._new_path(name)
        now_ns = monotonic_ns()
        command = masked(target.command, os.urandom(32))
        argument_redaction = "none" if command == target.command else ARGUMENTS_MASKED
        header = Header(
            mcpproxy=__version__,
            transport=target.transport,
            command=command,
            label=self._title or f"validate {name}",
            cwd=target.cwd or os.getcwd(),
            pid=os.getpid(),
            started_at=paths.rfc3339(),
            started_ns=now_ns,
            redaction="credentials" if target.url else argument_redaction,
            mode="reverse" if target.url else "",
            endpoint=(urlsplit(target.url).path or "/") if target.url else "",
            upstream=target.url,
        )
        return SessionRecording(path, header, self.rules, now_ns)

    def _new_path(self, name: str) -> str:
        """Return the path of a new file for the session ``name``."""
        if not self._trace:
            preferred_path = os.path.join(self.folder, f"{paths.safe(name)}.jsonl")
        elif not self._used_paths:
            preferred_path = self._trace
        else:
            stem, suffix = os.path.splitext(self._trace)
            preferred_path = f"{stem}.{paths.safe(name)}{suffix}"
        path = paths.free(preferred_path, self._used_paths)
        self._used_paths.add(path)
        return path


def _new_folder(label: str) -> str:
    stem, _ = os.path.splitext(paths.trace_name(f"validate-{label}"))
    return os.path.join(paths.probe_folder("validate"), stem)
