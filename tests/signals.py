"""The signals of a process that starts others, as they are in a shell's foreground."""

import signal


def restore_defaults() -> None:
    """Unblock all signals, and take back what a shell ignores in background jobs.

    Processes that this one starts inherit both. So a test would otherwise fail in the background.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
        number = getattr(signal, name, signal.SIGTERM)  # Windows has fewer
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
