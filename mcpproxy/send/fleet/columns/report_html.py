"""The report of a fleet as one HTML page, in the style of the page of ``mcpproxy ui``. It loads nothing."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from typing import Final

from mcpproxy.send.fleet.columns.query_answer import QueryAnswer

_STYLE: Final = """
html, body { height: auto; }
body { padding: 12px 20px; }
h1 { font-size: 18px; }
h2 { margin: 24px 0 6px; font-size: 15px; }
.wide { overflow-x: auto; }
th, td, th:first-child { text-align: left; font-weight: normal; }
thead th, thead th:first-child { font-weight: 600; }
.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
"""

MOST_ROWS: Final = 1000
"""How many rows of one query the page has at most."""


def pieces(folder: str, answers: Sequence[QueryAnswer], page_style: str) -> Iterator[str]:
    """Yield the text of the page, which names ``folder`` as the source.

    ``page_style`` is the style sheet of the page of ``mcpproxy ui``.
    """
    style = page_style + _STYLE
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<title>mcpproxy: fleet report</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n<h1>Fleet report</h1>\n"
        f'<p class="note">{escape(folder)}</p>\n'
    )
    for answer in answers:
        yield from _section(answer)
    yield "</body>\n</html>\n"


def _section(answer: QueryAnswer) -> Iterator[str]:
    rows = answer.texts()
    yield f'<section aria-labelledby="{answer.name}">\n<h2 id="{answer.name}">{escape(answer.title)} '
    yield f'<span class="count">{len(rows):,}</span></h2>\n'
    if not rows:
        yield '<p class="note">None.</p>\n</section>\n'
        return
    heads = (_cell("th", name, answer, number) for number, name in enumerate(answer.heads))
    yield f'<div class="wide"><table><thead><tr>{"".join(heads)}</tr></thead>\n<tbody>\n'
    for row in rows[:MOST_ROWS]:
        cells = (
            _cell("th" if number == 0 else "td", text, answer, number) for number, text in enumerate(row)
        )
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</tbody></table></div>\n"
    if len(rows) > MOST_ROWS:
        yield f'<p class="note">{len(rows) - MOST_ROWS:,} more: see --format json.</p>\n'
    yield "</section>\n"


def _cell(tag: str, text: str, answer: QueryAnswer, column: int) -> str:
    number = ' class="number"' if column in answer.number_columns else ""
    return f"<{tag}{number}>{escape(text)}</{tag}>"
