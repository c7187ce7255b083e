"""``make sbom``: the bill of materials (CycloneDX 1.6, JSON) of a lock file: ``sbom.py LOCK OUTPUT``.

cyclonedx-bom reads the lock; added are who it is of, and Parapet itself, from CITATION.cff and setup.py. The same lock
gives the same bytes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NAME = "parapet-dialogue"


def described(lock: Path) -> dict[str, Any]:
    """The components of a lock file."""
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--spec-version", "1.6"]
    made = subprocess.run([*command, "--output-format", "JSON", str(lock)], check=True, capture_output=True, text=True)
    bom: dict[str, Any] = json.loads(made.stdout)
    return bom


def with_project(bom: dict[str, Any], version: str) -> dict[str, Any]:
    """The bill with Parapet as what it is of, and a serial number that its content gives."""
    purl = f"pkg:pypi/{NAME}@{version}"
    project = {
        "type": "application",
        "bom-ref": purl,
        "name": NAME,
        "version": version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "purl": purl,
    }
    bom["metadata"] = {**bom.get("metadata", {}), "component": project}
    for one in bom["components"]:
        one["bom-ref"] = one["purl"]
        one.pop("description", None)  # the line of the lock
    refs = sorted(one["bom-ref"] for one in bom["components"])
    bom["dependencies"] = [{"ref": purl, "dependsOn": refs}, *({"ref": ref} for ref in refs)]
    bom.pop("serialNumber", None)
    digest = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True))
    return {**bom, "serialNumber": f"urn:uuid:{digest}"}


def check(text: str) -> None:
    """Raises where a bill does not fit the schema of CycloneDX."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        sys.exit(f"the bill of materials does not fit its schema: {error}")


def main() -> None:
    """Writes the bill."""
    lock, output = Path(sys.argv[1]), Path(sys.argv[2])
    match = re.search(r'^VERSION = "(.+)"$', (ROOT / "setup.py").read_text(), re.MULTILINE)
    assert match
    bom = with_project(described(lock), match[1])
    text = json.dumps(bom, indent=2, ensure_ascii=False) + "\n"
    check(text)
    output.write_text(text, encoding="utf-8")
    print(f"{output}: {len(bom['components'])} components")


if __name__ == "__main__":
    main()
