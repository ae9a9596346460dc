"""Libraries of others are vendored unchanged, with a license, a version and a hash."""

import tomllib
from hashlib import sha256
from pathlib import Path

import mcpproxy.show.ui

VENDOR = Path(mcpproxy.show.ui.__file__).parent / "static" / "vendor"


def test_every_file_is_what_its_package_has() -> None:
    rows = tomllib.loads((VENDOR / "vendor.toml").read_text(encoding="utf-8"))
    licenses = {name for row in rows.values() for name in row["license"]}
    assert {path.name for path in VENDOR.iterdir()} == {"vendor.toml", *rows, *licenses}
    for name, row in rows.items():
        assert sha256((VENDOR / name).read_bytes()).hexdigest() == row["sha256"], name
