"""An object store as six calls: list, head, read, stream, create and delete.

obstore is the layer below: one wheel without dependencies for S3, GCS, Azure and local folders, which can
create an object only if it does not exist. Objects are never changed, and only tables that a killed export
has left are deleted. Every failed call is a ``StoreError`` of one line. It contains no credentials, because
it quotes only codes from the answer of the store.
"""

import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Final, cast

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, LocalStore, ObjectStore, S3Store

from mcpproxy.base import files
from mcpproxy.base.visible import visible
from mcpproxy.errors import McpProxyError
from mcpproxy.send.fleet import urls

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig  # names of types alone

SINGLE_PUT_BYTES: Final = 16 << 20
"""Up to this size an object is created in one request, which fails if the object exists."""

_CHUNK_BYTES: Final = 8 << 20
"""The size of the parts in which a larger object is uploaded."""
_TRIES: Final = 3
"""How often a write is tried if its answer was lost. The library repeats reads."""

_CREDENTIALS: Final = "check the credentials in the environment, and what they allow"
_DENIED: Final = {"401", "403"}
"""The HTTP status codes by which a store denies access."""
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_NO_KEY: Final = re.compile(r"#\d+$|[\x00-\x1f\x7f\ud800-\udfff]")
"""Matches names that are no keys: files that the library is writing (``NAME#1``), and names that are no
text."""
_STATUS: Final = re.compile(r"\b(?:status|response error)[:\" ]+([45]\d\d)\b|\b([45]\d\d) [A-Z][a-z]+")
_CAUSES: Final = (
    ("Connection refused", "connection refused"),
    ("dns error", "its host name is not known"),
    ("failed to lookup", "its host name is not known"),
    ("certificate", "its certificate is not trusted"),
    ("BadScheme", "it has no https; AWS_ALLOW_HTTP=true allows http"),
    ("No space left", "no space left on device"),
    ("operation timed out", "no answer in time"),
    ("deadline has elapsed", "no answer in time"),
    ("Account must be specified", "AZURE_STORAGE_ACCOUNT_NAME is not set"),
    ("Connection reset", "connection reset"),
    ("connection closed", "connection closed"),
    ("error sending request", "cannot be reached"),
    ("error decoding response body", "the answer broke off"),
    ("169.254.169.254", "no credentials were found"),
)
"""Part of the library's error text -> what we say instead: its own text may contain secrets."""
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "specified bucket does not exist")
"""How S3, Azure and Google Cloud Storage say that a bucket is missing."""

_REMOTE: Final = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_CLOUDS: Final = ("AWS", "GOOGLE", "AZURE")
_CLIENT_OPTIONS: Final["ClientConfig"] = {
    "connect_timeout": timedelta(seconds=5),
    "timeout": timedelta(seconds=120),
    "read_timeout": timedelta(seconds=30),
}
_RETRIES: Final["RetryConfig"] = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=3),
        "base": 2,
    },
}


