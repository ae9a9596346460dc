"""What a model got of a server, on the page: a rename, a cut, a lost picture."""

from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.prompt.sides import model, server
from tests.ui.browser import Served, Visitor, browser, served, visitor
from tests.ui.test_page import recording
from tests.ui.test_page_file import exported

__all__ = ["browser", "visitor"]


def row(visitor: Visitor, name: str) -> Locator:
    """Return the row of a tool or of a result."""
    return visitor.page.get_by_role("row").filter(has=visitor.page.get_by_role("link", name=name, exact=True))


def shows_the_prompt(visitor: Visitor, page: Served) -> None:
    visitor.page.goto(f"{page.url}&recording={recording(page, 'w')}&view=prompt")


def test_a_cut_a_rename_and_a_loss_are_seen(visitor: Visitor, tmp_path: Path) -> None:
    server(tmp_path, nextCursor="p3")
    model(tmp_path)
    with served(tmp_path) as page:
        shows_the_prompt(visitor, page)
        visitor.sees("4 tools, 3 in the prompt, named mcp__weather__NAME")
        visitor.sees("the list of tools goes on, and the host did not ask for its next page")
        visitor.sees("instructions left out (21 characters)")
        found = visitor.page.locator("p.finding").filter(has_text="PROMPT-004")
        expect(found).to_contain_text('client called "wind.speed" with other arguments than its model gave')
        expect(found.get_by_role("link")).to_have_text(["frame 9 of the server", "frame 2 of the model"])
        expect(row(visitor, "wind.speed").first).to_contain_text("named mcp__weather__wind_speed")
        expect(row(visitor, "moon")).to_contain_text("not in the prompt")
        now = row(visitor, "now").first
        expect(now).to_contain_text("description cut: its first 2,048 of 3,600 characters")
        expect(now.locator("del")).to_contain_text("1,352 more")
        expect(row(visitor, "now").nth(1)).to_contain_text("text lost (5 characters)")
        visitor.sees("audio audio/wav, 5 B lost")
        visitor.sees("image image/png, 5 B, as it was")
        visitor.sees("1 of 4 tools")
        for width in (1440, 1000, 400):
            visitor.page.set_viewport_size({"width": width, "height": 800})
            visitor.breaks_no_rule_in_either_theme(f"{width}")
            assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
        found.get_by_role("link", name="frame 2 of the model").click()
        visitor.page.get_by_role("button", name="Prompt").click()
        visitor.sees("1 other tool in the prompt: Bash")
    assert visitor.faults == []


def test_without_a_recording_of_the_model_it_says_how_to_make_one(visitor: Visitor, tmp_path: Path) -> None:
    server(tmp_path)
    with served(tmp_path) as page:
        shows_the_prompt(visitor, page)
        visitor.sees("What a host's model saw of this server is not recorded.")


def test_a_call_says_what_the_model_saw_of_it(visitor: Visitor, tmp_path: Path) -> None:
    server(tmp_path)
    model(tmp_path)
    with served(tmp_path) as page:
        visitor.page.goto(f"{page.url}&recording={recording(page, 'w')}#call=5")
        visitor.sees("The model saw")
        visitor.sees("asked for mcp__weather__wind_speed (guess: only the tool fits)")
        visitor.sees("text cut: its first 2,000 of 5,000 characters")
        visitor.breaks_no_rule_in_either_theme("what the model saw")
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 1440
        visitor.page.get_by_role("link", name="the recording of the model").click()
        visitor.sees("/v1/messages")
    assert visitor.faults == []


def test_an_exported_page_has_it_without_the_texts_around_a_cut(visitor: Visitor, tmp_path: Path) -> None:
    path = server(tmp_path)
    model(tmp_path)
    address = exported(str(path), tmp_path / "w.html")
    visitor.context.set_offline(True)
    visitor.opens(address)
    visitor.page.get_by_role("button", name="Prompt").click()
    visitor.sees("4 tools, 3 in the prompt, named mcp__weather__NAME")
    expect(row(visitor, "now").first).to_contain_text("description cut: its first 2,048 of 3,600 characters")
    expect(visitor.page.locator("del")).to_have_count(0)
    found = visitor.page.locator("p.finding").filter(has_text="PROMPT-004")
    expect(found.get_by_role("link")).to_have_text(["frame 9 of the server"])
    row(visitor, "wind.speed").nth(1).get_by_role("link").click()
    visitor.sees("The model saw")
    visitor.sees("with arguments that the host changed at /unit")
    assert visitor.faults == []
