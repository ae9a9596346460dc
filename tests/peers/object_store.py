"""SeaweedFS, a real server of S3: started, killed and started again on the same folder and ports."""

import json
import os
import subprocess
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests import descriptors
from tests.descriptors import POOLED_PORTS
from tests.peers.ports import free_ports

ACCESS_KEY: Final = "fleet-test-access"
SECRET_KEY: Final = "fleet-test-secret-0123456789"

_SERVICES: Final = ("master", "volume", "filer", "s3")
_START_TIMEOUT_S: Final = 90
BUCKET: Final = "recordings"
"""The bucket that is there once the server is ready."""


class ObjectStore:
    """A server that keeps its objects in ``folder``. ``variables`` is the environment of its clients.

    ``settings`` is added to its own.
    """

    def __init__(self, program: Path, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        identity = {
            "name": "test",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin"],
        }
        config = folder / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        (folder / "data").mkdir(exist_ok=True)
        ports = free_ports(2 * len(_SERVICES))
        self._s3_port: Final = ports[_SERVICES.index("s3")]
        POOLED_PORTS.add(self._s3_port)
        self._log: Final = folder / "log.txt"
        self._command: Final = [
            str(program), "-v=0", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder / 'data'}",
            "-s3", "-s3.autoCreateBucket", "-s3.port.iceberg=0", "-s3.port.lance=0",
            f"-s3.config={config}", "-s3.iam=false", "-master.volumeSizeLimitMB=64", "-volume.max=40",
            "-master.telemetry=false", "-volume.index=leveldb",
            *(f"-{name}.port={port}" for name, port in zip(_SERVICES, ports, strict=False)),
            *(f"-{name}.port.grpc={port}" for name, port in zip(_SERVICES, ports[4:], strict=True)),
        ]  # fmt: skip
        self._settings: Final = settings or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def variables(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._s3_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }

    @property
    def pid(self) -> int:
        """The process; it must be running."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server, without waiting until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._log.parent,
                env={**os.environ, **self._settings},
            )

    def wait_until_ready(self) -> None:
        """Wait until an object can be written, which makes the bucket."""
        before = descriptors.sockets()
        self._write_ready()
        while descriptors.sockets() - before:  # a thread closes the connection behind us
            time.sleep(0.01)

    def _write_ready(self) -> None:
        names = self.variables
        store = S3Store(
            BUCKET,
            endpoint=names["AWS_ENDPOINT_URL"],
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            region=names["AWS_REGION"],
            client_options={"allow_http": True, "timeout": timedelta(seconds=20)},
            retry_config={"max_retries": 50, "retry_timeout": timedelta(seconds=10)},
        )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
            try:
                store.put("ready/ready", b"ready")  # tried again for some seconds
            except BaseError:
                assert time.monotonic() < deadline, self._log.read_text(errors="replace")[-2000:]
            else:
                return

    def kill(self) -> None:
        """Kill the server. What it has answered is in its files."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
