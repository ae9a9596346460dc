"""``python -m mcpproxy``: the same as the ``mcpproxy`` command."""

import sys

from mcpproxy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
