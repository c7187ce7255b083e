"""Findings, kept as small files: a test runs each again."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from fuzzing.running import Found
from fuzzing.watching import Finding

FOLDER = Path(__file__).parent / "seeds"


def write(found: Found) -> Path:
    """Writes a finding. One of the same target and kind is overwritten."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", f"{found.target}-{found.finding.kind}")[:100].strip("_")
    path = FOLDER / f"{name}.json"
    FOLDER.mkdir(exist_ok=True)
    content = {"target": found.target, "kind": found.finding.kind, "records": found.records}
    if found.data is not None:
        content["data"] = base64.b64encode(found.data).decode()
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def read(path: Path) -> Found:
    """A finding as it was written."""
    content = json.loads(path.read_bytes())
    data = base64.b64decode(content["data"]) if "data" in content else None
    return Found(content["target"], Finding(content["kind"]), content["records"], data)
