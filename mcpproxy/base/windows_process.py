"""Ask Windows when a process was started.

Source: https://learn.microsoft.com/en-us/windows/win32/api/processthreadsapi/nf-processthreadsapi-getprocesstimes
"""

import ctypes
from ctypes import wintypes
from datetime import UTC, datetime, timedelta
from typing import Any, Final

# PROCESS_QUERY_LIMITED_INFORMATION and ERROR_ACCESS_DENIED of Windows.
_QUERY_LIMITED_INFORMATION: Final = 0x1000
_ACCESS_DENIED: Final = 5
_EPOCH: Final = datetime(1601, 1, 1, tzinfo=UTC)
"""The system counts time in tenths of microseconds since this date."""


def start_time(process_id: int) -> datetime | None:
    """Return the time at which a process was started; ``None`` if it does not run.

    Raises:
        PermissionError: Windows does not tell the time, for example that of another user's process.
    """
    # ``vars``, because ctypes has ``WinDLL`` and ``get_last_error`` on Windows only. ``Any``, because ctypes
    # knows no types of the functions in a library.
    kernel32: Any = vars(ctypes)["WinDLL"]("kernel32", use_last_error=True)
    kernel32.OpenProcess.restype = wintypes.HANDLE
    kernel32.GetProcessTimes.argtypes = (wintypes.HANDLE, *[ctypes.POINTER(wintypes.FILETIME)] * 4)
    kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)
    handle = kernel32.OpenProcess(_QUERY_LIMITED_INFORMATION, False, process_id)
    if not handle:
        if vars(ctypes)["get_last_error"]() == _ACCESS_DENIED:
            raise PermissionError(f"the start of process {process_id} is not told")
        return None
    try:
        start, end, in_kernel, in_program = (wintypes.FILETIME() for _ in range(4))
        times = (ctypes.byref(time) for time in (start, end, in_kernel, in_program))
        if not kernel32.GetProcessTimes(handle, *times):
            raise PermissionError(f"the start of process {process_id} is not told")
    finally:
        kernel32.CloseHandle(handle)
    if end.dwHighDateTime or end.dwLowDateTime:  # it has ended, but some process still holds a handle
        return None
    return _EPOCH + timedelta(microseconds=(start.dwHighDateTime << 32 | start.dwLowDateTime) // 10)
