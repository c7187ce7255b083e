"""Hashes of what every command writes on the sample, to compare a step of the rewrite with the step before.

python tests/golden.py record PLACE HASHES.json
python tests/golden.py compare HASHES.json OTHER.json

Pages, cards, charts and records of runs (times, versions) are left out. The script goes when the code has been
reduced.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "end_to_end")]

from matrix.producers import produce  # noqa: E402

PAGES = {".html", ".md", ".svg", ".png", ".css", ".js"}
RUNS = {"run.json", "costs.json", "timings.json", "report.json"}


def hashes(out: Path) -> dict[str, str]:
    """SHA-256 of each file that has to stay the same, by its path under OUT."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in sorted(out.rglob("*"))
        if path.is_file()
        and path.suffix not in PAGES
        and path.name not in RUNS
        and not any(part.startswith(".") for part in path.relative_to(out).parts)
    }


def record(place: Path, target: Path) -> int:
    statuses = dict(produce(place))
    target.write_text(json.dumps({"statuses": statuses, "files": hashes(place / "out")}, indent=1, sort_keys=True))
    failures = [name for name, status in statuses.items() if status]
    print(f"{len(statuses)} commands, {len(failures)} failed: {failures}")
    return 1 if failures else 0


def compare(before: Path, after: Path) -> int:
    old, new = (json.loads(path.read_text()) for path in (before, after))
    lines = [f"status {name}: {old['statuses'].get(name)} -> {new['statuses'].get(name)}"
             for name in sorted({*old["statuses"], *new["statuses"]})
             if old["statuses"].get(name) != new["statuses"].get(name)]  # fmt: skip
    for name in sorted({*old["files"], *new["files"]}):
        was, is_now = old["files"].get(name), new["files"].get(name)
        if was != is_now:
            lines.append(f"{'new' if was is None else 'gone' if is_now is None else 'changed'}: {name}")
    print("\n".join([*lines, f"{len(lines)} differences in {len(old['files'])} files"]))
    return 1 if lines else 0


if __name__ == "__main__":
    action, first, second = sys.argv[1:]
    sys.exit((record if action == "record" else compare)(Path(first), Path(second)))
