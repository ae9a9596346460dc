"""The URLs of object stores, and the names of objects in them. It imports nothing large.

A folder of a store is ``s3://BUCKET/PREFIX``, ``gs://BUCKET/PREFIX``, ``az://CONTAINER/PREFIX`` or
``file:///FOLDER``. A URL has no credentials: they come from the environment or the machine's identity.
"""

import os
import re
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from mcpproxy.base import extras
from mcpproxy.errors import UsageError

SCHEMES: Final = ("s3", "gs", "az", "file")

EXAMPLE: Final = "name a folder such as s3://bucket/prefix, gs://bucket, az://container or file:///folder"

_URL: Final = re.compile(r"(?:s3|gs|az|file)://", re.IGNORECASE)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_ESCAPED: Final = re.compile(rb"=([0-9A-F]{2})")
_LONGEST_NAME: Final = 240
"""The longest name, in bytes. File systems allow 255, and temporary files have longer names."""


def is_url(named: str) -> bool:
    """Whether ``named`` is a URL of an object store, and not the name of a file."""
    return _URL.match(named) is not None


def of_path(path: str) -> str:
    """Return the URL of a file or folder of this machine."""
    return f"file://{quote(os.path.abspath(path))}"


def check(where: str, url: str) -> None:
    """Check, without a connection, that ``url`` can be used.

    Errors name ``where``, a command or an option, or else the URL.

    Raises:
        UsageError: it is not the URL of a store, it contains credentials, or the packages are not installed.
    """
    split(url, where)
    extras.check(where or url, "fleet", "obstore", "zstandard")


def split(url: str, where: str = "") -> tuple[str, str, str]:
    """Return scheme, bucket and prefix of a URL; the prefix has no slash at its ends.

    For ``file://`` the bucket is empty and the prefix is the path of the folder.

    Raises:
        UsageError: it is not the URL of a store, or contains credentials, which the error does not repeat.
    """
    try:
        parts = urlsplit(url)
        scheme, bucket, user = parts.scheme.lower(), parts.netloc, parts.username
    except ValueError:
        raise UsageError(where or "URL", "not the URL of an object store", EXAMPLE) from None
    shown = f"{scheme}://{bucket.rpartition('@')[2]}{parts.path}"
    if scheme not in SCHEMES:
        raise UsageError(where or shown, f"{shown} is not the URL of an object store", EXAMPLE)
    if user is not None or "@" in bucket or parts.query or parts.fragment:
        step = "give credentials in the environment, such as AWS_ACCESS_KEY_ID"
        raise UsageError(where or shown, "a URL takes neither credentials nor parameters", step)
    if scheme == "file":
        if bucket not in ("", "localhost") or not parts.path.startswith("/"):
            raise UsageError(where or shown, f"{shown} is not the URL of a folder", "write file:///folder")
        return scheme, "", os.path.abspath(unquote(parts.path))
    if not bucket:
        raise UsageError(where or shown, f"{shown} names no bucket", EXAMPLE)
    return scheme, bucket, parts.path.strip("/")


def escaped(name: str) -> str:
    """Return the name of a file as a part of a key: in ASCII, and safe in every store."""
    return _UNSAFE.sub(lambda match: "".join(f"={byte:02X}" for byte in match[0].encode()), name)


def unescaped(part: str) -> str:
    """Return the name of the file for which ``escaped`` returned ``part``.

    A name that ``is_file_name`` refuses, because it could for example lead out of the folder, stays escaped.
    """
    data = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), part.encode("utf-8", "replace"))
    name = data.decode("utf-8", "replace")
    return name if is_file_name(name) else escaped(part)


def is_plain(name: str) -> bool:
    """Whether ``name`` is safe in every store as it is, and not too long."""
    return bool(name.strip(".")) and not _UNSAFE.search(name) and len(name) <= _LONGEST_NAME


def is_file_name(name: str) -> bool:
    """Whether ``name`` can be the name of a file in a folder, without characters that Windows forbids."""
    return (
        name.strip(". ") != ""
        and len(name.encode("utf-8", "replace")) <= _LONGEST_NAME
        and not any(char in '/\\:*?"<>|' or ord(char) < 32 for char in name)
    )
