"""Mask credentials before anything is written or judged.

Unless the user wants to keep credentials, these are masked:

- header fields whose names say that they are secrets (``mcpproxy.base.secret_names``), such as Cookie and
  Mcp-Session-Id; the scheme of Authorization and Proxy-Authorization stays;
- header fields that the START record, the first of the relay's journal, lists as secrets;
- users and secret parameters of URLs: in request targets, and in header fields that contain URLs (Location,
  Content-Location, Referer, Link, Refresh);
- form fields, parts of multipart bodies and JSON members at any depth whose names say that they are secrets,
  in bodies that are not JSON-RPC messages, such as those to and from an authorization server;
- everything that may be a session id in the URL of an ``endpoint`` event (HTTP+SSE transport), as a parameter
  of any name or in the path, and the same values in the targets of later requests;
- a session id that is repeated in a message on its own connection.

A mask says only the facts about a value that rules need (see ``mcpproxy.judge.session.masked_values``). Equal
values have equal masks within one recording, and different masks in another recording. All other bytes are
unchanged."""

import re
from collections.abc import Iterable
from functools import lru_cache
from math import inf
from typing import Final, Literal, TypeAlias

from mcpproxy.base.patterns import pattern
from mcpproxy.base.secret_names import MAX_NAME_CHARACTERS, credential_kind, names_secret
from mcpproxy.judge.session.frame import Headers
from mcpproxy.judge.session.masked_values import is_masked, mask
from mcpproxy.protocol.jsontext import unescaped

_SCHEME_FIELDS: Final = frozenset({"authorization", "proxy-authorization"})
_URL_FIELDS: Final = frozenset({"location", "content-location", "referer", "link", "refresh"})
_AUTH: Final = pattern(r"(?:^|[-_])auth$")

SECRETS: Final = frozenset(
    {
        "code", "code_verifier", "device_code", "user_code", "client_assertion", "assertion", "id_token_hint",
        "auth", "session", "sid", "pin", "otp", "totp",
    }
)  # fmt: skip
"""Names of credentials in parameters, forms and JSON. Header fields with these names may be harmless."""

_URL_SECRETS: Final = SECRETS | {"key", "pass"}
"""Names of credentials in parameters of URLs. ``key`` and ``pass`` are often harmless in a body."""

_DESCRIBED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Members of a JSON schema: they contain names of properties with their descriptions, not with secrets."""

_PARAMETER: Final = pattern(r"([?&;#])([^=&;?#]*+)=([^&;#\s\"<>]*+)")
_FORM_FIELD: Final = pattern(r"(^\s*+|[&;]\s*+)([^=&;\s]++)=([^&;]*+)")
_USER: Final = pattern(r"(?<=://)[^/?#@\s]+(?=@)")
_STRING: Final = r'"((?:[^"\\]|\\.)*+)(?:"(\s*+:)?|\\?\Z)'
"""A string, and the colon after it if it is the name of a member.

A string that is cut off goes to the end, so that no quote in it is tried again.
"""
_TOKEN: Final = pattern(_STRING + r"|[\[\]{}]", re.DOTALL)
"""A string or a bracket."""

_TOKEN_OR_NUMBER: Final = pattern(_STRING + r'|[\[\]{}]|-?[0-9][^\s,\[\]{}"]*+', re.DOTALL)
"""Matches like ``_TOKEN``, and also a number."""

STEMS: Final = (
    "token", "secret", "pass", "pwd", "pw", "key", "auth", "jwt", "cookie", "credential", "sig", "sess",
    "sid", "code", "assertion", "dpop", "pin", "otp", "\\u",
)  # fmt: skip
"""Every name of a secret contains one of these, or an escape (``\\u``), which can stand for any letter. JSON
that contains none of them is not searched for names."""

_OPENING: Final = pattern(rb"\s*[\[{]")
_BOM: Final = b"\xef\xbb\xbf"
_MESSAGE: Final = pattern(
    rb'\s*+\{\s*+"jsonrpc"\s*+:\s*+"[^"\\]*+"\s*+,\s*+'
    rb'(?:"id"\s*+:\s*+(?:"(?:[^"\\]|\\.)*+"|[^\s",{}\[\]]++)\s*+,\s*+)?"(?:method|result|error)"\s*+:'
)
"""Matches the beginning of most JSON-RPC messages."""

_FIRST_PART: Final = pattern(rb"(?:\r\n)*--([\x20-\x7e]{1,70})\r?\n(?=(?i:content-))")
"""The boundary before the first part of a multipart body."""

_PART_NAME: Final = pattern(
    r'(?i)^content-disposition:[^\r\n]*?;\s*name=(?:"((?:[^"\\]|\\.)*+)"|([^\s;]++))', re.M
)

ID_LENGTH: Final = 12
"""A session id with fewer characters is masked in its own field, but not searched for in other text: text may
equal it by chance, and it is too short to be secret."""

_SEGMENT: Final = pattern(r"(?<=/)(?=(?:[^/?#0-9]*[0-9]){3})[A-Za-z0-9_.~-]{16,}(?=[/?#]|\Z)")
"""A part of a path that looks generated."""

_REMEMBERED: Final = 4096
_LONGEST_ID: Final = 1024
"""How many session ids from URLs are remembered, and how many characters each may have."""

_GROWTH: Final = 2
_ROOM: Final = 4096
"""A body is masked as a whole if masks would add more than ``_GROWTH`` times its length plus ``_ROOM``."""

_MOST_PARTS: Final = 1000
"""In how many parts, with the text before the first, a multipart body is read; the last ones are masked as a
whole."""

_DEEPEST: Final = 1000
"""The nesting depth of JSON down to which the names of objects and arrays are remembered."""

Treatment: TypeAlias = Literal["scheme", "whole", "url", "event", ""]
"""The part of a header field's value that is masked: all but its scheme, the whole value, the secrets in a
URL, a session id in an event's id, or nothing."""

