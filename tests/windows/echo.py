"""A server of the tests: ``python echo.py`` sends back what it gets, ``echo.py exit N`` ends with N,
``echo.py crash`` as a crash does, and ``echo.py stay`` never by itself."""

import os
import sys
import time

match sys.argv[1:]:
    case ["exit", code]:
        sys.exit(int(code))
    case ["crash"]:
        import ctypes

        # Not sys.exit, which is of the C library: the code has 32 bits.
        vars(ctypes)["windll"].kernel32.TerminateProcess(ctypes.c_void_p(-1), 0xC0000005)
    case ["stay"]:
        sys.stdout.write("staying\n")
        sys.stdout.flush()
        time.sleep(600)
    case _:
        while data := os.read(0, 1 << 16):
            while data:
                data = data[os.write(1, data) :]
