"""A server of the tests: ``python echo.py`` sends back what it gets, ``echo.py exit N`` ends with N,
``echo.py crash`` as a crash does, and ``echo.py stay MARK`` never by itself, nor ``echo.py id MARK``, which
says its process id; a test finds its process by ``MARK``. The others say what Ctrl-C does to them, and end
when their stdin ends: ``echo.py dies`` of Ctrl-C, ``echo.py goes`` with a code of its own, and
``echo.py ignores`` it."""

import os
import signal
import sys
import time


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _await_host() -> None:
    """Say that Ctrl-C came, and wait until the host closes stdin: then mcpproxy has got Ctrl-C too."""
    _say("interrupted")
    sys.stdin.read()


match sys.argv[1:]:
    case ["exit", code]:
        sys.exit(int(code))
    case ["crash"]:
        import ctypes

        # Not sys.exit, which is of the C library: the code has 32 bits.
        vars(ctypes)["windll"].kernel32.TerminateProcess(ctypes.c_void_p(-1), 0xC0000005)
    case ["stay", _]:
        _say("staying")
        time.sleep(600)
    case ["id", _]:
        _say(str(os.getpid()))
        time.sleep(600)
    case ["dies"]:
        _say("ready")
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            _await_host()
            raise
    case ["goes"]:

        def leave(number: int, frame: object) -> None:
            _await_host()
            sys.exit(7)

        signal.signal(signal.SIGINT, leave)
        _say("ready")
        time.sleep(600)
    case ["ignores"]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _say("ready")
        while line := sys.stdin.readline():
            _say(line.strip())
    case _:
        while data := os.read(0, 1 << 16):
            while data:
                data = data[os.write(1, data) :]
