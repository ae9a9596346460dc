"""pyarrow as the tables need it. It has no type annotations, so all of it is ``Any``."""

from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] # it has none
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs] # the same
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs] # the same

pa: Final[Any] = pyarrow
pc: Final[Any] = pyarrow.compute
pq: Final[Any] = pyarrow.parquet

Table: TypeAlias = Any
Array: TypeAlias = Any
Schema: TypeAlias = Any