_USUAL_NAME: Final = 64
"""Longer names are not cached."""


@lru_cache(maxsize=512)  # peers choose the names
def _treatment_by_name(name: str) -> Treatment:
    lowered = name.lower()
    if lowered in _SCHEME_FIELDS:
        return "scheme"
    if names_secret(name) or _AUTH.search(lowered):
        return "whole"
    if lowered == "last-event-id":
        return "event"
    return "url" if lowered in _URL_FIELDS else ""


class Masker:
    """Masks the credentials of one recording with its ``key``. With ``keep`` only ``value`` masks anything.

    ``learned`` are session ids from URLs; the masker adds the ids that it finds. ``secret_fields`` are the
    names of header fields that are masked besides those whose names say that they are secrets.
    """

    def __init__(
        self,
        key: bytes,
        *,
        keep: bool = False,
        learned: dict[str, None] | None = None,
        secret_fields: Iterable[str] = (),
    ) -> None:
        self.key = key
        self.keep = keep
        self._secret_fields = frozenset(name.lower() for name in secret_fields)
        self._room = inf  # by how many bytes masks may still lengthen the body
        self._learned: dict[str, None] = {} if learned is None else learned

    @property
    def has_learned(self) -> bool:
        """Whether an ``endpoint`` event has named a session id, so that URLs are searched for it."""
        return bool(self._learned)

    def headers(self, headers: Headers, ids: Iterable[str] = ()) -> Headers:
        """Return header fields with credentials masked, and with ``ids`` masked in Last-Event-ID."""
        if self.keep:
            return headers
        # Most fields are unchanged, so their pairs are reused.
        return tuple(
            [
                field
                if (treatment := self._treatment_of(field[0])) == ""
                else self._mask_field(field, treatment, ids)
                for field in headers
            ]
        )

    def is_credential_field(self, name: str) -> bool:
        """Whether the value of the header field ``name`` is masked, apart from a scheme before it.

        It is false for a field in which only the secrets of a URL or an event id are masked.
        """
        return self._treatment_of(name) in ("whole", "scheme")

    def credentials(self, headers: Headers, target: str) -> list[str]:
        """Return the credentials in the head of a request, except session ids and cookies.

        Cookies are left out because they change all the time.
        """
        fields = [
            (name, value)
            for name, value in headers
            if name.lower() != "cookie" and credential_kind(name) == "all"
        ]
        secrets = [value.strip() for name, value in fields if self._treatment_of(name) == "whole"]
        secrets += [
            value.rpartition(" ")[2] for name, value in fields if self._treatment_of(name) == "scheme"
        ]
        parameters = _PARAMETER.findall(target)
        return secrets + [_unquoted(value) for _, name, value in parameters if _is_secret(name, _URL_SECRETS)]

    def url(self, text: str) -> str:
        """Return a URL, request target or query with its user, secret parameters and session id masked."""
        if self.keep:
            return text
        if "=" in text:
            text = _PARAMETER.sub(self._mask_parameter, text)
        if self._learned:
            text = _SEGMENT.sub(self._mask_segment, text)
        return _USER.sub(lambda match: self.value(match[0]), text) if "@" in text else text

    def endpoint(self, raw: bytes) -> bytes:
        """Return the URL of an ``endpoint`` event, masked, and remember the values that may be session
        ids."""
        text = raw.decode("latin-1")
        if self.keep:
            return raw
        for value in self.ids_in(text):
            if len(value) > _LONGEST_ID:
                continue
            self._learned[value] = None
            if len(self._learned) > _REMEMBERED:
                del self._learned[next(iter(self._learned))]
        masked = self.url(text)
        return raw if masked == text else masked.encode("latin-1")

    def ids_in(self, url: str, *, only_learned: bool = False) -> list[str]:
        """Return what may be session ids in a URL: the values of parameters with at least ``ID_LENGTH``
        characters, and the parts of the path that look generated.

        With ``only_learned``, return only values that were in an ``endpoint`` event.
        """
        if only_learned and not self._learned:
            return []
        values = [value for _, _, value in _PARAMETER.findall(url)] + _SEGMENT.findall(url)
        values = [value.strip() for value in values if len(value) >= ID_LENGTH]
        return [value for value in values if not only_learned or value in self._learned]

    def ids(self, raw: bytes, ids: Iterable[str]) -> bytes:
        """Return a message with the session ids of its connection masked."""
        if not self.keep:
            for id in ids:
                text = id.encode("latin-1", "replace")
                if raw.find(text) >= 0:  # ``find`` takes half the time of ``in``
                    raw = raw.replace(text, str(mask(id, self.key)).encode("ascii"))
        return raw

    def text(self, text: str, ids: Iterable[str]) -> str:
        """Return a text, such as the id of an event, with the session ids of its connection masked."""
        if not self.keep:
            for id in ids:
                if id in text:
                    text = text.replace(id, str(mask(id, self.key)))
        return text

    def body(self, raw: bytes) -> bytes:
        """Return a body, or the data of an event, with credentials masked, unless it is JSON-RPC."""
        if self.keep or (b'"jsonrpc"' in raw and is_jsonrpc(raw)):
            return raw
        self._room = _GROWTH * len(raw) + _ROOM
        try:
            content = raw.removeprefix(_BOM)
            multipart = _FIRST_PART.match(content)
            masked = (
                self._mask_multipart(content, b"--" + multipart[1])
                if multipart
                else self._mask_content(content)
            )
            return raw if masked is content else raw[: len(raw) - len(content)] + masked
        except _TooManyMasks:
            whole = str(mask(raw.decode("latin-1"), self.key)).encode("ascii")
            return b'"%b"' % whole if _OPENING.match(raw) else whole  # a JSON body must remain JSON
        finally:
            self._room = inf

    def _mask_content(self, raw: bytes) -> bytes:
        """Return JSON or a form with credentials masked; anything else unchanged."""
        if _OPENING.match(raw):
            text = raw.decode("utf-8", "surrogateescape")
            masked = self._mask_json(text)
            return raw if masked is text else masked.encode("utf-8", "surrogateescape")
        if b"=" in raw:
            return _FORM_FIELD.sub(self._mask_form_field, raw.decode("latin-1")).encode("latin-1")
        return raw

    def _treatment_of(self, name: str) -> Treatment:
        if name.lower() in self._secret_fields:
            return "whole"
        return (_treatment_by_name if len(name) <= _USUAL_NAME else _treatment_by_name.__wrapped__)(name)

    def _mask_field(
        self, field: tuple[str, str], treatment: Treatment, ids: Iterable[str]
    ) -> tuple[str, str]:
        name, value = field
        if treatment == "scheme":
            scheme, space, credentials = value.partition(" ")
            return name, scheme + space + self.value(credentials) if space else self.value(value)
        if treatment == "whole":
            return name, self.value(value)
        return name, self.url(value) if treatment == "url" else self.text(value, ids)

    def _mask_parameter(self, match: re.Match[str], exact: frozenset[str] = _URL_SECRETS) -> str:
        separator, name, value = match.groups()
        inner = _unquoted(value)
        is_secret = _is_secret(_unquoted(name).strip(), exact) or value in self._learned
        # The value may be a URL, with secret parameters of its own.
        if is_secret or (inner != value and self.url(inner) != inner):
            value = self.value(value)
        return f"{separator}{name}={value}"

    def _mask_form_field(self, match: re.Match[str]) -> str:
        return self._mask_parameter(match, SECRETS)

    def _mask_multipart(self, raw: bytes, boundary: bytes) -> bytes:
        """Mask each part whose head names a secret, and what comes after ``_MOST_PARTS`` parts. Mask the
        content of other parts like a body."""
        masked = raw.split(boundary, _MOST_PARTS)
        for number, part in enumerate(masked):
            for blank_line in (b"\r\n\r\n", b"\n\n"):
                head, separator, content = part.partition(blank_line)
                if separator:
                    break
            else:
                continue
            name = _PART_NAME.search(head.decode("latin-1"))
            end = len(content.rstrip(b"\r\n"))
            content, line_end = content[:end], content[end:]
            is_remainder = number == _MOST_PARTS
            if is_remainder or (name and _is_secret((name[1] or name[2] or "").strip(), SECRETS)):
                content = self.value(content.decode("latin-1")).encode("latin-1")
            else:
                content = self._mask_content(content)
            masked[number] = head + separator + content + line_end
        return boundary.join(masked)

    def _mask_segment(self, match: re.Match[str]) -> str:
        return self.value(match[0]) if match[0] in self._learned else match[0]

    def _mask_json(self, text: str) -> str:
        """Return JSON with the texts and numbers masked that are, or are inside, the value of a secret
        member.

        The mask of a number is a string.
        """
        lowered = text.lower()
        if not any(stem in lowered for stem in STEMS):
            return text
        parts: list[str] = []
        copied = 0
        above: list[str] = []  # the member names of the enclosing objects and arrays, outermost first
        deep = 0  # how many more objects and arrays enclose this place, beyond ``_DEEPEST``
        name = ""  # the name of the next value
        hidden = 0  # the depth of the object or array that is secret as a whole; 0 if none is
        for token in _TOKEN_OR_NUMBER.finditer(text):
            if token[2] is not None:
                name = unescaped(token[1])
                continue
            match token[0][0]:
                case '"':
                    if hidden or (name and _is_secret(name, SECRETS)):
                        parts += (text[copied : token.start(1)], self.value(token[1]))
                        copied = token.end(1)
                case "{" | "[" as opening:
                    is_schema = opening == "{" and bool(above) and above[-1] in _DESCRIBED
                    # The short names in ``SECRETS``, such as session, often name objects without a secret.
                    if name and not (hidden or is_schema) and _names_secret(name):
                        hidden = len(above) + 1
                    if len(above) < _DEEPEST:
                        above.append(name)
                    else:
                        deep += 1
                case "}" | "]":
                    if deep:
                        deep -= 1
                    elif above:
                        above.pop()
                    hidden = hidden if len(above) >= hidden else 0
                case _ if hidden or (name and name.lower() != "code" and _is_secret(name, SECRETS)):
                    # A numeric ``code`` is an error code: authorization codes are texts.
                    parts += (text[copied : token.start()], f'"{self.value(token[0])}"')
                    copied = token.end()
                case _:
                    pass
            name = ""
        return "".join((*parts, text[copied:])) if parts else text

    def value(self, value: str) -> str:
        """Return ``value``, masked as a whole, unless it is empty or already a mask.

        Raises:
            _TooManyMasks: a body is being masked, and its masks would need too many bytes.
        """
        if not value or is_masked(value):
            return value
        masked = str(mask(value, self.key))
        self._room -= len(masked) - len(value)
        if self._room < 0:
            raise _TooManyMasks
        return masked


