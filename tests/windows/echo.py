"""A server of the tests: ``python echo.py`` sends back what it gets, ``echo.py exit N`` ends with N, and
``echo.py stay`` never ends by itself."""

import sys
import time

match sys.argv[1:]:
    case ["exit", code]:
        sys.exit(int(code))
    case ["stay"]:
        sys.stdout.write("staying\n")
        sys.stdout.flush()
        time.sleep(600)
    case _:
        while data := sys.stdin.buffer.read1(1 << 16):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
