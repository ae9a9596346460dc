"""Old names of renamed objects: they work for one release, with a warning."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def resolve_old_name(module: str, name: str, names: Mapping[str, tuple[str, str]]) -> Any:
    """Return the object that ``module`` used to call ``name``, and issue a warning with its new name.

    ``names`` maps each old name to the object's module now and its name in that module.

    Raises:
        AttributeError: ``module`` never had such a name.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    new_module, new_name = names[name]
    warnings.warn(
        f"{module}.{name} is {new_module}.{new_name} now; the next release removes the old name",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(new_module), new_name)


class OldName:
    """Keeps the old name of an attribute working, for the body of a class: ``old = OldName("new")``."""

    def __init__(self, new_name: str) -> None:
        self._new_name = new_name
        self._name = new_name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def __get__(self, instance: object, owner: type) -> Any:
        warnings.warn(
            f"{self._name} is {self._new_name} now; the next release removes the old name",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(instance, self._new_name)
