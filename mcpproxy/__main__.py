"""``python -m mcpproxy``: the same as the ``mcpproxy`` command."""

import sys

from mcpproxy.base.own_process import forget_working_directory

if __name__ == "__main__":
    forget_working_directory()  # before anything else is imported
    from mcpproxy.cli.main import main

    sys.exit(main())
