"""Start a wrapped session: first the server, then the imports for which the server need not wait."""

from __future__ import annotations

from mcpproxy.record.relay.stdio.inheritance import occupy_standard, start_server
from mcpproxy.record.relay.stdio.signals import Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpproxy.record.relay.journal import Journal
    from mcpproxy.record.relay.stdio.forked_recorder import RecorderMain
    from mcpproxy.record.relay.stdio.line_gate import MakeLineGate


def run(
    command: list[str],
    journal: Journal | None,
    recorder_main: RecorderMain | None,
    *,
    grace_s: float,
    quiet: bool = False,
    greeting: str = "",
    is_awaited: bool = False,
    make_gate: MakeLineGate | None = None,
    folders: Sequence[str] = (),
) -> int:
    """Start ``command``, relay until it has exited, and return its exit code as a shell would.

    Args:
        command: program and arguments.
        journal: the journal, the copy of the traffic, to record in, or ``None`` to relay only.
        recorder_main: the function that the forked recorder runs (see ``fork_recorder``), or ``None`` to
            start no recorder.
        grace_s: how long the server may take to exit, once it has to exit, before each signal that ends it.
        quiet: write no lines of mcpproxy to stderr, except that the server could not be started.
        greeting: the line to write to stderr when the server has started, empty for none.
        is_awaited: whether the end waits ``RECORDER_S`` for the recorder's last lines, also if stderr is no
            terminal.
        make_gate: makes the gate, which holds messages until it has decided whether they pass, or ``None``.
        folders: the folders to search before the PATH for the program, and for programs that it starts.

    Returns:
        The server's exit code, 128 + N when signal N ended it, 127 when there is no such command and
        126 when it cannot be run.

    Raises:
        OSError: the relay cannot open the files that it needs. The server is ended, by the recorder if that
            has started.
        ImportError: a module cannot be loaded. The server is ended as above.
    """
    occupy_standard()
    signals = Signals()
    server = error = None
    try:
        server = start_server(command, signals, folders)
    except OSError as caught:
        error = caught
    signals.catch_ignored()

    has_recorder = False

    def start_recorder() -> None:
        nonlocal has_recorder
        if recorder_main is not None:
            relay.attach_recorder(fork_recorder(recorder_main, server, grace_s))
            has_recorder = True

    try:
        from mcpproxy.record.relay.exit_status import recorder_s, shell_code
        from mcpproxy.record.relay.stdio.forked_recorder import fork_recorder
        from mcpproxy.record.relay.stdio.relay import Relay

        relay = Relay(journal, signals, grace_s, quiet, make_gate)
        relay.recorder_s = recorder_s(is_awaited=is_awaited)
        if server is not None:
            try:
                relay.attach_server(server)
            except OSError as caught:
                error = caught
                server.kill()
        return shell_code(relay.run(command, error, start_recorder, greeting))
    except (OSError, ImportError):  # for example, no more files may be opened
        if server is not None and not has_recorder:  # a recorder gives the server time to end
            server.kill()
        raise
