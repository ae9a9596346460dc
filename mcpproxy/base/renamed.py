"""Old names of renamed objects: they work for one release, with a warning."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def resolve_old_name(module: str, name: str, names: Mapping[str, tuple[str, str]]) -> Any:
    """Return the object that ``module`` used to call ``name``, with a warning that gives its new name.

    ``names`` maps each old name to the object's module and its name there.

    Raises:
        AttributeError: ``module`` never had such a name.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    now, called = names[name]
    warnings.warn(
        f"{module}.{name} is {now}.{called} now; the next release removes the old name",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(now), called)


class OldName:
    """An attribute under its old name, in the body of a class: ``strays = OldName("unsolicited")``."""

    def __init__(self, now: str) -> None:
        self._now = now
        self._name = now

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def __get__(self, instance: object, owner: type) -> Any:
        warnings.warn(
            f"{self._name} is {self._now} now; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(instance, self._now)
