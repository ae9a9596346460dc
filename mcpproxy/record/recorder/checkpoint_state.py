"""Convert the state of an `HttpAssembly` to JSON for the checkpoint, and back.

An `HttpAssembly` turns the bytes of HTTP connections into events. The checkpoint is the file from which
recording continues after a kill.

A connection can be in any state when the segments (files of the journal, the relay's copy of the traffic)
that led to that state are deleted. So the objects of the assembly are written attribute by attribute. The
attribute names are therefore part of the format. Reading makes instances only of the classes listed here, so
a checkpoint from an unknown source may hold wrong values but cannot run code. An object that two other
objects share is shared again after reading. A class lists in ``TRANSIENT`` the attributes that cannot be
saved; its method ``begin`` makes them again.

Long runs of bytes, such as the beginnings of bodies, are not converted to JSON. They are stored after the
JSON, without a copy.

500 connections, each with an incomplete body, need 750 KB and 34 ms to save. ``msgspec.msgpack`` would need a
third less space (and 3 ms for the encoding alone), but reading would need a ``Struct`` for each of these
classes and code for their shared objects. The gain would be small, because a checkpoint is saved only after a
whole segment."""

from collections import deque
from collections.abc import Callable, Sequence
from io import BytesIO
from types import FunctionType, MethodType
from typing import Any, Final, cast

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.record.framing import bodies as framing_bodies
from mcpproxy.record.framing import connection_side, http1, sse
from mcpproxy.record.recorder.checkpoint import decode_run, encode_run
from mcpproxy.record.recorder.http import assembly as http_assembly
from mcpproxy.record.recorder.http import body_frames, connections, memory_budget
from mcpproxy.record.recorder.http.assembly import HttpAssembly

_CLASSES: Final[dict[str, type]] = {
    value.__qualname__: value
    for module in (
        framing_bodies,
        http1,
        connection_side,
        sse,
        body_frames,
        connections,
        memory_budget,
        http_assembly,
    )
    for value in vars(module).values()
    if isinstance(value, type) and value.__module__ == module.__name__
}


class StateError(ValueError):
    """A checkpoint does not contain the state of an assembly."""


def save_assembly(assembly: HttpAssembly) -> tuple[JSON, list[bytes | memoryview]]:
    """Return the state of ``assembly``, and the long runs of bytes, to which the state refers by index.

    The assembly must not change until the runs that are memory views are released.
    """
    long: list[bytes | memoryview] = []
    return _StateWriter(long).write(assembly), long


def restore_assembly(state: JSON, long: Sequence[bytes]) -> HttpAssembly:
    """Return the assembly with the state ``state``, which refers to the runs of bytes in ``long`` by index.

    The caller must feed the assembly's decoders again with the encoded bytes that are in the trace.

    Raises:
        StateError: ``state`` is not the state of an assembly.
    """
    try:
        assembly = _StateReader(long).read(state)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise StateError("not the state of an assembly") from None
    if not isinstance(assembly, HttpAssembly):
        raise StateError("not the state of an assembly")
    return assembly


