"""A server of the tests: ``python echo.py`` sends back what it gets, ``echo.py exit N`` ends with N, and
``echo.py stay`` never ends by itself."""

import os
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
        while data := os.read(0, 1 << 16):
            while data:
                data = data[os.write(1, data) :]
