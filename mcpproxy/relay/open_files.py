"""The limit of open files, for processes that hold many connections."""

from __future__ import annotations


def raise_limit() -> None:
    """Raise the limit of open files as far as allowed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, max(soft, 10240)):  # macOS reports no limit, but allows only 10240
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        return
