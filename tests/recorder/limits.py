"""A disk that is full for this process alone."""

import resource
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def file_size_limit(limit: int) -> Generator[None]:
    """No file grows beyond ``limit`` bytes: writing ends in the middle, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
