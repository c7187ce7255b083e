"""The key with which worker ids are hashed: created on first use and kept, so that a worker's hash stays the same."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from parapet.schemas.errors import InputError
from parapet.transforms import durable

VARIABLE = "PARAPET_WORKER_KEY"


def key_file() -> Path:
    """Where the key is kept when the environment names none."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "parapet" / "worker_key"


def load_worker_key() -> bytes:
    """The key from ``PARAPET_WORKER_KEY``, or from the key file, which is created where it is absent (mode 0600).

    Raises:
      InputError: the key is shorter than 16 characters, or the file cannot be written.
    """
    key = os.environ.get(VARIABLE, "")
    if key:
        return _checked(key.encode(), VARIABLE)
    path = key_file()
    try:
        durable.make_folder(path.parent)
        # Two first runs at once must agree on one key: linking fails for the second, whose key is dropped.
        fresh = path.with_name(f".{path.name}-{os.getpid()}")
        if not path.exists():
            fresh.touch(mode=0o600)
            fresh.write_text(secrets.token_hex(32), encoding="ascii")
            durable.sync(fresh)
            try:
                os.link(fresh, path)
                durable.sync(path.parent)
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        return _checked(path.read_bytes().strip(), path)
    except OSError as error:
        raise InputError(f"cannot keep the worker key: {error.strerror}; set {VARIABLE} instead", path) from None


def _checked(key: bytes, place: object) -> bytes:
    if len(key) < 16:
        raise InputError("the key has under 16 characters; worker ids could be guessed from their hashes", place)
    return key
