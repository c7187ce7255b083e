"""Google Cloud Storage on this machine: gcp-storage-emulator in memory, behind the real clients."""

import base64
import hashlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
import requests
from apache_beam.internal.gcp import auth
from gcp_storage_emulator.handlers.buckets import create_bucket
from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage
from kit import files_of
from local_http import LocalService

from parapet.schemas.layout import sample_root


class _Server(LocalService):
    """A connection may stand still while its client waits for another: the garbage of one is collected in the other."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self.storage = storage

    def finish_request(self, request: Any, client_address: Any) -> None:
        _Handler(self.storage, request, client_address, self)


class _Handler(RequestHandler):
    timeout = 20  # seconds until a client is given up that is gone
    lock = threading.Lock()  # of the storage, which is for one thread

    def answer(self) -> None:
        with self.lock:
            getattr(RequestHandler, f"do_{self.command}")(self)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer


class _Watched(Storage):
    """Tells of every object before it is written."""

    watch: Callable[[str], None] = staticmethod(lambda name: None)

    def _write_config_to_file(self) -> None:
        """Nothing is kept, and writing the list of all objects for each would take most of the time."""

    def create_file(self, bucket_name: str, file_name: str, *rest: Any, **more: Any) -> None:
        self.watch(file_name)
        super().create_file(bucket_name, file_name, *rest, **more)


class Bucket:
    """A bucket. While the block lasts ``STORAGE_EMULATOR_HOST`` names its server, and nobody looks for credentials."""

    def __init__(self, name: str) -> None:
        self.url = f"gs://{name}"
        self.name = name
        self.storage = _Watched(use_memory_fs=True)
        create_bucket(name, self.storage)
        self.storage.buckets[name]["softDeletePolicy"] = {"retentionDurationSeconds": 0}
        self.put("sgd", sample_root())

    def __enter__(self) -> "Bucket":
        for name in list(logging.root.manager.loggerDict):
            if name.startswith(("gcp_storage_emulator", "api.")):
                logging.getLogger(name).disabled = True
        self.server = _Server(self.storage).start()
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("STORAGE_EMULATOR_HOST", self.server.url)
        self.patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # which asks the real service what a bucket is
        self.patch.setattr(auth._Credentials, "_credentials_init", True)  # or Beam looks for them for half a minute
        return self

    def __exit__(self, *_: object) -> None:
        self.patch.undo()
        self.server.stop()

    def put(self, prefix: str, folder: Path) -> None:
        """Copies a local folder into the bucket."""
        for name, data in files_of(folder).items():
            self.write(f"{prefix}/{name}", data)

    def write(self, name: str, data: bytes) -> None:
        """Writes an object."""
        facts = {"name": name, "bucket": self.name, "size": str(len(data)), "generation": "1", "metageneration": "1"}
        facts |= {"contentType": "application/octet-stream", "updated": "2020-01-01T00:00:00.000000Z"}
        digests = {"md5Hash": hashlib.md5(data), "crc32c": google_crc32c.Checksum(data)}  # else no download ends
        facts |= {key: base64.b64encode(digest.digest()).decode() for key, digest in digests.items()}
        self.storage.create_file(self.name, name, data, facts)

    def tree(self, prefix: str) -> dict[str, bytes]:
        """The objects below a prefix, with their contents."""
        names = [name for name in self.storage.objects.get(self.name, {}) if name.startswith(f"{prefix}/")]
        return {name.removeprefix(f"{prefix}/"): self.storage.get_file(self.name, name) for name in names}


class CutOffError(BaseException):
    """Nothing catches it."""


def cut_off(changes: int, call: Callable[..., Any]) -> Callable[..., Any]:
    """A function that raises CutOffError before the main thread changes a bucket once more than so many times."""
    real = requests.Session.request

    def request(session: requests.Session, method: str, url: str, *args: Any, **options: Any) -> Any:
        nonlocal changes
        if threading.current_thread() is threading.main_thread():  # clients ask about buckets in others
            changes -= method != "GET"
            if changes < 0:
                raise CutOffError
        return real(session, method, url, *args, **options)

    def called(*args: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(requests.Session, "request", request)
            return call(*args)

    return called
