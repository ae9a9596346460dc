"""Dataclasses with slots that are cheap to define: each method is generated only when it is needed.

``dataclasses`` takes 10 ms to import, and then generates and compiles up to six functions for each class,
which takes longer than the rest of most modules. A command imports about a hundred such classes and makes
instances of a few of them; the recorder does so while the session that it records competes for the processor.

``msgspec.Struct`` would be an alternative. It makes a frozen instance four times as fast (in 262 ns instead
of 1085 ns), and defining 40 classes takes as long as here (2 ms). But importing ``msgspec`` takes 8 ms, which
is much for a command such as ``explain``, which starts in 28 ms (Python 3.11.7, msgspec 0.22.0).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform, overload

__all__ = ["field", "slotted"]

T = TypeVar("T")

_NONE: Final = object()
"""Stands for a default that a field does not have."""
_MAX_UNCOMPILED: Final = 8
"""The number of instances of a class that are filled without a compiled ``__init__``. Compiling it takes
longer than filling them."""

_METHODS: Final = ("__init__", "__repr__", "__eq__", "__hash__")


class _Field:
    """The arguments of ``field``; ``options`` are passed on to ``dataclasses.field``."""

    __slots__ = ("default", "factory", "init", "options")

    def __init__(self, default: object, factory: Any, init: bool, options: Mapping[str, bool]) -> None:
        self.default = default
        self.factory = factory
        self.init = init
        self.options = options


# fmt: off
@overload
def field(*, default: T, init: bool = True, repr: bool = True, compare: bool = True) -> T: ...
@overload
def field(
    *, default_factory: Callable[[], T], init: bool = True, repr: bool = True, compare: bool = True
) -> T: ...
# fmt: on
def field(*, default: Any = _NONE, default_factory: Any = None, init: bool = True, **more: bool) -> Any:
    """Like ``dataclasses.field``, for a ``slotted`` class."""
    return _Field(default, default_factory, init, more)


@dataclass_transform(field_specifiers=(field,))
def slotted(*, frozen: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """Like ``dataclass(slots=True)``: the class has the same methods and fields, and can be pickled.

    ``InitVar``, ``__post_init__`` and base classes with fields are not supported. Use the ``field`` of this
    module, not that of ``dataclasses``.
    """

    def decorate(cls: type[T]) -> type[T]:
        members: dict[str, Any] = {
            name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")
        }
        defined = [name for name in _METHODS if members.get(name) is not None]
        fields: dict[str, _Field] = {}
        for name in cls.__annotations__:
            default = members.pop(name, _NONE)
            fields[name] = default if isinstance(default, _Field) else _Field(default, None, True, {})
        members["__slots__"] = tuple(fields)
        members["__match_args__"] = tuple(name for name, f in fields.items() if f.init)
        members["__dataclass_fields__"] = _LazyFields(fields)
        if frozen:
            members |= _FROZEN
        generated = ["__init__", "__repr__"]
        if eq:
            generated.append("__eq__")
        if eq and frozen:
            generated.append("__hash__")
        for name in generated:
            if name not in defined:
                # The class is passed as a function, because it is made only below.
                members[name] = _compiled_later(name, fields, frozen, lambda: slotted_class)
        if eq and not frozen and "__hash__" not in defined:
            members["__hash__"] = None  # mutable instances have no hash
        slotted_class: type[T] = type(cls)(cls.__name__, cls.__bases__, members)
        slotted_class.__qualname__ = cls.__qualname__
        return slotted_class

    return decorate


def _compiled_later(
    name: str, fields: Mapping[str, _Field], frozen: bool, slotted_class: Callable[[], Any]
) -> Callable[..., Any]:
    """Return a placeholder: its first call generates the method, which replaces the placeholder.

    The placeholder of ``__init__`` first fills ``_MAX_UNCOMPILED`` instances itself, if the arguments fit.
    """
    calls = 0

    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        nonlocal calls
        if name == "__init__":
            calls += 1
            if calls <= _MAX_UNCOMPILED and _fill(self, fields, args, keywords):
                return None
            compiled: Any = _compiled_init(slotted_class(), fields, frozen)
        else:
            compiled = getattr(_dataclass_with(slotted_class(), fields, name), name)
        setattr(slotted_class(), name, compiled)
        return compiled(self, *args, **keywords)

    return method


def _fill(
    self: Any, fields: Mapping[str, _Field], args: tuple[object, ...], keywords: dict[str, object]
) -> bool:
    """Fill the instance as ``__init__`` would; return false if the arguments do not fit the fields."""
    arguments = dict(zip(self.__match_args__, args, strict=False)) | keywords
    if len(arguments) < len(args) + len(keywords):
        return False
    values: list[object] = []
    for name, f in fields.items():
        if f.init and name in arguments:
            values.append(arguments.pop(name))
        elif f.factory is not None:
            values.append(f.factory())
        elif f.default is not _NONE:
            values.append(f.default)
        else:
            return False
    if arguments:
        return False
    for name, value in zip(fields, values, strict=True):
        object.__setattr__(self, name, value)
    return True


def _compiled_init(slotted_class: Any, fields: Mapping[str, _Field], frozen: bool) -> Callable[..., None]:
    """Generate and compile ``__init__``, which is faster than ``_fill`` for many instances."""
    slots: Any = slotted_class.__dict__
    scope: dict[str, Any] = {"_none": _NONE}
    head, body = ["self"], ["pass"]
    for name, f in fields.items():
        value, default = name, f"_{name}"
        if f.factory is not None:
            scope[default] = f.factory
            head += [f"{name}=_none"] * f.init
            value = f"{default}() if {name} is _none else {name}" if f.init else f"{default}()"
        elif f.default is not _NONE:
            scope[default] = f.default
            head += [f"{name}={default}"] * f.init
            value = name if f.init else default
        else:
            head.append(name)
        if frozen:
            scope[f"_set_{name}"] = slots[name].__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"self.{name} = {value}")
    exec(f"def __init__({', '.join(head)}):\n  " + "\n  ".join(body), scope)  # as dataclasses does it
    compiled = scope["__init__"]
    compiled.__qualname__ = f"{slotted_class.__qualname__}.__init__"
    return compiled


def _dataclass_with(slotted_class: Any, fields: Mapping[str, _Field], method: str = "") -> Any:
    """Return a class that ``dataclasses`` makes from the same fields, with the method ``method``."""
    import dataclasses

    def dataclass_field(f: _Field) -> Any:
        options: dict[str, Any] = {"init": f.init, **f.options}
        if f.factory is not None:
            options["default_factory"] = f.factory
        elif f.default is not _NONE:
            options["default"] = f.default
        return dataclasses.field(**options)

    return dataclasses.make_dataclass(
        slotted_class.__name__,
        [(name, slotted_class.__annotations__[name], dataclass_field(f)) for name, f in fields.items()],
        namespace={"__doc__": slotted_class.__doc__},
        init=False,
        repr=method == "__repr__",
        eq=method in ("__eq__", "__hash__"),
        frozen=method == "__hash__",
    )


class _LazyFields:
    """Computes ``__dataclass_fields__`` when ``dataclasses.fields``, ``replace`` or ``asdict`` needs it."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, _Field]) -> None:
        self._fields = fields

    def __get__(self, _: object, owner: type) -> Any:
        fields = _dataclass_with(owner, self._fields).__dataclass_fields__
        owner.__dataclass_fields__ = fields  # pyright: ignore[reportAttributeAccessIssue] # any class may get it
        return fields


def _refuse_set(_: object, name: str, _value: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_: object, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__slots__]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_FROZEN: Final = {
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _state,
    "__setstate__": _restore,
}
