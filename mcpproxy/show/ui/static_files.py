"""The files of the page. The browser asks for dozens of small ones before it shows a row.

Each is read directly on the event loop. That takes less time than a thread, which Starlette's ``StaticFiles``
uses four times for each file.
"""

from functools import cache
from mimetypes import guess_type
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

STATIC: Final = Path(__file__).parent / "static"


async def style(request: Request) -> Response:
    """Return the style sheets of the page as one."""
    del request
    return Response(style_sheets(), media_type="text/css")


def style_sheets() -> str:
    """Return the style sheets of the page as one text: ``style.css``, then those of the areas of the page."""
    areas = sorted(path.name for path in STATIC.glob("*.css") if path.name != "style.css")
    return "".join((STATIC / name).read_text(encoding="utf-8") for name in ("style.css", *areas))


async def document(request: Request) -> Response:
    """Return the page itself."""
    return _answer(request, STATIC / "index.html")


async def static_file(request: Request) -> Response:
    """Return the file that ``path`` names below ``static``."""
    path = _files().get(request.path_params["path"])
    return PlainTextResponse("there is no such file\n", 404) if path is None else _answer(request, path)


def _answer(request: Request, path: Path) -> Response:
    """Return a file, or 304 if the browser has it already (RFC 9110, section 13.1.2)."""
    status = path.stat()
    etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(path.read_bytes(), headers=headers, media_type=guess_type(path.name)[0])


@cache
def _files() -> dict[str, Path]:
    """Return the path of each file below ``static`` -> the file. No other path is served."""
    return {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.is_file()}
