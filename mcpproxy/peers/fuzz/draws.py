"""Random decisions of the fuzzer: each is a keyed hash of the seed, the scope and the purpose.

With a generator of random numbers, each number would depend on the earlier ones. With hashes, the same seed
makes the same requests in the same order, however slow the server is.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")


class Draws:
    """Random decisions for one seed within one scope, such as a session of the fuzzer."""

    def __init__(self, seed: int, *scope: object) -> None:
        parts = "\0".join(str(part) for part in (seed, *scope))
        self._key: Final = hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=32).digest()

    def digest(self, *purpose: object) -> str:
        """Return 16 hexadecimal digits; always the same for the same ``purpose``."""
        text = "\0".join(str(part) for part in purpose).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=8, key=self._key).hexdigest()

    def below(self, limit: int, *purpose: object) -> int:
        """Return a number from 0 to ``limit`` - 1."""
        return int(self.digest(*purpose), 16) % limit

    def pick(self, items: Sequence[T], *purpose: object) -> T:
        """Return an item of ``items``, which must not be empty."""
        return items[self.below(len(items), *purpose)]

    def shuffled(self, names: Iterable[str]) -> list[str]:
        """Return ``names`` in a random order, which does not depend on their order in the argument."""
        return sorted(names, key=lambda name: (self.digest("order", name), name))
