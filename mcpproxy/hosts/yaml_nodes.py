"""Read YAML into nodes. ruamel.yaml is used only for reading, because writing with it changes some files."""

from typing import Any, Final, cast

from mcpproxy.hosts.errors import UnreadableTextError
from mcpproxy.hosts.text_nodes import Member, Node, Scalar

_CORE: Final = "tag:yaml.org,2002:"
"""The beginning of the tags of the types that YAML itself defines."""


def read_yaml(text: str) -> Node:
    """Return the value of the single document in ``text``; null if there is none.

    Raises:
        UnreadableTextError: ``text`` is not YAML, or has several documents.
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


def _node(parsed: Any, anchored_ids: set[int], text: str) -> Node:
    """Return the node for ruamel.yaml's node ``parsed``.

    ``anchored_ids`` has the ids of the nodes with an anchor so far. An alias is such a node again; it becomes
    a shared node without content.
    """
    node = Node(parsed.start_mark.index, parsed.end_mark.index, is_shared=parsed.anchor is not None)
    if id(parsed) in anchored_ids:  # an alias, perhaps of a value around it
        return node
    if parsed.anchor is not None:
        anchored_ids.add(id(parsed))
    if parsed.id == "mapping":
        node.members = {}
        for key, value in parsed.value:
            name = key.value if key.id == "scalar" else ""
            value_node = _node(value, anchored_ids, text)
            # For an empty value, the parser may give the position of the next key.
            if value_node.start == value_node.end:
                value_node.start = value_node.end = (
                    text.find(":", key.end_mark.index, value_node.end) + 1 or value_node.end
                )
            node.members[str(name)] = Member(key.start_mark.index, value_node)
    elif parsed.id == "sequence":
        node.items = [_node(item, anchored_ids, text) for item in parsed.value]
        node.is_block = not parsed.flow_style
    else:
        node.scalar = _scalar(str(parsed.tag), str(parsed.value))
    return node


def _scalar(tag: str, value: str) -> Scalar:
    """Return the value of a scalar of type ``tag``: text, unless null, bool or 1 to 19 decimal digits."""
    match tag.removeprefix(_CORE):
        case "null":
            return None
        case "bool":
            return value.lower() == "true"
        case "int" if value.isdecimal() and len(value) < 20:
            return int(value)
        case _:
            return value
