"""The detail of a call: what it contains is shown as what it is, side by side, to search and to copy."""

import base64
import io
import json
import re
import struct
import wave
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, expect

from mcpproxy.cli.main import main
from tests.ui.browser import Visitor, browser, served, visitor
from tests.view.situations import Conversation, begun, forecast, text, write

__all__ = ["browser", "visitor"]


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def a_png(width: int, height: int) -> str:
    """A PNG of one colour, in base64; its text chunk makes it longer than what is shown whole."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    lines = zlib.compress((b"\0" + b"\x20\x60\xa0" * width) * height)
    chunks = (
        (b"IHDR", head),
        (b"tEXt", b"about\0" + bytes(range(65, 91)) * 20),
        (b"IDAT", lines),
        (b"IEND", b""),
    )
    return _encoded(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks))


def a_sound() -> str:
    """A tenth of a second of silence, in base64."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 800)
    return _encoded(file.getvalue())


RUN: Final = "window.executed = 1; opener.executed = 1"
SVG: Final = (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="12" height="6" onload="{RUN}"><script>{RUN}</script>'
    f'<image href="http://evil.example/a.png"/><rect width="12" height="6"/></svg>'
)
MARKDOWN: Final = f"""# Weather of *Oslo*

**Sunny**, and `temp_max` is 21: [report](javascript:window.executed=1) and [a](http://evil.example/b).

- wind
  - north
1. one

| hour | temp |
| --- | --- |
| 10 | 18 |

```python
x = "<b>"
```
<img src=x onerror="{RUN}"> ![picture](http://evil.example/c.png) <http://evil.example/d>
[frame](data:text/html;base64,{_encoded(f"<script>{RUN}</script>".encode())})
"""
ROWS: Final = [{"id": number, "name": f"row {number}", "more": {"deep": [number]}} for number in range(400)]
PNG: Final = a_png(4, 3)


def records() -> tuple[str, ...]:
    """Calls 4 to 8: images and audio, Markdown, JSON as text, structured content, an error."""
    talk = begun()

    def calls(id: int, tool: str, arguments: Any, result: Any) -> None:
        talk.asks(id, "tools/call", {"name": tool, "arguments": arguments}, ms=100 * id)
        talk.answers(id, result, ms=100 * id + 10)

    image = {"type": "image", "mimeType": "image/png", "data": PNG}
    drawing = {"type": "image", "mimeType": "image/svg+xml", "data": _encoded(SVG.encode())}
    audio = {"type": "audio", "mimeType": "audio/wav", "data": a_sound()}
    document = {
        "uri": "file:///a.html",
        "mimeType": "text/html",
        "blob": _encoded(f"<script>{RUN}</script>".encode()),
    }
    broken = {"type": "image", "mimeType": "image/gif", "data": "no base64!"}
    no_image = {"type": "image", "mimeType": "image/png", "data": _encoded(b"no image")}
    calls(
        2,
        "shots",
        {"page": 1},
        {"content": [image, drawing, audio, {"type": "resource", "resource": document}, broken, no_image]},
    )
    calls(3, "report", {"city": "Oslo"}, text(MARKDOWN))
    calls(4, "rows", {"limit": 400}, text(json.dumps({"rows": ROWS})))
    calls(5, "now", {}, {**text('{"t": 1.0}'), "structuredContent": {"t": 1.0}})
    calls(6, "fail", {"city": "Rome"}, {**text("no such city"), "isError": True, "_meta": {"trace": 7}})
    return talk.closes(ms=900)


@contextmanager
def seen(visitor: Visitor, folder: Path, form: str) -> Generator[None]:
    """Open the recording in the page of ``mcpproxy ui``, or as an exported file."""
    trace = write(folder / "s.jsonl", records())
    if form == "exported":
        assert main(["export", "html", trace, "-o", str(folder / "s.html")]) == 0
        visitor.opens((folder / "s.html").as_uri())
        yield
        return
    with served(folder) as running:
        visitor.opens(running.url)
        yield


def part(visitor: Visitor, side: str) -> Locator:
    return visitor.page.locator(f".panes > .{side}")


def goes_to(visitor: Visitor, tool: str) -> None:
    visitor.page.locator(".scroller .row", has_text=tool).click()
    expect(visitor.page.locator(".detail h2")).to_contain_text(tool)


