"""Read values from the JSON of a dialect (a model's interface); a value may be missing or of another type."""

import hashlib
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from mcpproxy.model.turns import Content, ContentKind, ModelCall
from mcpproxy.protocol.jsonrpc import JSON, Flaw, JSONObject, read
from mcpproxy.protocol.message_parts import as_object, text_member

_TO_STANDARD: Final = str.maketrans("-_", "+/")

_KIND_OF_MEDIA: Final[dict[str, ContentKind]] = {"image": "image", "audio": "audio"}


def objects(value: JSON, pointer: str = "") -> Iterator[tuple[str, JSONObject]]:
    """Yield the objects in the array at ``pointer``, each with its own; nothing if ``value`` is no array."""
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if (found := as_object(item)) is not None:
            yield f"{pointer}/{index}", found


def first_object(value: JSON) -> JSONObject:
    """Return the first object in an array; an empty object if there is none."""
    nothing: JSONObject = {}
    return next((found for _, found in objects(value)), nothing)


def text_of(value: JSONObject, *names: str) -> str:
    """Return the first member in ``names`` that is a string; an empty string if none is."""
    return next((text for name in names if (text := text_member(value, name)) is not None), "")


def first_of(value: JSONObject, *names: str) -> JSON:
    """Return the first member in ``names`` that is present and not null; ``None`` if there is none.

    Some clients write member names in snake_case, others in camelCase.
    """
    return next((found for name in names if (found := value.get(name)) is not None), None)


def model_call(name: str, arguments: JSON, pointer: str, id: str = "", namespace: str = "") -> ModelCall:
    """Return a call. ``arguments`` is a JSON value, or a string that contains one.

    ``None`` and a blank string become ``{}``. A string that is not JSON is kept, and ``is_json`` is false.
    """
    if not isinstance(arguments, str):
        return ModelCall(name, {} if arguments is None else arguments, pointer, id, namespace)
    value = read(arguments.encode("utf-8", "surrogatepass")) if arguments.strip() else {}
    if isinstance(value, Flaw):
        return ModelCall(name, arguments, pointer, id, namespace, is_json=False)
    return ModelCall(name, value, pointer, id, namespace)


def blob(data: str, mime: str) -> Content:
    """Return the content of ``data``, base64 of the media type ``mime``.

    It has no size and no digest if ``data`` cannot be decoded.
    """
    kind = _KIND_OF_MEDIA.get(mime.partition("/")[0], "file")
    raw = decoded(data)
    if raw is None:
        return Content(kind, mime=mime)
    return Content(kind, mime=mime, size=len(raw), digest=hashlib.sha256(raw).hexdigest())


def decoded(data: str) -> bytes | None:
    """Decode base64 in either alphabet, with or without padding.

    ASCII characters of neither alphabet are skipped. Return ``None`` if the rest cannot be decoded.
    """
    standard = data.translate(_TO_STANDARD)
    try:
        return b64decode(standard + "=" * (-len(standard) % 4))
    except ValueError:
        return None


def data_url(url: str, kind: ContentKind) -> Content:
    """Return the content of a ``data:`` URL (RFC 2397); for any other URL or a file's id, a reference to it.

    Data that is not in base64 is not decoded: its content is of the kind ``kind``.
    """
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return Content("reference", url)
    mime, _, encoding = head.removeprefix("data:").rpartition(";")
    return blob(data, mime) if encoding == "base64" else Content(kind, mime=mime)


def number(value: JSONObject, name: str) -> int:
    """Return the member ``name`` if it is an integer; otherwise 0."""
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
