"""``mcpproxy export parquet``: recordings as tables, for DuckDB, Spark, pandas and others."""

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from mcpproxy.base import extras
from mcpproxy.base.style import count
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.terminal import tell
from mcpproxy.errors import McpProxyError
from mcpproxy.send.fleet import urls
from mcpproxy.send.fleet.judge.corpus import FleetRecording, open_corpus
from mcpproxy.send.fleet.judge.results import open_results
from mcpproxy.send.fleet.judge.shard import Shard, shard

EPILOG: Final = """\
OUT, a folder or URL, gets the tables recordings, frames, findings, tools and turns (requests to a model),
without the content of messages, in folders for each day and server. Run it again to add the recordings that
are not in them yet.
mcpproxy/send/fleet/columns/report_queries/README.md describes the columns, and has queries.

  mcpproxy export parquet recordings/ -o columns/
  mcpproxy export parquet recordings/ -o columns/ --findings findings/0.1.0-47a9c4684b2a9c8b
  mcpproxy export parquet s3://bucket/mcp -o s3://bucket/columns"""


def run(argv: list[str]) -> int:
    """Add recordings to tables; return 2 if one of them could not be read.

    Raises:
        McpProxyError: the arguments are not valid, or the tables cannot be written.
    """
    parser = Parser("export parquet", "Write recordings as tables in Parquet.", EPILOG)
    parser.add_argument("folder", metavar="DIR|URL", help="a folder of recordings")
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="the folder or URL of the tables"
    )
    parser.add_argument(
        "--findings", metavar="RESULTS", help="what check --out found, instead of what was recorded"
    )
    parser.add_argument(
        "--shard",
        type=shard,
        default=Shard(),
        metavar="I/N",
        help="this part only, as for check: 3/64 (default: 0/1)",
    )
    options = parser.parse_args(argv)
    extras.check("export parquet", "fleet", "pyarrow")
    if options.findings and not (urls.is_url(options.findings) or os.path.isdir(options.findings)):
        raise UsageError(options.findings, "is not a folder", "name a folder that check --out has printed")

    from mcpproxy.send.fleet.columns import recording_rows
    from mcpproxy.send.fleet.columns.writer import ColumnsWriter
    from mcpproxy.send.fleet.judge import read_ahead

    corpus = open_corpus(options.folder)
    results = open_results(options.findings) if options.findings else None
    judged = set(results.names()) if results else None
    writer = ColumnsWriter(options.output, options.shard)
    left_out = failed = 0

    def wanted() -> Iterator[FleetRecording]:
        nonlocal left_out
        for recording in options.shard.of(corpus.recordings()):
            if recording.name in writer.written:
                continue
            if judged is not None and recording.name not in judged:
                left_out += 1
                continue
            yield recording

    with closing(read_ahead.opened_in_turn(corpus, wanted())) as turns:
        for recording, opened in turns:
            name = recording.name
            try:
                with opened as path:
                    judged_anew = results.read(name) if results else None
                    writer.add(name, recording_rows.read(path, name, judged_anew))
            except McpProxyError as error:
                tell(str(error))
                failed += 1
    writer.flush()
    rows = ", ".join(f"{number:,} {table}" for table, number in writer.rows.items())
    tell(f"{options.output}: {rows}")
    if left_out:
        tell(f"{count(left_out, 'recording')} without a result in {options.findings}: left for a later run")
    return 2 if failed else 0