@pytest.mark.parametrize("form", ["served", "exported"])
def test_content_is_shown_as_what_it_is_and_nothing_of_it_executes(
    visitor: Visitor, tmp_path: Path, form: str
) -> None:
    page, result = visitor.page, part(visitor, "result")
    with seen(visitor, tmp_path, form):
        goes_to(visitor, "shots")
        captions = result.locator("figcaption")
        expect(captions.nth(0)).to_contain_text("4 × 3")
        expect(captions.nth(0)).to_contain_text(f"image/png, {len(base64.b64decode(PNG))} B")
        expect(captions.nth(1)).to_contain_text("12 × 6")
        expect(result.locator("svg, object, embed, iframe")).to_have_count(0)
        expect(captions.nth(2)).to_contain_text("audio/wav, 844 B")
        assert result.locator("audio").evaluate("(audio) => audio.src").startswith("blob:")
        with page.expect_download() as saving:
            captions.nth(0).get_by_role("button", name="save").click()
        assert saving.value.suggested_filename == "call-4-1.png"
        assert _encoded(Path(saving.value.path()).read_bytes()) == PNG
        expect(captions.nth(3)).to_contain_text("text/html")  # to save, and not to show
        expect(result).to_contain_text("image/gif: this is not base64.")
        expect(captions.nth(4)).to_contain_text("save This browser cannot show it")
        page.get_by_role("tab", name="Messages").click()
        folded = page.get_by_role("button", name=f"image/png, {len(base64.b64decode(PNG))} B")
        expect(page.locator(".detail")).not_to_contain_text(PNG[300:400])
        folded.click()
        expect(page.locator(".detail")).to_contain_text(PNG[300:400])
        page.get_by_role("tab", name="Result").click()

        goes_to(visitor, "report")
        expect(result.locator("h4")).to_have_text("Weather of Oslo")
        expect(result.locator("strong, em, code, li li, ol > li, td")).to_have_text(
            ["Oslo", "Sunny", "temp_max", "north", "one", "10", "18"]
        )
        expect(result.locator("pre")).to_have_text('x = "<b>"')
        expect(result).to_contain_text('<img src=x onerror="')
        expect(result).to_contain_text("report (javascript:window.executed=1)")
        expect(result.locator("a, img")).to_have_count(0)
        result.get_by_role("button", name="as text").click()
        expect(result.locator("pre")).to_contain_text("# Weather of *Oslo*")

        goes_to(visitor, "rows")
        expect(result).to_contain_text('▸ 3: { id: 3, name: "row 3", 1 more }')
        result.get_by_role("button", name="as text").click()
        expect(result.locator("pre")).to_contain_text('{"rows": [{"id": 0')

        goes_to(visitor, "now")  # what is there twice is shown once; a number as it was written
        expect(result.locator(".block")).to_have_count(1)
        expect(result).to_contain_text("t: 1.0")

        goes_to(visitor, "fail")
        expect(result.locator("pre")).to_have_text("no such city")
        expect(result).to_contain_text("trace: 7")
        assert page.evaluate("window.executed") is None
        assert all(
            url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:")) for url in visitor.requests
        )


