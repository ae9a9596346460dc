"""A person at the terminal view: presses keys and reads the screen, of any size, without a terminal."""

import asyncio
import html
import re
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from textual.pilot import Pilot

from mcpproxy.show.tui.viewer import Viewer

TIMEOUT_S: Final = 60
"""How long something may take to appear: only a test that fails takes so long."""

_CELL: Final = 12.2
_LINE: Final = 24.4
_TEXT: Final = re.compile(r'<text class="[^"]*-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')


class Person:
    """Who looks at ``viewer``."""

    def __init__(self, viewer: Viewer, pilot: Pilot[None]) -> None:
        self.viewer: Final = viewer
        self.pilot: Final = pilot

    async def presses(self, *keys: str) -> None:
        """Press keys one after the other."""
        await self.pilot.press(*keys)

    async def types(self, text: str) -> None:
        """Press the keys of a text."""
        await self.pilot.press(*text)

    async def sees(self, *texts: str) -> None:
        """Wait until the screen shows all of ``texts``."""
        await self.waits(lambda: all(text in self.screen() for text in texts), f"{texts}")

    async def waits(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not holds():
                    await self.pilot.pause()
        except TimeoutError:
            raise AssertionError(f"not seen: {what}\n{self.screen()}") from None

    def screen(self) -> str:
        """Return the screen as text, a line for each of its lines."""
        lines: dict[int, list[tuple[int, str]]] = {}
        for x, y, text in _TEXT.findall(self.viewer.export_screenshot()):
            place = round(float(x) / _CELL), html.unescape(text).replace("\xa0", " ")
            lines.setdefault(round(float(y) / _LINE), []).append(place)
        shown: list[str] = []
        for number in range(1, self.viewer.size.height + 1):
            line = ""
            for column, text in sorted(lines.get(number, [])):
                line = line.ljust(column) + text
            shown.append(line.rstrip())
        return "\n".join(shown)


@asynccontextmanager
async def sitting(path: Path | str, width: int = 80, height: int = 24) -> AsyncGenerator[Person]:
    """Start the terminal view on a recording or folder, and wait until calls are shown."""
    viewer = Viewer(str(path))
    async with viewer.run_test(size=(width, height)) as pilot:
        person = Person(viewer, pilot)
        await person.waits(lambda: viewer.is_settled, "calls")
        yield person


def sit(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Play a scene."""
    asyncio.run(scene())
