"""Load addons: find the addon classes in files and in installed packages, and make an object of each."""

import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Final

from mcpproxy.addons import Addon
from mcpproxy.errors import McpProxyError

GROUP: Final = "mcpproxy.addons"
"""The group of entry points by which installed packages offer addons."""


class AddonError(McpProxyError):
    """An addon that cannot be used; the text says why."""


def load_addons(names: Sequence[str]) -> list[Addon]:
    """Return an object of each addon class that ``names`` denote: paths of files (with a separator, or ending
    in ``.py``), or names of entry points.

    Raises:
        AddonError: an addon cannot be used.
    """
    return [addon for name in names for addon in _load_named(name)]


def _load_named(name: str) -> Iterator[Addon]:
    try:
        classes = (
            _classes_in_file(name) if name.endswith(".py") or os.sep in name else _installed_classes(name)
        )
        for addon_class in classes:
            yield addon_class()
    except AddonError:
        raise
    except Exception as error:  # an addon is foreign code, and may raise anything
        place = _error_place(error, name)
        raise AddonError(f"{place}: {type(error).__name__}: {error}; correct it") from None


def _classes_in_file(path: str) -> list[type[Addon]]:
    spec = importlib.util.spec_from_file_location("mcpproxy_addon_" + str(abs(hash(path))), path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise AddonError(f"{path}: no such file; name a file of Python, or an installed addon")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    folder = os.path.dirname(os.path.abspath(path))
    # The folder comes first while the addon is loaded, as for any program. Afterwards it comes last, so that
    # its modules do not shadow what mcpproxy or the next addon imports.
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        with suppress(ValueError):  # the addon has removed it
            sys.path.remove(folder)
        sys.path.append(folder)
    if not (classes := _addon_classes(module)):
        raise AddonError(f"{path}: there is no addon; derive a class from mcpproxy.addons.Addon")
    return classes


def _addon_classes(module: ModuleType) -> list[type[Addon]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Addon) and value.__module__ == module.__name__
    ]


def _installed_classes(name: str) -> list[type[Addon]]:
    from importlib.metadata import entry_points

    known = entry_points(group=GROUP)
    if name not in known.names:
        names = ", ".join(sorted(known.names)) or "none"
        raise AddonError(f"{name}: no such addon; name a file (ADDON.py), or one that is installed ({names})")
    found = known[name].load()
    if not (isinstance(found, type) and issubclass(found, Addon)):
        raise AddonError(f"{name}: {known[name].value} is no addon; derive it from mcpproxy.addons.Addon")
    return [found]


def _error_place(error: Exception, name: str) -> str:
    """Return the place in an addon's file at which an error was raised: ``FILE:LINE``, or the name alone."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    traceback, line = error.__traceback__, 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == os.path.abspath(name):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{name}:{line}" if line else name
