"""``python -m tests.relay.portable_command ARG...``: mcpproxy, with the relays for systems without fork."""

import sys
import types

from mcpproxy.cli import enforce_options
from mcpproxy.cli.commands import http, run
from mcpproxy.cli.main import main
from mcpproxy.record.relay.http import loop

if __name__ == "__main__":
    windows = types.ModuleType("sys")
    vars(windows).update(vars(sys), platform="win32")
    loop.make_epoll = loop.SelectorEpoll
    for module in (enforce_options, http, run):
        setattr(module, "sys", windows)  # noqa: B010 # it is not theirs
    sys.exit(main())
