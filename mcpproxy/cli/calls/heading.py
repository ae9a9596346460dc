"""The line that says which recording is shown."""

from mcpproxy.base.visible import visible
from mcpproxy.record.trace.records import Header


def heading(header: Header, *, with_command: bool = True) -> str:
    """Return label, start and command of a recording, as far as they are known, escaped for a terminal.

    Without a command, the URL of the server or the mode of the proxy takes its place.
    """
    started = header.started_at[:19].replace("T", " ")
    words = ", ".join(filter(None, (header.label, started and f"{started} UTC")))
    command = " ".join(header.command) or header.upstream or header.mode if with_command else ""
    return visible(f"{words}: {command}" if command else words)
