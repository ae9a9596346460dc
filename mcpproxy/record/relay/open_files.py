"""Raise the limit of open files, for processes with many connections."""

from __future__ import annotations

NO_LIMIT = 1 << 30
"""In place of a number of files: there is no limit."""


def raise_limit() -> int:
    """Raise the limit of open files as far as allowed, and return it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return NO_LIMIT
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, max(soft, 10240)):  # macOS reports no limit, but allows only 10240
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        soft = wanted
        break
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft
