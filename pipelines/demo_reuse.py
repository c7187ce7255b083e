"""What an earlier demo has made is not made again, as long as nothing that it comes from has changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from parapet.schemas.distribution import code_sha256

RECORD = ".demo.json"  # stage to the fingerprint of what it was made from


class Made:
    """The stages of a demo, asked in their order.

    A stage's fingerprint is of our sources, of all stages before it, and of its flags.

    Args:
      folder: the demo's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fingerprint = hashlib.sha256(code_sha256().encode() + _worker_key()).hexdigest()
        try:
            self._record = dict(json.loads((folder / RECORD).read_bytes()))
        except (OSError, ValueError, TypeError):
            self._record = {}

    def before(self, stage: str, flags: Sequence[str], pages: Sequence[str]) -> bool:
        """Whether a stage stands as it would be made now. One that does not is forgotten until it is made."""
        flags = [flag.replace(str(self.folder), "OUT") for flag in flags]
        told = json.dumps([self._fingerprint, stage, flags])
        self._fingerprint = hashlib.sha256(told.encode()).hexdigest()
        there = all((self.folder / stage / page).is_file() for page in pages)
        if there and self._record.get(stage) == self._fingerprint:
            return True
        if self._record.pop(stage, None) is not None:
            self._write()
        return False

    def now(self, stage: str) -> None:
        """A stage has been made."""
        self._record[stage] = self._fingerprint
        self._write()

    def _write(self) -> None:
        part = self.folder / f"{RECORD}.part"
        part.write_text(json.dumps(self._record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(part, self.folder / RECORD)


def _worker_key() -> bytes:
    """The key that worker ids are hashed with: answers made with another one look different."""
    from parapet.transforms.crowd.worker_key import load_worker_key

    return hashlib.sha256(load_worker_key()).digest()
