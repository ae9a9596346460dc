"""Estimate the work of validating a value against a schema, before it is done.

Peers write both. References that branch double the work with every step, recursive schemas double it with
every level of the value, and a running validator cannot be stopped. So the schema is walked first: for a
value that is nested ``k`` levels deep, ``Effort.steps(k)`` is an upper bound of the number of schemas that
are tried on the way from its root to one of its leaves.

``survey`` returns ``None`` for a schema that does not define by itself what is valid: one with a reference to
another document, a reference of an unknown kind, or a reference that leads back to itself on the same value.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.schema.dialects import DEFINITIONS, SAME_VALUE, Dialect, keywords

MAX_SCHEMAS: Final = 5_000
MAX_DEPTH: Final = 100
"""Bounds: the number of subschemas of a schema, and their depth. Larger schemas are not used."""

COUNT_LIMIT: Final = 10**9
"""Counting stops at this number."""


@slotted()
class _Node:
    """One subschema, and the subschemas that it applies to parts of its value.

    ``here``: to the same value; ``named``: to the member of a name; ``parts``: to any member or item.
    """

    weight: int = 1
    here: "list[_Node]" = field(default_factory=list["_Node"])
    named: "list[_Node]" = field(default_factory=list["_Node"])
    parts: "list[_Node]" = field(default_factory=list["_Node"])
    doubled: bool = False  # unevaluatedProperties or unevaluatedItems tries everything here a second time
    steps: int = 1


class Effort:
    """The result of a survey.

    ``patterns`` is whether strings are searched, so that their length counts. ``choices`` is whether there is
    an anyOf or a oneOf, whose failures take long to explain.
    """

    def __init__(self, root: _Node, order: list[_Node], *, patterns: bool, choices: bool) -> None:
        self.patterns: Final = patterns
        self.choices: Final = choices
        self._root = root
        self._order = order
        self._by_depth = [0]
        self._settled = False

    def steps(self, depth: int) -> int:
        """Return how many schemas are tried at most on one path of a value that is ``depth`` levels deep."""
        while len(self._by_depth) <= depth and not self._settled:
            self._add_depth()
        return self._by_depth[min(depth, len(self._by_depth) - 1)]

    def _add_depth(self) -> None:
        before = [node.steps if len(self._by_depth) > 1 else 0 for node in self._order]
        shallower = {id(node): steps for node, steps in zip(self._order, before, strict=True)}
        for node in self._order:
            here = sum(other.steps for other in node.here)
            below = max((shallower[id(other)] for other in node.named), default=0)
            below += sum(shallower[id(other)] for other in node.parts)
            node.steps = min(COUNT_LIMIT, node.weight + (2 * here if node.doubled else here) + below)
        self._settled = before == [node.steps for node in self._order]
        self._by_depth.append(self._root.steps)


def survey(schema: JSONObject, dialect: Dialect) -> Effort | None:
    """Return the effort that ``schema`` takes; ``None`` if values cannot be checked against it."""
    return _Survey(schema, dialect).effort()


class _Survey:
    def __init__(self, schema: JSONObject, dialect: Dialect) -> None:
        self._schema = schema
        self._table = keywords(dialect)
        self._dialect_uri = schema.get("$schema")
        self._id = "id" if dialect == "draft-04" else "$id"
        self._nodes: dict[int, _Node] = {}
        self._patterns = self._choices = self._has_reference = self._has_inner_id = False

    def effort(self) -> Effort | None:
        root = _Node()
        self._nodes[id(self._schema)] = root
        todo = [(self._schema, root, 0)]
        while todo:
            schema, node, depth = todo.pop()
            if len(self._nodes) > MAX_SCHEMAS or depth > MAX_DEPTH or not self._is_supported(schema):
                return None
            node.weight = 1 + sum(_length(schema.get(keyword)) for keyword in _COUNTED_KEYWORDS)
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
                self._has_reference = True
                if isinstance(target, dict):
                    # The depth starts again at 0: the number of schemas bounds a chain of references.
                    self._add_edge(node.here, target, 0, todo)
            for edges, child in self._children(schema, node):
                self._add_edge(edges, child, depth + 1, todo)
        if self._has_reference and self._has_inner_id:
            return None  # An id in a subschema changes what references in it mean.
        order = self._topological_order()
        if order is None:
            return None
        return Effort(root, order, patterns=self._patterns, choices=self._choices)

    def _add_edge(
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

    def _is_supported(self, schema: JSONObject) -> bool:
        """Whether a subschema has the root's dialect and no reference of the kind ``$recursiveRef``."""
        if schema is not self._schema:
            self._has_inner_id |= self._id in schema
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
        """Return the schema that a reference names; ``None`` if it is not a path in this document."""
        if not isinstance(reference, str):
            return None
        if not reference.startswith("#"):
            reference = self._within(reference)
        if not reference.startswith("#"):
            return None
        found: JSON = self._schema
        if reference != "#":
            from urllib.parse import unquote  # Imported here: it takes 3 ms, and few sessions need it.

            first, *names = unquote(reference[1:]).split("/")
            if first:
                return None  # a plain name, which is not a path
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
            if takes not in _HOLDS_SCHEMAS or keyword in DEFINITIONS:
                continue
            edges = node.here if keyword in SAME_VALUE else node.parts
            if keyword == "properties":
                edges = node.named
            if isinstance(value, list):
                found = value
            elif takes in ("map", "either") and isinstance(value, dict):
                found = list(value.values())
            else:
                found = [value]
            yield from ((edges, child) for child in found if isinstance(child, dict))

    def _topological_order(self) -> list[_Node] | None:
        """Return all nodes, each after those it tries on the same value; ``None`` if there is a cycle."""
        order: list[_Node] = []
        finished: dict[int, bool] = {}  # by the id of a node; false while it is on the stack
        for start in self._nodes.values():
            stack = [(start, iter(start.here))] if id(start) not in finished else []
            finished.setdefault(id(start), False)
            while stack:
                node, others = stack[-1]
                other = next(others, None)
                if other is None:
                    finished[id(node)] = True
                    order.append(node)
                    stack.pop()
                elif id(other) not in finished:
                    finished[id(other)] = False
                    stack.append((other, iter(other.here)))
                elif not finished[id(other)]:
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


_COUNTED_KEYWORDS: Final = (
    "enum",
    "required",
    "properties",
    "patternProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
)
"""Keywords whose validation takes a step for each of their entries."""

_HOLDS_SCHEMAS: Final = ("schema", "schema?", "schemas", "items", "map", "either")
