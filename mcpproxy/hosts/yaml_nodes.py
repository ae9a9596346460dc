"""YAML with places. ruamel.yaml reads it, and only reads: it does not write every file back as it was."""

from typing import Any, Final, cast

from mcpproxy.hosts.text_nodes import Member, Node, Scalar
from mcpproxy.hosts.unreadable import UnreadableTextError

_CORE: Final = "tag:yaml.org,2002:"


def read_yaml(text: str) -> Node:
    """Return the value of the one document that ``text`` holds.

    Raises:
        UnreadableTextError: it is not YAML, or holds several documents.
    """
    from ruamel.yaml import YAML  # only a host with YAML needs it
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        root = cast("Any", YAML(typ="rt", pure=True)).compose(text)
        if root is None:
            return Node(len(text), len(text))
        return _node(root, set(), text)
    except MarkedYAMLError as error:
        fault = cast("Any", error)  # its members have no types
        mark = fault.problem_mark or fault.context_mark
        raise UnreadableTextError(mark.index if mark else 0, str(fault.problem or fault.context)) from None
    except (YAMLError, RecursionError, ValueError) as fault:
        place = getattr(fault, "position", 0)
        raise UnreadableTextError(place, str(fault).splitlines()[0] or "not YAML") from None


def _node(found: Any, met: set[int], text: str) -> Node:
    node = Node(found.start_mark.index, found.end_mark.index, is_shared=found.anchor is not None)
    if id(found) in met:  # an alias, perhaps of what it stands in
        return node
    if found.anchor is not None:
        met.add(id(found))
    if found.id == "mapping":
        node.members = {}
        for key, value in found.value:
            name = key.value if key.id == "scalar" else ""
            inner = _node(value, met, text)
            if inner.start == inner.end:  # nothing: the parser says where the next value is
                inner.start = inner.end = text.find(":", key.end_mark.index, inner.end) + 1 or inner.end
            node.members[str(name)] = Member(key.start_mark.index, inner)
    elif found.id == "sequence":
        node.items = [_node(item, met, text) for item in found.value]
        node.is_block = not found.flow_style
    else:
        node.scalar = _scalar(str(found.tag), str(found.value))
    return node


def _scalar(tag: str, value: str) -> Scalar:
    match tag.removeprefix(_CORE):
        case "null":
            return None
        case "bool":
            return value.lower() == "true"
        case "int" if value.isdecimal() and len(value) < 20:
            return int(value)
        case _:
            return value
