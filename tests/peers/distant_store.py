"""A way to an object store on which requests wait: as long as on a long way, or until others are there."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress

_PIECE_BYTES = 1 << 16

Hold = Callable[[bytes], Awaitable[object]]
"""Waits with a piece of what a client sends: a small request is one piece."""


@contextmanager
def distant(variables: Mapping[str, str], hold: Hold) -> Generator[dict[str, str]]:
    """Yield the variables of a store whose requests pass ``hold`` on their way to the store of ``variables``.

    ``hold`` is called in another thread, in one event loop for all connections.
    """
    host, _, port = variables["AWS_ENDPOINT_URL"].removeprefix("http://").partition(":")
    loop = asyncio.new_event_loop()
    listening = threading.Event()
    ports: list[int] = []
    over = asyncio.Event()

    async def connected(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            store, to_store = await asyncio.open_connection(host, int(port))
            await asyncio.gather(_pass_on(client, to_store, hold), _pass_on(store, to_client, None))

    async def main() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        listening.set()
        await over.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # sockets of connections that were aborted are closed in the next turn

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
    thread.start()
    try:
        listening.wait()
        yield {**variables, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports[0]}"}
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hold: Hold | None) -> None:
    try:
        while piece := await reader.read(_PIECE_BYTES):
            if hold is not None:
                await hold(piece)
            writer.write(piece)
            await writer.drain()
    finally:
        if reader.at_eof():
            writer.close()
        else:  # it is over: what is not sent yet would keep the socket open
            writer.transport.abort()
