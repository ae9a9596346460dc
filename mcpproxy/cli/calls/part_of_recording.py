"""``--filter`` of the commands that use only some calls of a recording: ``trim`` and ``replay``."""

import os
import tempfile
from dataclasses import replace

from mcpproxy.cli.arguments import UsageError
from mcpproxy.judge.session.frame import Sender
from mcpproxy.peers.replay.recording import LoadedTrace, load
from mcpproxy.read.edit.trim import FrameFilter, trimmed
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.copy import write_trace


def frames_of_calls(path: str, text: str) -> FrameFilter:
    """Return a filter for the frames of the calls that pass the filter ``text``.

    Raises:
        TraceError: the recording cannot be read.
        FilterError: ``text`` is not a filter.
        UsageError: no call passes.
    """
    from mcpproxy.judge.session.filter import parse_filter  # slow, and most runs have no filter
    from mcpproxy.read.view.view import open_view

    wanted = parse_filter(text)
    with open_view(path) as view:
        frames = frozenset(view.frames_of(wanted))
    if not frames:
        raise UsageError(path, f"no call passes {text}", "mcpproxy show lists all calls")
    return frames.__contains__


def load_calls(path: str, text: str, peer: Sender | None = None) -> LoadedTrace:
    """Read for replay only the calls of a recording that pass the filter ``text``, and what they depend on.

    The result is as if ``trim`` had made the recording. All calls pass an empty filter. ``peer`` is as for
    ``recording.from_trace``.

    Raises:
        TraceError: the recording cannot be read.
        FilterError: ``text`` is not a filter.
        UsageError: no call passes.
    """
    if not text:
        return load(path, peer)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-") as folder:
        part = os.path.join(folder, os.path.basename(path))
        write_trace(part, *trimmed(open_trace(path), frames_of_calls(path, text)))
        return replace(load(part, peer), path=path)