class StoreError(McpProxyError):
    """A store or an object cannot be used. The text has the place, the fact and the next step."""

    def __init__(self, where: str, fact: str, next_step: str) -> None:
        super().__init__(visible(f"{where}: {fact}; {next_step}"))
        self.fact = fact


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object: key below the URL of the store, size in bytes, and when it was written (Unix time)."""

    key: str
    size: int
    written_s: float


class Store:
    """The folder of an object store that ``url`` names. A key is relative to it: ``a/b.jsonl.zst``.

    Several threads may use it. With ``creates``, a missing folder of this machine is created.

    Raises:
        UsageError: ``url`` is not a URL of a store.
        StoreError: it cannot be used as it is configured.
    """

    def __init__(self, url: str, *, creates: bool = False) -> None:
        urls.check("", url)
        self.scheme, self.bucket, self.prefix = urls.split(url)
        is_local = self.scheme == "file"
        path = self.prefix if is_local or not self.prefix else f"/{self.prefix}"
        self.url: Final = f"{self.scheme}://{self.bucket}{path}"
        """The URL without a slash at its end."""
        with self._translated():
            if is_local:
                self._store: ObjectStore = LocalStore(self.prefix, mkdir=creates)
            else:
                self._store = _REMOTE[self.scheme](
                    self.bucket,
                    prefix=self.prefix or None,
                    client_options={**_CLIENT_OPTIONS, "allow_http": _allows_http()},
                    retry_config=_RETRIES,
                )

    def where(self, key: str) -> str:
        """Return the URL of an object."""
        return f"{self.url}/{key}" if key else self.url

    def list(self, prefix: str = "", after: str = "", *, batch: int = 1000) -> Iterator[StoredObject]:
        """Yield the objects below the folder ``prefix`` whose keys follow ``after``, in no order.

        A remote store is asked for ``batch`` of them at a time.

        Raises:
            StoreError: the folder cannot be listed.
        """
        if self.scheme == "file":
            yield from self._list_folder(prefix, after)
            return
        with self._translated(prefix):
            # Its stub names types of pyarrow, which is not needed here.
            listed: Iterable[Sequence[ObjectMeta]] = obstore.list(  # pyright: ignore[reportUnknownMemberType]
                self._store, prefix or None, offset=after or None, chunk_size=batch
            )
            for objects in listed:
                for meta in objects:
                    yield StoredObject(meta["path"], meta["size"], meta["last_modified"].timestamp())

    def _list_folder(self, prefix: str, after: str) -> Iterator[StoredObject]:
        """List a folder of this machine. The library would fail at a link, or a name that is no key."""
        top = os.path.join(os.path.realpath(self.prefix), *filter(None, prefix.split("/")))
        if os.path.islink(top) or not os.path.isdir(top):
            return
        with self._translated(prefix):
            for path, status in files.walk(top):
                key = f"{prefix}/{path}" if prefix else path
                if key > after and not _NO_KEY.search(key):
                    yield StoredObject(key, status.st_size, status.st_mtime_ns // 1000 / 1e6)

    def head(self, key: str) -> StoredObject | None:
        """Return the key, size and time of an object; ``None`` if it does not exist.

        Raises:
            StoreError: the store gives no answer, or refuses.
        """
        try:
            with self._translated(key):
                meta = obstore.head(self._store, key)
        except NoSuchObjectError:
            return None
        return StoredObject(key, meta["size"], meta["last_modified"].timestamp())

    def read(self, key: str, limit: int = 64 << 20) -> bytes:
        """Return the content of an object.

        Raises:
            StoreError: the object does not exist, has more than ``limit`` bytes, or cannot be read.
        """
        with self._translated(key):
            content = obstore.get(self._store, key)
            if content.meta["size"] > limit:
                raise TooLargeError(self.where(key), limit)
            return bytes(content.bytes())

    def stream(self, key: str, limit: int) -> Iterator[bytes]:
        """Yield the content of an object in pieces: of at least 1 MiB, except the last.

        Raises:
            StoreError: as ``read``.
        """
        with self._translated(key):
            content = obstore.get(self._store, key)
            if content.meta["size"] > limit:
                raise TooLargeError(self.where(key), limit)
            left = limit
            for piece in content.stream(min_chunk_size=1 << 20):
                left -= len(piece)
                if left < 0:
                    raise TooLargeError(self.where(key), limit)
                yield bytes(piece)

    def create(self, key: str, content: bytes | IO[bytes]) -> bool:
        """Write an object unless it exists; return whether this call has written it.

        ``False`` may also mean that an earlier try wrote it: compare the content. An open file of more than
        ``SINGLE_PUT_BYTES`` is uploaded in parts and appears when it is whole. Then the test and the write
        are two steps, so concurrent writers must write the same.

        Raises:
            StoreError: it cannot be written, or nobody knows whether it was.
        """
        for attempt in range(1, _TRIES + 1):
            try:
                with self._translated(key):
                    return self._create(key, content)
            except ObjectExistsError:
                return False
            except StoreError as fault:
                if attempt == _TRIES or not isinstance(fault, StoreUnreachableError):
                    raise
        raise AssertionError("unreachable")

    def delete(self, key: str) -> None:
        """Delete an object if it exists.

        Raises:
            StoreError: it cannot be deleted.
        """
        try:
            with self._translated(key):
                obstore.delete(self._store, key)
        except NoSuchObjectError:
            pass

    def _create(self, key: str, content: bytes | IO[bytes]) -> bool:
        if not isinstance(content, bytes):
            content.seek(0)
            data = content.read(SINGLE_PUT_BYTES + 1)
            if len(data) > SINGLE_PUT_BYTES:
                del data
                if self.head(key) is not None:
                    return False
                content.seek(0)
                obstore.put(self._store, key, content, chunk_size=_CHUNK_BYTES, max_concurrency=2)
                return True
            content = data
        obstore.put(self._store, key, content, mode="create", use_multipart=False)
        return True

    @contextmanager
    def _translated(self, key: str = "") -> Generator[None]:
        """Turn exceptions of the library into ``StoreError``."""
        where = self.where(key)
        try:
            yield
        except (FileExistsError, exceptions.AlreadyExistsError):
            raise ObjectExistsError(where, "exists already", "it is not changed") from None
        except FileNotFoundError as fault:
            _refuse_missing_bucket(where, str(fault))
            raise NoSuchObjectError(where, "no such object", "see what is there: mcpproxy list URL") from None
        except (PermissionError, exceptions.PermissionDeniedError, exceptions.UnauthenticatedError):
            raise StoreError(where, "access denied", _CREDENTIALS) from None
        except exceptions.BaseError as fault:
            _refuse_missing_bucket(where, str(fault))
            fact = _cause(str(fault))
            if fact.startswith("access denied"):
                raise StoreError(where, fact, _CREDENTIALS) from None
            raise StoreUnreachableError(where, fact, "check the address and try again") from None
        except ValueError:
            raise StoreError(where, "is not the key of an object", "it is not read") from None
        except OSError as fault:
            fact = (fault.strerror or _cause(str(fault))).lower()
            raise StoreUnreachableError(where, fact, "see to it and try again") from None


class ObjectExistsError(StoreError):
    """The object exists already."""


class TooLargeError(StoreError):
    """The object has more bytes than the caller allows."""

    def __init__(self, where: str, limit: int) -> None:
        fact = f"has more than {limit >> 20} MiB" if limit >> 20 else f"has more than {limit} bytes"
        super().__init__(where, fact, "it is not read")


class NoSuchObjectError(StoreError):
    """The object does not exist."""


class NoSuchBucketError(StoreError):
    """The bucket does not exist. Somebody may create it later."""


class StoreUnreachableError(StoreError):
    """The store cannot be reached, or failed; another try may succeed."""


def is_missing(fault: StoreError) -> bool:
    """Whether a call failed because the object does not exist."""
    return isinstance(fault, NoSuchObjectError)


def is_temporary(fault: StoreError) -> bool:
    """Whether the store could not be reached, or failed, so that another try may succeed."""
    return isinstance(fault, StoreUnreachableError)


def _allows_http() -> bool:
    """Whether the environment allows a store without https, as in ``AWS_ALLOW_HTTP=true``."""
    return any(os.environ.get(f"{cloud}_ALLOW_HTTP", "").lower() in ("true", "1") for cloud in _CLOUDS)


def _refuse_missing_bucket(where: str, text: str) -> None:
    if any(code in text for code in _NO_BUCKET):
        raise NoSuchBucketError(where, "there is no such bucket", "create it, or name another") from None


def _cause(text: str) -> str:
    """Return the cause of a failure, in our words and the codes of the store."""
    for part, words in _CAUSES:
        if part.casefold() in text.casefold():
            return words
    codes = [match[1] for match in (_CODE.search(text),) if match]
    codes += [cast("str", match[1] or match[2]) for match in (_STATUS.search(text),) if match]
    if _DENIED & set(codes):
        return f"access denied ({', '.join(codes)})"
    return f"the store failed ({', '.join(codes)})" if codes else "the store failed"
