"""Estimate the work of validating a value against a schema before it is done.

Peers write both. References that fan out double the work with every step, schemas that meet themselves
double it with every level of the value, and a validator once started cannot be told to stop. So the
schema is walked first: for a value that nests ``k`` levels deep, ``Effort.steps(k)`` bounds how often
any schema is tried on the way from its root to one of its leaves.

``survey`` refuses a schema that cannot be judged from what stands in it: a reference that leads
elsewhere, an unknown kind of reference, one that only comes back to itself.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.schema.dialects import IN_PLACE, SHELVES, Dialect, keywords

MAX_SCHEMAS: Final = 5_000
MAX_DEPTH: Final = 100
"""Subschemas of one schema, and how deep they nest; what is beyond is not judged."""

MUCH: Final = 10**9
"""Counting stops at this number."""


@slotted()
class _Node:
    """One subschema: what it tries on the same value, on a member by name, and on any part of it."""

    weight: int = 1
    here: "list[_Node]" = field(default_factory=list["_Node"])
    named: "list[_Node]" = field(default_factory=list["_Node"])
    parts: "list[_Node]" = field(default_factory=list["_Node"])
    doubled: bool = False  # unevaluated… looks at everything here a second time
    steps: int = 1


class Effort:
    """What a survey found.

    ``patterns``: texts are searched, so their length counts. ``choices``: there is an anyOf or a
    oneOf, whose failures take long to explain.
    """

    def __init__(self, root: _Node, order: list[_Node], *, patterns: bool, choices: bool) -> None:
        self.patterns: Final = patterns
        self.choices: Final = choices
        self._root = root
        self._order = order
        self._by_depth = [0]
        self._settled = False

    def steps(self, depth: int) -> int:
        """At most so many schemas are tried along one path of a value that nests ``depth`` levels."""
        while len(self._by_depth) <= depth and not self._settled:
            self._go_deeper()
        return self._by_depth[min(depth, len(self._by_depth) - 1)]

    def _go_deeper(self) -> None:
        before = [node.steps if len(self._by_depth) > 1 else 0 for node in self._order]
        shallower = {id(node): steps for node, steps in zip(self._order, before, strict=True)}
        for node in self._order:
            here = sum(other.steps for other in node.here)
            below = max((shallower[id(other)] for other in node.named), default=0)
            below += sum(shallower[id(other)] for other in node.parts)
            node.steps = min(MUCH, node.weight + (2 * here if node.doubled else here) + below)
        self._settled = before == [node.steps for node in self._order]
        self._by_depth.append(self._root.steps)


def survey(schema: JSONObject, dialect: Dialect) -> Effort | None:
    """Return the effort that ``schema`` takes, ``None`` if it cannot be judged."""
    return _Survey(schema, dialect).effort()


class _Survey:
    def __init__(self, schema: JSONObject, dialect: Dialect) -> None:
        self._schema = schema
        self._table = keywords(dialect)
        self._dialect_uri = schema.get("$schema")
        self._id = "id" if dialect == "draft-04" else "$id"
        self._nodes: dict[int, _Node] = {}
        self._patterns = self._choices = self._refers = self._renamed = False

    def effort(self) -> Effort | None:
        root = _Node()
        self._nodes[id(self._schema)] = root
        todo = [(self._schema, root, 0)]
        while todo:
            schema, node, depth = todo.pop()
            if len(self._nodes) > MAX_SCHEMAS or depth > MAX_DEPTH or not self._plain(schema):
                return None
            node.weight = 1 + sum(_length(schema.get(keyword)) for keyword in _GONE_THROUGH)
            node.doubled = "unevaluatedProperties" in schema or "unevaluatedItems" in schema
            self._patterns |= "pattern" in schema or "patternProperties" in schema
            self._choices |= "anyOf" in schema or "oneOf" in schema
            for keyword in ("$ref", "$dynamicRef"):
                if keyword not in schema:
                    continue
                target = (
                    self._target(schema[keyword]) if keyword == "$ref" else self._dynamic(schema[keyword])
                )
                if target is None:
                    return None
                self._refers = True
                if isinstance(target, dict):
                    # A reference starts anew: how deep a chain of them goes, its number bounds.
                    self._join(node.here, target, 0, todo)
            for edges, child in self._children(schema, node):
                self._join(edges, child, depth + 1, todo)
        if self._refers and self._renamed:
            return None  # A name in the middle changes what references mean.
        order = self._inside_out()
        if order is None:
            return None
        return Effort(root, order, patterns=self._patterns, choices=self._choices)

    def _join(
        self,
        edges: list[_Node],
        schema: JSONObject,
        depth: int,
        todo: list[tuple[JSONObject, _Node, int]],
    ) -> None:
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = _Node()
            todo.append((schema, node, depth))
        edges.append(node)

    def _plain(self, schema: JSONObject) -> bool:
        """Whether a subschema is of the root's dialect and has no references of the rarest kind."""
        if schema is not self._schema:
            self._renamed |= self._id in schema
            if "$schema" in schema and schema["$schema"] != self._dialect_uri:
                return False
        return "$recursiveRef" not in schema

    def _within(self, reference: str) -> str:
        """The fragment of a reference that names this document by its own id; otherwise the reference."""
        own = self._schema.get(self._id)
        if not isinstance(own, str) or "#" in own:
            return reference
        from urllib.parse import urljoin  # 3 ms, which most sessions are spared

        try:
            document, _, fragment = urljoin(own, reference).partition("#")
        except ValueError:
            return reference
        return f"#{fragment}" if document == own else reference

    def _dynamic(self, reference: JSON) -> JSONObject | bool | None:
        """The schema that a dynamic reference names: in one document, the one with that anchor.

        Several schemas may have the anchor; which is meant then depends on the way to the reference.
        """
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        if reference == "#" or reference.startswith("#/"):
            return self._target(reference)
        found = [one for one in _objects(self._schema) if one.get("$dynamicAnchor") == reference[1:]]
        return found[0] if len(found) == 1 else None

    def _target(self, reference: JSON) -> JSONObject | bool | None:
        """The schema that a reference within the document names."""
        if not isinstance(reference, str):
            return None
        if not reference.startswith("#"):
            reference = self._within(reference)
        if not reference.startswith("#"):
            return None
        found: JSON = self._schema
        if reference != "#":
            from urllib.parse import unquote  # 3 ms, which most sessions are spared

            first, *names = unquote(reference[1:]).split("/")
            if first:
                return None  # a plain name
            for name in names:
                name = name.replace("~1", "/").replace("~0", "~")
                if isinstance(found, dict) and name in found:
                    found = found[name]
                elif isinstance(found, list) and name.isascii() and name.isdigit() and len(name) < 6:
                    found = found[int(name)] if int(name) < len(found) else None
                else:
                    return None
        return found if isinstance(found, dict | bool) else None

    def _children(self, schema: JSONObject, node: _Node) -> Iterator[tuple[list[_Node], JSONObject]]:
        for keyword, value in schema.items():
            takes = self._table.get(keyword)
            if takes not in _HOLDS_SCHEMAS or keyword in SHELVES:
                continue
            edges = node.here if keyword in IN_PLACE else node.parts
            if keyword == "properties":
                edges = node.named
            if isinstance(value, list):
                found = value
            elif takes in ("map", "either") and isinstance(value, dict):
                found = list(value.values())
            else:
                found = [value]
            yield from ((edges, child) for child in found if isinstance(child, dict))

    def _inside_out(self) -> list[_Node] | None:
        """All nodes, each after those that it tries on the same value; ``None`` if they go in circles."""
        order: list[_Node] = []
        state: dict[int, bool] = {}  # False while a node is being gone through
        for start in self._nodes.values():
            stack = [(start, iter(start.here))] if id(start) not in state else []
            state.setdefault(id(start), False)
            while stack:
                node, others = stack[-1]
                other = next(others, None)
                if other is None:
                    state[id(node)] = True
                    order.append(node)
                    stack.pop()
                elif id(other) not in state:
                    state[id(other)] = False
                    stack.append((other, iter(other.here)))
                elif not state[id(other)]:
                    return None
        return order


def _objects(value: JSON) -> Iterator[JSONObject]:
    """Every object in a schema, whatever it stands for."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            yield one
            todo += one.values()
        elif isinstance(one, list):
            todo += one


def _length(value: JSON) -> int:
    return len(value) if isinstance(value, dict | list) else 0


_GONE_THROUGH: Final = (
    "enum",
    "required",
    "properties",
    "patternProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
)
"""Keywords that hold many things, each of which is looked for."""

_HOLDS_SCHEMAS: Final = ("schema", "schema?", "schemas", "items", "map", "either")
