"""The output folder of an evaluation: whole files, ``run.json`` last, as every other command writes them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any


def json_bytes(value: Any) -> bytes:
    """JSON as the outputs have it: sorted keys, numbers in full, null where a number is not defined."""
    return (json.dumps(_defined(value), indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _defined(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _defined(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_defined(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sha256_of(path: Any) -> str:
    """The hash of a file that was read, for ``run.json``. ``path`` has an ``open``, as of ``layout.as_path``."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def publish(output: str, files: Mapping[str, bytes], header: Mapping[str, Any]) -> None:
    """Writes the files under temporary names, moves them into place, and writes ``run.json`` last.

    Args:
      output: the folder, local or of a bucket.
      files: path below it to content.
      header: what ``run.json`` says besides the files: at least ``pipeline``.

    Raises:
      InputError: the folder cannot be written, holds another command's output, or files that were changed by hand.
    """
    from parapet.transforms import files as whole  # Beam knows buckets, and takes a second to be imported

    whole.prepare(output, str(header["pipeline"]))
    written = [whole.write_staged(output, relative, files[relative]) for relative in sorted(files)]
    listed = {path: {"bytes": size, "sha256": digest} for path, digest, size in written}
    whole.publish(output, {**header, "files": listed})
