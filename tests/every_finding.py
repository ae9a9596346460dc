"""Prints all findings of all fixtures and recordings as JSON.

    python -m tests.every_finding               with the revisions as they are
    python -m tests.every_finding 2027-06-30    with another revision appended, as the recipe says

The recipe appends a name to ``REVISIONS`` and does nothing else. The modules of mcpproxy read that tuple when
they are imported, so a revision is appended to the module's text, in a process of its own.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

MODULE: Final = "mcpproxy.protocol.revisions"
RECORDINGS: Final = Path(__file__).parent.parent / "recordings"

Findings = dict[str, list[dict[str, Any]]]


def append(revision: str) -> None:
    """Import the revisions with ``revision`` as the last of ``REVISIONS``."""
    spec = find_spec(MODULE)
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text("utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("REVISIONS: Final = (")]
    module = module_from_spec(spec)
    sys.modules[MODULE] = module
    appended = text.replace(line, f'{line.removesuffix(")")}, "{revision}")')
    exec(compile(appended, spec.origin, "exec"), module.__dict__)


def of_fixtures(revisions: tuple[str, ...], spoken: str | None = None) -> Findings:
    """What each fixture gives in those of ``revisions`` that it is tried in, or in ``spoken`` instead."""
    from tests.rules.runner import fixtures, judged

    return {
        f"{fixture} {revision}": [asdict(found) for found in judged(fixture, spoken or revision).findings]
        for fixture in fixtures()
        for revision in fixture.revisions
        if revision in revisions and (spoken is None or spoken in fixture.revisions)
    }


def surprises(revision: str) -> list[str]:
    """What the fixtures do not expect in ``revision``."""
    from tests.rules.runner import fixtures, judged

    verdicts = (judged(fixture, revision) for fixture in fixtures() if revision in fixture.revisions)
    return [verdict.surprise for verdict in verdicts if verdict.surprise]


def of_recordings(newest: str, spoken: str | None = None) -> Findings:
    """What each recording gives; with ``spoken``, those of ``newest``, as if they spoke that."""
    from mcpproxy.read.opening import open_trace

    found: Findings = {}
    with TemporaryDirectory() as folder:
        for recording in sorted(RECORDINGS.glob("*.jsonl")):
            text = recording.read_text("utf-8")
            if spoken is not None and newest not in recording.name:
                continue
            copy = Path(folder, recording.name)
            copy.write_text(text.replace(newest, spoken or newest), "utf-8")
            found[recording.name] = list(_judged(open_trace(copy).events()))
    return found


def _judged(events: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Yield the findings of one recording, judged again; recorded findings are ignored."""
    from mcpproxy.judge.observer import Observer
    from mcpproxy.judge.ruleset import catalogue
    from mcpproxy.judge.session.frame import Finding

    observer = Observer(catalogue.load())
    for event in events:
        if not isinstance(event, Finding):
            yield from (asdict(finding) for finding in observer.observe(event))


def every_finding(appended: str | None) -> dict[str, Any]:
    """All findings, and what the fixtures do not expect, with the revisions that this process knows."""
    from mcpproxy.protocol.revisions import ACP, REVISIONS

    published = tuple(revision for revision in REVISIONS if revision != appended)
    newest = published[-1]
    found = {"published": of_fixtures((*published, *ACP)) | of_recordings(newest)}
    if appended is not None:
        found["appended"] = of_fixtures((newest,), appended) | of_recordings(newest, appended)
    return {**found, "surprises": surprises(appended or newest)}


def main(appended: str | None) -> None:
    if appended is not None:
        append(appended)
    json.dump(every_finding(appended), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:2] or [None])
