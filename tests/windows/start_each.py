"""Run in Windows: ``python start_each.py TOOL``: start ``TOOL`` as the relay does, once for each hostile
argument, and print what it got as JSON."""

import json
import subprocess
import sys

from mcpproxy.relay.stdio import windows_command
from tests.windows.arguments import HOSTILE

got: list[str] = []
for argument in HOSTILE:
    program, line = windows_command.prepare([*sys.argv[1:], argument, "end"])
    ran = subprocess.run(line, executable=program, capture_output=True, stdin=subprocess.PIPE, check=False)
    got.append(ran.stdout.decode())
sys.stdout.write(json.dumps(got))
