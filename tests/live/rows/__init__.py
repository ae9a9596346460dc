"""The rows of the table, a module for each thing that they are about."""

from typing import Final

from tests.live.rows import answers, http_sse, requests, resuming, sessions, streams
from tests.live.table import Row

ROWS: Final[tuple[Row, ...]] = (
    *http_sse.ROWS,
    *requests.ROWS,
    *answers.ROWS,
    *streams.ROWS,
    *resuming.ROWS,
    *sessions.ROWS,
)
