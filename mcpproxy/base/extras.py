"""What only some commands need is installed as an extra. This module imports none of it."""

from importlib.util import find_spec

from mcpproxy.errors import UsageError


def check(where: str, extra: str, *packages: str) -> None:
    """Check that ``packages``, as they are imported, are installed; the error names ``where``.

    Raises:
        UsageError: one is not; it says how to install ``extra``. Pip keeps a package that is installed, so
            this brings only what is missing, and no other program that has our name on an index.
    """
    for package in packages:
        parents = package.split(".")
        if any(find_spec(".".join(parents[: end + 1])) is None for end in range(len(parents))):
            step = f"install it beside this mcpproxy: python -m pip install 'mcpproxy[{extra}]'"
            raise UsageError(where, f"the package {package} is not installed", step)
