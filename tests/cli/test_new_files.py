"""Commands that make a new file refuse a name before they read the recording."""

from pathlib import Path

import pytest

from tests.cli.conftest import Mcpproxy

COMMANDS = {
    "html": ("export", "html", "IN", "-o", "OUT"),
    "har": ("export", "har", "IN", "-o", "OUT"),
    "pcapng": ("export", "pcapng", "IN", "-o", "OUT"),
    "otlp": ("export", "otlp", "IN", "-o", "OUT"),
    "redact": ("redact", "IN", "--preset", "secrets", "-o", "OUT"),
    "trim": ("trim", "IN", "--filter", "status:error", "-o", "OUT"),
    "import": ("import", "IN", "-o", "OUT"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("there", "exists already; name another file with -o"),
        ("link", "exists already; name another file with -o"),
        ("nowhere/new", "its folder does not exist; create it first"),
    ],
)
def test_a_name_is_refused_before_the_recording_is_read(
    mcpproxy: Mcpproxy, tmp_path: Path, command: tuple[str, ...], name: str, says: str
) -> None:
    recording, out = tmp_path / "s.jsonl", tmp_path / name
    recording.write_bytes(b"no recording\n")  # whoever reads it says so
    (tmp_path / "there").write_text("mine")
    (tmp_path / "link").symlink_to("nothing")
    files = {"IN": str(recording), "OUT": str(out)}
    refused = mcpproxy(*(files.get(word, word) for word in command))
    assert (refused.code, refused.out, refused.err) == (2, "", f"mcpproxy: {out}: {says}\n")
    assert (tmp_path / "there").read_text() == "mine"
