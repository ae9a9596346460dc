"""A relay as asyncio makes it easy, and nothing more: ``asyncio_relay.py COMMAND [ARG...]``.

What a proxy in Python costs that records nothing and judges nothing.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Final

CHUNK: Final = 1 << 16


async def main(command: list[str]) -> int:
    """Run ``command`` between our stdin and stdout; its exit status."""
    loop = asyncio.get_running_loop()
    client = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(client), sys.stdin)
    transport, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    answers = asyncio.StreamWriter(transport, flow, None, loop)
    server = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    await asyncio.gather(pump(client, server.stdin), pump(server.stdout, answers))
    return await server.wait()


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass everything on, then the end."""
    while data := await source.read(CHUNK):
        sink.write(data)
        await sink.drain()
    sink.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