def test_arguments_and_result_are_side_by_side_and_the_bar_between_them_moves(
    visitor: Visitor, tmp_path: Path
) -> None:
    page, bar = visitor.page, visitor.page.locator(".detail").get_by_role("separator")

    def places() -> tuple[Any, Any]:
        return part(visitor, "given").bounding_box(), part(visitor, "result").bounding_box()

    with seen(visitor, tmp_path, "served"):
        page.set_viewport_size({"width": 1440, "height": 900})
        goes_to(visitor, "fail")
        given, result = places()
        assert given["y"] == result["y"]
        assert given["x"] + given["width"] < result["x"]
        bar.press("ArrowRight")
        expect(bar).to_have_attribute("aria-valuenow", "45")
        assert places()[0]["width"] > given["width"]
        bar.press("Home")
        expect(bar).to_have_attribute("aria-valuenow", "15")
        at = bar.bounding_box()
        assert at
        page.mouse.move(at["x"] + at["width"] / 2, at["y"] + 20)
        page.mouse.down()
        page.mouse.move(result["x"] + result["width"] / 2, at["y"] + 20, steps=3)
        page.mouse.up()
        expect(bar).to_have_attribute("aria-valuenow", re.compile("^(69|70|71)$"))
        moved = bar.get_attribute("aria-valuenow") or ""
        page.reload()
        expect(bar).to_have_attribute("aria-valuenow", moved)

        # Enter leads to the detail, and again gives it the whole width; the keys of the list still work.
        page.locator(".grid").focus()
        visitor.presses("Enter", "Enter")
        expect(page.locator(".grid")).to_be_hidden()
        visitor.presses("k")
        expect(page.locator(".detail h2")).to_contain_text("now")
        expect(page.locator(".detail")).to_be_focused()
        visitor.presses("j", "Escape")
        expect(page.locator(".grid")).to_be_visible()
        expect(page.locator(".detail h2")).to_contain_text("fail")
        page.get_by_role("button", name="wide").click()
        expect(page.locator(".grid")).to_be_hidden()
        visitor.presses("Escape")
        expect(page.locator(".grid")).to_be_visible()
        page.get_by_role("button", name="wide").click()
        page.get_by_role("button", name="Close the detail").click()
        expect(page.locator(".grid")).to_be_focused()
        # The next call has its list beside it, however the detail was closed.
        goes_to(visitor, "fail")
        page.get_by_role("button", name="wide").click()
        page.get_by_role("button", name="failed").click()
        expect(page.locator(".scroller .row")).to_have_count(1)
        goes_to(visitor, "fail")
        expect(page.locator(".grid")).to_be_visible()
        page.locator("#filter").press("Escape")
        goes_to(visitor, "fail")
        # Escape works wherever the focus is, also where it is nowhere.
        page.evaluate("document.activeElement.blur()")
        visitor.presses("Escape")
        page.wait_for_selector(".detail", state="detached")

        # The tab stays for the next call.
        goes_to(visitor, "fail")
        page.get_by_role("tab", name="Result").press("ArrowRight")
        expect(page.locator(".detail")).to_contain_text('jsonrpc: "2.0"')
        goes_to(visitor, "now")
        expect(page.get_by_role("tab", name="Messages")).to_have_attribute("aria-selected", "true")
        page.get_by_role("tab", name="Messages").press("ArrowLeft")
        page.set_viewport_size({"width": 1000, "height": 900})
        expect(bar).to_be_hidden()
        given, result = places()
        assert result["y"] + result["height"] < given["y"]


def test_the_bar_between_list_and_detail_moves(visitor: Visitor, tmp_path: Path) -> None:
    page, bar = visitor.page, visitor.page.get_by_role("separator", name="Width of the list")
    wide = "(grid) => Math.round(grid.getBoundingClientRect().width)"
    with seen(visitor, tmp_path, "served"):
        page.set_viewport_size({"width": 1440, "height": 900})
        expect(bar).to_have_count(0)
        goes_to(visitor, "fail")
        before = page.locator(".grid").evaluate(wide)
        bar.press("ArrowRight")
        expect(bar).to_have_attribute("aria-valuenow", "60")
        assert page.locator(".grid").evaluate(wide) > before
        at = bar.bounding_box()
        assert at
        page.mouse.move(at["x"] + at["width"] / 2, at["y"] + 300)
        page.mouse.down()
        page.mouse.move(at["x"] - 300, at["y"] + 300, steps=3)
        page.mouse.up()
        expect(bar).to_have_attribute("aria-valuenow", re.compile("^3[0-9]$"))
        assert page.locator(".grid").evaluate(wide) < before
        moved = bar.get_attribute("aria-valuenow") or ""
        goes_to(visitor, "now")
        expect(bar).to_have_attribute("aria-valuenow", moved)
        page.set_viewport_size({"width": 400, "height": 800})
        expect(bar).to_be_hidden()


def test_a_value_is_searched_and_its_nodes_are_copied(visitor: Visitor, tmp_path: Path) -> None:
    page, result = visitor.page, part(visitor, "result")

    def copied(button: Locator) -> str:
        button.click()
        expect(page.get_by_role("status").filter(has_text="copied").first).to_be_attached()
        return page.evaluate("navigator.clipboard.readText()")

    with seen(visitor, tmp_path, "served"):
        goes_to(visitor, "rows")
        box = result.get_by_role("searchbox")
        box.fill("ROW 39")
        expect(result.locator(".find .count")).to_have_text("1 of 11")
        expect(result.locator("mark.current")).to_have_text("row 39")
        box.press("Enter")
        expect(result.locator(".find .count")).to_have_text("2 of 11")
        expect(result).to_contain_text("… 285 between")  # row 390 is far below what is shown
        expect(result.locator("mark.current")).to_be_in_viewport()
        box.press("Shift+Enter")
        result.get_by_role("button", name="Previous match").click()
        expect(result.locator(".find .count")).to_have_text("11 of 11")
        box.fill("nowhere")
        expect(result.locator(".find .count")).to_have_text("none")
        box.press("Escape")
        expect(box).to_have_value("")
        result.get_by_role("button", name="as text").click()
        result.get_by_role("searchbox").fill("row 399")
        expect(result.locator("mark.current")).to_be_in_viewport()

        result.get_by_role("button", name="as text").click()
        mark = result.get_by_role("button", name="Copy 7", exact=True)
        mark.focus()
        expect(mark).to_have_css("opacity", "1")
        assert json.loads(copied(mark)) == ROWS[7]
        assert json.loads(copied(page.get_by_role("button", name="Copy the arguments"))) == {"limit": 400}
        goes_to(visitor, "report")
        assert copied(page.get_by_role("button", name="Copy the text of the result")) == MARKDOWN


