"""Run in Windows: ``python start_once.py TOOL...`` starts each as the relay does, with hostile arguments.

A tool prints what it got. ``program.exe`` is this interpreter with ``show.py``.
"""

import subprocess
import sys

from mcpproxy.record.relay.stdio import windows_command
from tests.windows.arguments import HOSTILE, without_percent

code = 0
for tool in sys.argv[1:]:
    is_program = tool == "program.exe"
    command = [sys.executable, "show.py"] if is_program else [tool]
    given = HOSTILE if is_program else without_percent()
    program, line = windows_command.prepare_command([*command, *given])
    code |= subprocess.run(line, executable=program, stdin=subprocess.PIPE, check=False).returncode
sys.exit(code)
