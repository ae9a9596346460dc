"""Estimate the work of validating a value against a schema, before validating it.

Peers choose the value and the schema, and a running validator cannot be stopped. A schema with branching
references can double the work with every reference; a recursive schema can double it with every level of the
value. So the schema is surveyed first. For a value that is nested ``k`` levels deep, ``Effort.steps(k)`` is
an upper bound of the number of subschemas that are tried on the way from the value's root to one of its
leaves.

If a schema cannot be used, ``survey`` returns the reason instead of an effort: the schema exceeds a limit,
refers to another document or to nothing, has a reference of an unsupported kind or a subschema of another
dialect, has references that form a cycle on the same value, or has references and a subschema with an id of
its own.
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.schema.dialects import DEFINITIONS, SAME_VALUE, WITH_SUBSCHEMAS, Dialect, keywords
from mcpproxy.protocol.schema.references import target_of_path
from mcpproxy.protocol.wording import shown

MAX_SCHEMAS: Final = 5_000
MAX_DEPTH: Final = 100
"""The limits for the number of subschemas and for their depth. Larger schemas are not used."""

COUNT_LIMIT: Final = 10**9
"""The number of steps at which counting stops."""


@slotted()
class _Node:
    """One subschema, and the subschemas in it, grouped by the part of the value that they apply to.

    The subschemas in ``same_value`` apply to the same value. A subschema in ``by_name`` applies to one
    property, a subschema in ``any_part`` to any property or item.
    """

    weight: int = 1  # the steps of the subschema alone
    same_value: "list[_Node]" = field(default_factory=list["_Node"])
    by_name: "list[_Node]" = field(default_factory=list["_Node"])
    any_part: "list[_Node]" = field(default_factory=list["_Node"])
    tries_twice: bool = False  # unevaluatedProperties or unevaluatedItems tries ``same_value`` again
    steps: int = 1


class Effort:
    """The result of a survey.

    ``has_patterns`` is set if the schema searches strings, so that their length counts as work.
    ``has_choices`` is set if the schema has an anyOf or oneOf, whose failures take long to explain. ``order``
    lists all nodes, each after the nodes in its ``same_value``.
    """

    def __init__(self, root: _Node, order: list[_Node], *, has_patterns: bool, has_choices: bool) -> None:
        self.has_patterns: Final = has_patterns
        self.has_choices: Final = has_choices
        self._root = root
        self._order = order
        self._steps_by_depth = [0]
        self._is_constant = False  # deeper values take as many steps as the deepest computed so far

    def steps(self, depth: int) -> int:
        """Return the maximum number of schemas tried on one path in a value that is ``depth`` levels deep.

        The result is at most ``COUNT_LIMIT``.
        """
        while len(self._steps_by_depth) <= depth and not self._is_constant:
            self._add_depth()
        return self._steps_by_depth[min(depth, len(self._steps_by_depth) - 1)]

    def _add_depth(self) -> None:
        """Compute the steps for values that are one level deeper, from the steps computed last."""
        # The first depth is 1: such a value has no parts, so no steps are needed for them.
        previous = [node.steps if len(self._steps_by_depth) > 1 else 0 for node in self._order]
        shallower = {id(node): steps for node, steps in zip(self._order, previous, strict=True)}
        for node in self._order:
            on_value = sum(child.steps for child in node.same_value)
            on_parts = max((shallower[id(child)] for child in node.by_name), default=0)
            on_parts += sum(shallower[id(child)] for child in node.any_part)
            on_value = 2 * on_value if node.tries_twice else on_value
            node.steps = min(COUNT_LIMIT, node.weight + on_value + on_parts)
        self._is_constant = previous == [node.steps for node in self._order]
        self._steps_by_depth.append(self._root.steps)


def survey(schema: JSONObject, dialect: Dialect) -> Effort | str:
    """Return the effort that ``schema`` takes; if it cannot be used, a clause that says why."""
    return _Survey(schema, dialect).effort()


class _Survey:
    """Visits the subschemas of one schema and makes the graph of nodes that ``Effort`` counts."""

    def __init__(self, schema: JSONObject, dialect: Dialect) -> None:
        self._schema = schema
        self._table = keywords(dialect)
        self._dialect_uri = schema.get("$schema")
        self._id_keyword = "id" if dialect == "draft-04" else "$id"
        self._nodes: dict[int, _Node] = {}
        self._has_patterns = self._has_choices = self._has_reference = self._has_inner_id = False

    def effort(self) -> Effort | str:
        """Visit all subschemas that values may be checked against; return the effort or the reason."""
        root = _Node()
        self._nodes[id(self._schema)] = root
        todo = [(self._schema, root, 0)]
        while todo:
            schema, node, depth = todo.pop()
            if len(self._nodes) > MAX_SCHEMAS or depth > MAX_DEPTH:
                return f"it has more than {MAX_SCHEMAS} subschemas or {MAX_DEPTH} levels of them"
            if not self._is_supported(schema):
                return "it has a $recursiveRef, or a subschema of another dialect"
            node.weight = 1 + sum(_length(schema.get(keyword)) for keyword in _COUNTED_KEYWORDS)
            node.tries_twice = "unevaluatedProperties" in schema or "unevaluatedItems" in schema
            self._has_patterns |= "pattern" in schema or "patternProperties" in schema
            self._has_choices |= "anyOf" in schema or "oneOf" in schema
            for keyword in ("$ref", "$dynamicRef"):
                if keyword not in schema:
                    continue
                find_target = self._target if keyword == "$ref" else self._dynamic_target
                target = find_target(schema[keyword])
                if target is None:
                    return f"its {keyword} {shown(schema[keyword])} cannot be followed"
                self._has_reference = True
                if isinstance(target, dict):
                    # The depth starts again at 0, because MAX_SCHEMAS already limits chains of references.
                    self._add_edge(node.same_value, target, 0, todo)
            for edges, child in self._children(schema, node):
                self._add_edge(edges, child, depth + 1, todo)
        if self._has_reference and self._has_inner_id:
            # An id in a subschema changes the meaning of references in that subschema.
            return f"it has references, and a subschema with its own {self._id_keyword}"
        order = self._topological_order()
        if order is None:
            return "its references form a cycle"
        return Effort(root, order, has_patterns=self._has_patterns, has_choices=self._has_choices)

    def _add_edge(
        self,
        edges: list[_Node],
        schema: JSONObject,
        depth: int,
        todo: list[tuple[JSONObject, _Node, int]],
    ) -> None:
        """Add the node of ``schema`` to ``edges``; if the node is new, also add it to ``todo``."""
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = _Node()
            todo.append((schema, node, depth))
        edges.append(node)

    def _is_supported(self, schema: JSONObject) -> bool:
        """Whether a subschema has the root's dialect and no ``$recursiveRef``. Notes an id of its own."""
        if schema is not self._schema:
            self._has_inner_id |= self._id_keyword in schema
            if "$schema" in schema and schema["$schema"] != self._dialect_uri:
                return False
        return "$recursiveRef" not in schema

    def _local_reference(self, reference: str) -> str:
        """Return the fragment of ``reference`` if it names this document by its id; else ``reference``."""
        document_id = self._schema.get(self._id_keyword)
        if not isinstance(document_id, str) or "#" in document_id:
            return reference
        from urllib.parse import urljoin  # imported here: it takes 3 ms, and few sessions need it

        try:
            document, _, fragment = urljoin(document_id, reference).partition("#")
        except ValueError:
            return reference
        return f"#{fragment}" if document == document_id else reference

    def _dynamic_target(self, reference: JSON) -> JSONObject | bool | None:
        """Return the schema that a dynamic reference names, by path or anchor; ``None`` if none is there.

        It is ``None``, too, if several subschemas have the anchor: then the meaning depends on the path to
        the reference.
        """
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        if reference == "#" or reference.startswith("#/"):
            return self._target(reference)
        targets = [item for item in _objects(self._schema) if item.get("$dynamicAnchor") == reference[1:]]
        return targets[0] if len(targets) == 1 else None

    def _target(self, reference: JSON) -> JSONObject | bool | None:
        """Return the schema that a reference names; ``None`` if the reference is no path in this document, or
        if no schema is there."""
        if not isinstance(reference, str):
            return None
        if not reference.startswith("#"):
            reference = self._local_reference(reference)
        if not reference.startswith("#"):
            return None
        target = target_of_path(self._schema, reference)
        return target if isinstance(target, dict | bool) else None

    def _children(self, schema: JSONObject, node: _Node) -> Iterator[tuple[list[_Node], JSONObject]]:
        """Yield the direct subschemas of ``schema``, each with the list of ``node`` to add it to."""
        for keyword, value in schema.items():
            value_kind = self._table.get(keyword)
            if value_kind not in WITH_SUBSCHEMAS or keyword in DEFINITIONS:
                continue
            edges = node.same_value if keyword in SAME_VALUE else node.any_part
            if keyword == "properties":
                edges = node.by_name
            if isinstance(value, list):
                children = value
            elif value_kind in ("map", "either") and isinstance(value, dict):
                children = list(value.values())
            else:
                children = [value]
            yield from ((edges, child) for child in children if isinstance(child, dict))

    def _topological_order(self) -> list[_Node] | None:
        """Return all nodes, each after those in its ``same_value``; ``None`` if there is a cycle."""
        order: list[_Node] = []
        finished: dict[int, bool] = {}  # by the id of a node; false while it is on the stack
        for start in self._nodes.values():
            stack = [(start, iter(start.same_value))] if id(start) not in finished else []
            finished.setdefault(id(start), False)
            while stack:
                node, children = stack[-1]
                child = next(children, None)
                if child is None:
                    finished[id(node)] = True
                    order.append(node)
                    stack.pop()
                elif id(child) not in finished:
                    finished[id(child)] = False
                    stack.append((child, iter(child.same_value)))
                elif not finished[id(child)]:
                    return None
        return order


def _objects(value: JSON) -> Iterator[JSONObject]:
    """Yield every JSON object in a schema, subschemas and other objects alike."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield item
            todo += item.values()
        elif isinstance(item, list):
            todo += item


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
