"""Find the value that a reference in a JSON Schema names.

Source: JSON Schema 2020-12 Core § 8.2.3.1, and RFC 6901 § 6 for a JSON Pointer in a fragment.
"""

from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent
from mcpproxy.protocol.wording import pointer_steps


def target_of_path(document: JSON, reference: str) -> "JSON | Absent | None":
    """Return the value that ``#`` or ``#/$defs/name`` names in ``document``; ``ABSENT`` if there is none.

    It is ``None`` if the fragment is the name of an anchor, which is not a path, or if the value is null.
    """
    from urllib.parse import unquote  # imported here: it takes 3 ms, and few sessions need it

    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None
    target = document
    for name in pointer_steps(pointer):
        if isinstance(target, dict) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isascii() and name.isdigit() and len(name) < 6:
            if int(name) >= len(target):
                return ABSENT
            target = target[int(name)]
        else:
            return ABSENT
    return target