class _StateWriter:
    """Converts values to JSON: plain values as they are, others as ``[kind, ...]``.

    An object that can be shared gets a number. If the object appears again, only its number is written.
    """

    def __init__(self, long: list[bytes | memoryview]) -> None:
        self._long = long
        self._numbers: dict[int, int] = {}

    def write(self, value: Any) -> JSON:
        match value:
            case None | bool() | int() | str():
                return value
            case bytes():
                return ["bytes", encode_run(value, self._long)]
            case tuple():
                return ["tuple", [self.write(item) for item in cast("tuple[Any, ...]", value)]]
            case MethodType():
                return ["method", self.write(value.__self__), value.__func__.__name__]
            case FunctionType():
                return ["function", value.__qualname__]
            case _:
                pass
        if (number := self._numbers.get(id(value))) is not None:
            return ["same", number]
        number = self._numbers[id(value)] = len(self._numbers)
        match value:
            case bytearray():
                return ["bytearray", number, self._write_buffer(memoryview(value))]
            case BytesIO():
                return ["BytesIO", number, self._write_buffer(value.getbuffer())]
            case list() | deque() | set():
                items = cast("list[Any]", value)
                return [type(items).__name__, number, [self.write(item) for item in items]]
            case dict():
                pairs = cast("dict[Any, Any]", value).items()
                return ["dict", number, [[self.write(key), self.write(item)] for key, item in pairs]]
            case _:
                return [type(value).__qualname__, number, self._write_attributes(value)]

    def _write_buffer(self, data: memoryview) -> JSON:
        run = encode_run(data, self._long)
        if isinstance(run, str):
            data.release()
        return run

    def _write_attributes(self, instance: object) -> JSON:
        if _CLASSES.get(type(instance).__qualname__) is not type(instance):
            raise TypeError(f"{type(instance).__qualname__} in the state of an assembly")
        transient = getattr(instance, "TRANSIENT", ())
        return {
            name: self.write(getattr(instance, name))
            for name in _attribute_names(instance)
            if name not in transient
        }


class _StateReader:
    """Makes the objects again that `_StateWriter` has written."""

    def __init__(self, long: Sequence[bytes]) -> None:
        self._long = long
        self._objects: dict[int, Any] = {}

    def read(self, state: Any) -> Any:
        if not isinstance(state, list):
            return state
        match cast("list[Any]", state):
            case ["bytes", data]:
                return decode_run(data, self._long)
            case ["tuple", [*items]]:
                return tuple(self.read(item) for item in items)
            case ["method", owner, str(name)]:
                return _bound_method(self.read(owner), name)
            case ["function", str(name)]:
                owner, _, name = name.rpartition(".")
                return vars(_CLASSES[owner])[name]
            case ["same", int(number)]:
                return self._objects[number]
            case ["bytearray", int(number), data]:
                return self._keep(number, bytearray(decode_run(data, self._long)))
            case ["BytesIO", int(number), data]:
                stream = self._keep(number, BytesIO())
                stream.write(decode_run(data, self._long))
                return stream
            case [("list" | "deque" | "set") as kind, int(number), [*items]]:
                collection = self._keep(number, _COLLECTIONS[kind]())
                add = collection.add if kind == "set" else collection.append
                for item in items:
                    add(self.read(item))
                return collection
            case ["dict", int(number), [*pairs]]:
                mapping = self._keep(number, dict[Any, Any]())
                for key, item in pairs:
                    mapping[self.read(key)] = self.read(item)
                return mapping
            case [str(name), int(number), attributes]:
                return self._read_instance(_CLASSES[name], number, attributes)
            case _:
                raise StateError("not a value")

    def _read_instance(self, kind: type, number: int, attributes: dict[str, Any]) -> Any:
        instance = self._keep(number, object.__new__(kind))
        for name, value in attributes.items():
            setattr(instance, name, self.read(value))
        if hasattr(kind, "TRANSIENT"):
            instance.begin()
        return instance

    def _keep(self, number: int, instance: Any) -> Any:
        """Remember a shared object under its number."""
        self._objects[number] = instance
        return instance


_COLLECTIONS: Final[dict[str, Callable[[], Any]]] = {"list": list, "deque": deque, "set": set}


def _attribute_names(instance: object) -> list[str]:
    """Return the names of the attributes that an instance has."""
    slots = [name for kind in type(instance).__mro__ for name in getattr(kind, "__slots__", ())]
    return [name for name in (*slots, *getattr(instance, "__dict__", ())) if hasattr(instance, name)]


def _bound_method(owner: object, name: str) -> Any:
    if _CLASSES.get(type(owner).__qualname__) is not type(owner):
        raise StateError("a method of something else")
    return MethodType(vars(type(owner))[name], owner)
