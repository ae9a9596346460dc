"""Run in Windows: ``python ctrl_break.py ARGUMENT...`` is mcpproxy, which gets Ctrl-Break once it handles it.

Wine has no Ctrl-Break. So the handler is called that Windows would call, from a thread as there.
"""

import signal
import sys
import threading
import time
from typing import Final

from mcpproxy.cli.main import main

SIGBREAK: Final[int] = vars(signal)["SIGBREAK"]


def press() -> None:
    while signal.getsignal(SIGBREAK) == signal.SIG_DFL:
        time.sleep(0.01)
    signal.raise_signal(SIGBREAK)


threading.Thread(target=press, daemon=True).start()
sys.exit(main())
