"""Run in Windows: ``python hold.py shared|alone FILE`` has the file open until its standard input ends.

``shared`` is how most programs open a file to read it: others can open it too, but cannot delete it. With
``alone``, no other program can open it. A killed program may have it open for a moment longer, which is
waited for.
"""

import ctypes
import sys
import time
from ctypes import wintypes

GENERIC_READ = 0x80000000
SHARE_READ_AND_WRITE = 3
OPEN_EXISTING = 3
INVALID = ctypes.c_void_p(-1).value
TRIES = 600

kind, name = sys.argv[1:]
kernel32 = vars(ctypes)["WinDLL"]("kernel32")
kernel32.CreateFileW.restype = wintypes.HANDLE
sharing = SHARE_READ_AND_WRITE if kind == "shared" else 0
handle = INVALID
for _ in range(TRIES):
    handle = kernel32.CreateFileW(name, GENERIC_READ, sharing, None, OPEN_EXISTING, 0, None)
    if handle != INVALID:
        break
    time.sleep(0.05)  # nothing tells when it is closed
sys.stdout.write("failed\n" if handle == INVALID else "held\n")
sys.stdout.flush()
sys.stdin.read()
