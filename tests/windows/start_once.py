"""Run in Windows: ``python start_once.py TOOL...`` starts ``TOOL`` as the relay does, with hostile arguments.

The tool prints what it got.
"""

import subprocess
import sys

from mcpproxy.relay.stdio import windows_command
from tests.windows.arguments import HOSTILE, without_percent

given = HOSTILE if sys.argv[1].endswith(".exe") else without_percent()
program, line = windows_command.prepare_command([*sys.argv[1:], *given])
sys.exit(subprocess.run(line, executable=program, stdin=subprocess.PIPE, check=False).returncode)
