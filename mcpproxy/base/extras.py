"""Check for the packages of an extra, which only some commands need, without importing them.

Only the parents of a nested package are imported: ``a`` to look for ``a.b``.
"""

from importlib.util import find_spec

from mcpproxy.errors import UsageError


def check(where: str, extra: str, *packages: str) -> None:
    """Check that ``packages``, given by their import names, are installed. The error names ``where``.

    Raises:
        UsageError: a package is missing. The error gives the pip command that installs ``extra``. Pip keeps
            the mcpproxy that is installed, so it does not fetch another program of that name from an index.
    """
    for package in packages:
        parents = package.split(".")
        if any(find_spec(".".join(parents[: end + 1])) is None for end in range(len(parents))):
            step = f"install it beside this mcpproxy: python -m pip install 'mcpproxy[{extra}]'"
            raise UsageError(where, f"the package {package} is not installed", step)
