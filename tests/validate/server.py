"""The scripted server as a program: ``python -m tests.validate.server [--flaw NAME]``."""

import importlib
import os
import sys

from tests.validate.scripted import FLAWS, Server


def main() -> int:
    server = Server()
    if len(sys.argv) == 3 and sys.argv[1] == "--flaw":
        for name in os.listdir(os.path.dirname(__file__)):
            if name.startswith("flaws_"):
                importlib.import_module(f"tests.validate.{name.removesuffix('.py')}")
        FLAWS[sys.argv[2]](server)
    return server.run()


if __name__ == "__main__":
    sys.exit(main())
