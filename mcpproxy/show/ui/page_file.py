"""A recording as one HTML file: the page of ``mcpproxy ui`` with the recording in it.

The file needs neither a server nor a network, and it cannot load anything: its Content-Security-Policy allows
only the scripts and the style that it contains. One block has the rows of the list. Each of the other blocks,
the chunks, has the details of up to ``PER_CHUNK`` calls. A block is JSON, compressed with gzip. The page
unpacks the first block when it opens, and a chunk when one of its calls is opened.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from gzip import compress
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.read.view.calls import Detail
from mcpproxy.read.view.diagrams.sequence import MOST_CALLS, sequence_of
from mcpproxy.read.view.view import View
from mcpproxy.show.ui import json_rows
from mcpproxy.show.ui.static_files import STATIC, style_sheets

PER_CHUNK: Final = 250
"""How many calls a chunk has; the last one may have fewer."""

_IMPORT: Final = re.compile(
    r"(from |import\(|import\(/\*\* @type \{any\} \*/ \()" + r'"\./(?:vendor/)?([\w.-]+\.js)"'
)
"""An import in a script of the page: the text before the module, and the name of the module."""


def pieces(
    view: View, entry: JSONObject, prompt: JSON = None, model_saw: Mapping[int, Sequence[str]] | None = None
) -> Iterator[str]:
    """Yield the text of the file.

    ``entry`` is the result of ``json_rows.recording`` for the recording, and ``prompt`` that of
    ``prompt_seen.prompt_in_file``. ``model_saw`` maps the number of a call to clauses about what the model
    saw of it.
    """
    saw = model_saw or {}
    modules = {path.name: path for path in (*STATIC.glob("*.js"), *(STATIC / "vendor").glob("*.js"))}
    scripts = {name: _script(path) for name, path in modules.items()}
    imports = json.dumps({"imports": {f"page/{name}": _data_url(text) for name, text in scripts.items()}})
    start = 'import "page/app.js";'
    style = style_sheets() + _read_text(STATIC / "vendor/uplot.css")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src data: {_policy_hash(imports)} {_policy_hash(start)}",
            f"style-src {_policy_hash(style)}",
            "img-src data: blob:",
            "media-src blob:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<title>mcpproxy</title>\n'
        f"<style>{style}</style>\n"
        f'<script type="importmap">{imports}</script>\n</head>\n<body>\n<div id="app"></div>\n'
    )
    calls: list[JSONObject] = []
    chunks: list[str] = []
    drawn: list[Detail] = []
    view.sort_parts()
    count = view.count()
    for first in range(1, count + 1, PER_CHUNK):
        numbers = range(first, min(first + PER_CHUNK, count + 1))
        chunk = [view.parts(number, json_rows.MOST_RECORDS) for number in numbers]
        # The block of all calls comes first in the file, but a call is read only once: here.
        calls += [json_rows.call(detail.call) for detail in chunk]
        drawn += chunk[: max(0, MOST_CALLS - len(drawn))]
        details: list[JSON] = [
            {**json_rows.detail(detail), "model_saw": [*saw.get(detail.call.number, ())]} for detail in chunk
        ]
        chunks.append(_block(f"chunk-{len(chunks)}", details))
    diagram = json_rows.sequence(sequence_of(view, drawn, count - len(drawn)))
    first_block = _first_block(view, entry, calls, len(chunks))
    yield _block("recording", {**first_block, "sequence": diagram, "prompt": prompt})
    yield from chunks
    yield f'<script type="module">{start}</script>\n</body>\n</html>\n'


def style_sheet() -> str:
    """Return the style sheet of the page, for other pages that look like it."""
    return _read_text(STATIC / "style.css")


def _first_block(view: View, entry: JSONObject, calls: list[JSONObject], chunks: int) -> JSONObject:
    """Return the first block: what the page shows, without the details of calls, sequence and prompt."""
    rules: dict[int, list[JSON]] = {}
    for finding in view.findings.with_texts():
        rules.setdefault(finding.row, []).append(finding.finding.rule)
    names = {session.number: session.name for session in view.sessions}
    for number, call in enumerate(calls, start=1):
        call["rules"] = rules.get(number, [])
        call["session_name"] = names.get(cast("int", call["session"]), "")
    return {
        "summary": {**json_rows.summary(view, entry), "running": False, "may_send": False},
        "calls": list(calls),
        "findings": json_rows.findings(view),
        "tools": json_rows.tools(view),
        "stats": json_rows.stats(view),
        "per_chunk": PER_CHUNK,
        "chunks": chunks,
    }


def _block(id: str, value: JSON) -> str:
    """Return a script element that holds ``value`` as compressed JSON in base64."""
    packed = b64encode(compress(json.dumps(value, separators=(",", ":")).encode("utf-8", "replace"))).decode()
    return f'<script type="application/octet-stream" id="{id}">{packed}</script>\n'


def _script(path: Path) -> str:
    """Return the text of a module. Its imports use the names of the import map."""
    return _IMPORT.sub(lambda match: f'{match[1]}"page/{match[2]}"', _read_text(path))


def _data_url(script: str) -> str:
    """Return a ``data:`` URL with the text of a script."""
    return "data:text/javascript;base64," + b64encode(script.encode()).decode()


def _policy_hash(text: str) -> str:
    """Return the source expression by which a Content-Security-Policy allows ``text``."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
