"""Dataclasses with slots that cost little to define: each method is written when it is first called.

``dataclasses`` writes and compiles up to six functions for each class, which takes longer than all else in
most of our modules. A command imports some hundred such classes and makes instances of a few; a recorder
does that while the session that it records already waits for a processor.
"""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, make_dataclass
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform

__all__ = ["slotted"]

T = TypeVar("T")

_NEW: Final = object()
_WRITTEN: Final = ("__init__", "__repr__", "__eq__")


@dataclass_transform(field_specifiers=(field,))
def slotted(*, frozen: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """As ``dataclass`` with slots: what it makes has the same methods, fields and pickles.

    There is no ``InitVar`` and no ``__post_init__``, and a base with fields is slotted and frozen
    likewise.
    """

    def decorate(cls: type[T]) -> type[T]:
        made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        for name in _WRITTEN if eq else _WRITTEN[:2]:
            if name not in vars(made):
                _write_later(made, name, frozen)
        if frozen:
            for name, method in _FROZEN.items():
                setattr(made, name, method)
        if eq and frozen:
            _write_later(made, "__hash__", frozen)
        elif eq:
            made.__hash__ = None  # pyright: ignore[reportAttributeAccessIssue] # what can change has none
        return made

    return decorate


def _write_later(made: type, name: str, frozen: bool) -> None:
    """Put something in the place of a method that puts the method there when it is called."""

    def method(self: Any, *args: Any, **more: Any) -> Any:
        written = _init(made, frozen) if name == "__init__" else _other(made, name)
        setattr(made, name, written)
        return written(self, *args, **more)

    setattr(made, name, method)


def _init(made: Any, frozen: bool) -> Callable[..., None]:
    """``__init__``, the one that a start has to wait for: of a table's rows there are instances at once."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_new": _NEW}
    head, body = ["self"], ["pass"]
    for f in fields(made):
        given, kept = f.name, f"_{f.name}"
        if f.default is not MISSING:
            scope[kept] = f.default
            head += [f"{f.name}={kept}"] * f.init
            given = f.name if f.init else kept
        elif f.default_factory is not MISSING:
            scope[kept] = f.default_factory
            head += [f"{f.name}=_new"] * f.init
            given = f"{kept}() if {f.name} is _new else {f.name}" if f.init else f"{kept}()"
        else:
            head.append(f.name)
        body.append(f"_set(self, '{f.name}', {given})" if frozen else f"self.{f.name} = {given}")
    exec(f"def __init__({', '.join(head)}):\n  " + "\n  ".join(body), scope)  # as dataclasses does it
    written = scope["__init__"]
    written.__qualname__ = f"{made.__qualname__}.__init__"
    return written


def _other(made: type, name: str) -> Callable[..., Any]:
    """What ``dataclasses`` would have written."""
    twin = make_dataclass(
        made.__name__,
        [(f.name, f.type, f) for f in fields(made)],
        namespace={"__doc__": made.__doc__},
        init=False,
        repr=name == "__repr__",
        eq=name != "__repr__",
        frozen=name == "__hash__",
    )
    return vars(twin)[name]


def _refuse_set(_: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)


_FROZEN: Final = {
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _state,
    "__setstate__": _restore,
}