def test_everybody_can_use_the_detail(visitor: Visitor, tmp_path: Path) -> None:
    with seen(visitor, tmp_path, "served"):
        for tool in ("shots", "report", "rows", "fail"):
            goes_to(visitor, tool)
            part(visitor, "result").locator("figure, .markdown, .json, pre").first.wait_for()
            if tool == "rows":
                part(visitor, "result").get_by_role("searchbox").fill("row")
                expect(visitor.page.locator("mark.current")).to_have_count(1)
            visitor.breaks_no_rule_in_either_theme(tool)


def test_what_came_in_the_place_of_an_answer_is_the_result(visitor: Visitor, tmp_path: Path) -> None:
    talk = Conversation(http=True)

    def asked(exchange: int, said: str, status: int = 200, **members: Any) -> None:
        place: dict[str, Any] = {"exchange": exchange, "connection": exchange}
        talk.posts(exchange, ms=exchange)
        talk.asks(exchange, "tools/call", forecast("Oslo"), ms=exchange, **place)
        talk.responds(exchange, status, ms=exchange + 0.3, sse="event" in members)
        talk.says("server", said, exchange + 0.5, **place, **members)
        talk.ends(exchange, ms=exchange + 0.9, cut_by="server" if members else "")

    event = {"id": None, "name": "message", "retry": None, "before": "data: ", "after": ""}
    asked(1, "<h1>Bad Gateway</h1>", 502)
    asked(2, '{"jsonrpc":"2.0","id":2,"res', eol="")
    asked(3, '{"jsonrpc":"2.0","id":3,"result"', eol="", event=event)
    asked(4, '{"detail":"no such route"}', 404)
    write(tmp_path / "s.jsonl", talk.closes(ms=9))
    result, cards = part(visitor, "result"), visitor.page.locator(".detail .part h3")
    rows = visitor.page.locator(".scroller .row")
    with served(tmp_path) as running:
        visitor.opens(running.url)
        for row, words, said, title in (
            (0, "no answer, but a body:", "<h1>Bad Gateway</h1>", "Body"),
            (1, "no answer, but a body:", '{"jsonrpc":"2.0","id":2,"res', "Body"),
            (2, "no answer, but an event without its end:", '"id":3,"result"', "Event without its end"),
            (3, "no answer, but a body:", 'detail: "no such route"', "Body"),
        ):
            rows.nth(row).click()
            expect(visitor.page.locator(".detail h2")).to_contain_text(f"#{row + 1}")
            expect(result).to_contain_text(words)
            expect(result).to_contain_text(said)
            expect(cards.filter(has_text=title)).to_have_count(0)  # it is not there a second time
            visitor.page.get_by_role("tab", name="Messages").click()
            expect(cards.filter(has_text=title)).to_have_count(1)
            visitor.page.get_by_role("tab", name="Result").click()


def test_a_note_comes_below_the_result_and_a_guess_is_called_one(visitor: Visitor, tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    answer = session.answers(2, text("sunny"), ms=110)
    session.finds("PROTO-010", answer, "a note", "info")
    session.finds("TOOL-005", answer, "a fault")
    records = session.closes(ms=400)
    for name in ("a", "b"):  # of one client, as its name and the times say
        write(tmp_path / f"{name}.jsonl", records)
    with served(tmp_path) as running:
        visitor.opens(running.url)
        expect(visitor.page.locator(".sidebar h4 .count")).to_have_text("one client? a guess")
        visitor.page.locator(".sidebar .recording").first.click()
        visitor.page.locator(".scroller .row", has_text="Oslo").click()
        expect(part(visitor, "result")).to_contain_text("sunny")
        order = visitor.page.locator(".detail :is(.finding, .panes)")
        expect(order).to_have_text([re.compile("a fault"), re.compile("sunny"), re.compile("a note")])
        expect(visitor.page.locator(".detail > h3")).to_have_text(["1 finding", "1 note"])
