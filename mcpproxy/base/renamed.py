"""Names that have moved: the old ones work for one release, with a warning."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def give(module: str, name: str, names: Mapping[str, tuple[str, str]]) -> Any:
    """What ``name`` of ``module`` is called now; ``names`` leads to its module and its name there.

    Raises:
        AttributeError: there was never such a name.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    now, called = names[name]
    warnings.warn(
        f"{module}.{name} is {now}.{called} now; the old name goes with the next release",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(now), called)
