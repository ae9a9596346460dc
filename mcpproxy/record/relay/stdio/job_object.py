"""A job object: the server ends when the relay ends, however that happens (Windows).

A host that runs the server without mcpproxy can end only the server's process; the processes that the server
has started keep running. So the job holds the server alone: its children leave the job when they are made.

Source: https://learn.microsoft.com/en-us/windows/win32/procthread/job-objects
"""

import ctypes
from ctypes import wintypes
from typing import Any, Final

_EXTENDED_LIMITS: Final = 9  # the kind of information that ``_Limits`` is
_SILENT_BREAKAWAY_OK: Final = 0x1000
_KILL_ON_JOB_CLOSE: Final = 0x2000


class _Limits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("per_process_time", ctypes.c_int64),
        ("per_job_time", ctypes.c_int64),
        ("flags", wintypes.DWORD),
        ("least_memory", ctypes.c_size_t),
        ("most_memory", ctypes.c_size_t),
        ("processes", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority", wintypes.DWORD),
        ("scheduling", wintypes.DWORD),
        ("io_counts", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


def bind(process_handle: int) -> None:
    """Let the system end another process when this process ends, unless the system refuses."""
    # ctypes has no types for what a library contains, and has ``WinDLL`` on Windows only.
    kernel32: Any = vars(ctypes)["WinDLL"]("kernel32")
    kernel32.CreateJobObjectW.restype = wintypes.HANDLE
    kernel32.SetInformationJobObject.argtypes = (
        wintypes.HANDLE,
        ctypes.c_int,
        ctypes.c_void_p,
        wintypes.DWORD,
    )
    kernel32.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
    # The handle stays open until this process ends: then the system closes it, and the job ends.
    job = kernel32.CreateJobObjectW(None, None)
    limits = _Limits(flags=_KILL_ON_JOB_CLOSE | _SILENT_BREAKAWAY_OK)
    size = ctypes.sizeof(limits)
    if job and kernel32.SetInformationJobObject(job, _EXTENDED_LIMITS, ctypes.byref(limits), size):
        kernel32.AssignProcessToJobObject(job, process_handle)