class _TooManyMasks(Exception):  # noqa: N818 # not an error: ``body`` catches it
    """So many short values are secrets that their masks would make the body several times as long."""


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote  # takes 2 ms to import, and few parameters need it

    return unquote(text)


def _is_secret(name: str, exact: frozenset[str]) -> bool:
    return name.lower() in exact or _names_secret(name)


def _names_secret(name: str) -> bool:
    return len(name) <= MAX_NAME_CHARACTERS and _cached_names_secret(name)


_cached_names_secret: Final = lru_cache(maxsize=1024)(names_secret)  # peers choose the names


def is_jsonrpc(raw: bytes) -> bool:
    """Whether JSON text is a JSON-RPC message or a batch of messages, judged by its member names.

    The same words inside a string, or a member ``jsonrpc`` beside unrelated members, do not count.
    """
    if _MESSAGE.match(raw):
        return True
    depth, names, singles = 0, set[str](), list[set[str]]()
    outer = 1  # the depth of the members of a message; 2 in a batch
    for token in _TOKEN.finditer(raw.decode("latin-1")):
        if token[2] is not None:
            if depth == outer:
                names.add(token[1])
            continue
        match token[0][0]:
            case "[" if not depth and outer == 1:
                outer, depth = 2, 1
            case "{" | "[":
                depth += 1
                if depth == outer:
                    singles.append(names := set[str]())
            case "}" | "]":
                depth -= 1
            case _:
                pass
    return bool(singles) and all(
        "jsonrpc" in single and not single.isdisjoint(("method", "result", "error")) for single in singles
    )
