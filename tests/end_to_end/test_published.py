"""The published data of SGD-X, composed again: the checks beside the data hold, and so do the figures of the docs."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from folders import files_of
from two_workers import THOROUGH

from pipelines.main import main


def compose(output: Path, *flags: object) -> int:
    return main(["compose", "--output", str(output), *map(str, flags)])


def test_the_published_variants_come_back(real_data: Path, tmp_path: Path) -> None:
    """With a careful reviewer's decisions the five texts are the published ones; without, vetting holds."""
    sgd, batch, checks = real_data / "sgd", real_data / "mturk", real_data / "checks"
    decisions = subprocess.run([sys.executable, checks / "make_decisions.py", batch], capture_output=True, check=True)
    (tmp_path / "decisions.csv").write_bytes(decisions.stdout)
    csvs = [batch / "names.csv", batch / "descriptions.csv"]
    flags = ["--schemas", sgd, "--decisions", tmp_path / "decisions.csv", "--require_complete"]
    assert compose(tmp_path / "csv", *flags, "--responses", *csvs) == 0
    if THOROUGH:  # that any mix of exports gives the same is shown on the sample
        assert compose(tmp_path / "api", *flags, "--responses", batch / "assignments.jsonl") == 0
        assert compose(tmp_path / "both", *flags, "--responses", batch / "assignments.jsonl", *csvs) == 0
        for other in ("api", "both"):
            assert files_of(tmp_path / other) == files_of(tmp_path / "csv")
    assert compose(tmp_path / "vetted", "--schemas", sgd, "--responses", *csvs) == 0
    said = ""
    for arguments in ([tmp_path / "csv", sgd, batch], [tmp_path / "vetted", sgd, batch, "--vetting"]):
        check = subprocess.run(
            [sys.executable, checks / "check_compose.py", *arguments], capture_output=True, text=True
        )
        assert check.returncode == 0, check.stdout
        assert "all holds" in check.stdout
        said += check.stdout
    check_the_page(said)


def check_the_page(said: str) -> None:
    """The figures of ``docs/method.md`` on 34 services are those that the checks have just printed."""
    page = (Path(__file__).parents[2] / "docs/method.md").read_text(encoding="utf-8")
    same = re.findall(r"identical ([0-9.]+) %", said)
    assert f"identical*, text by text, for {same[0]} % of names and {same[1]} % of descriptions (34" in " ".join(
        page.split()
    )
    agrees = re.findall(r"agrees with the distances ([0-9.]+) %", said)[1]
    assert f"| a, an, the | `--stopwords articles` (default) | {agrees} % |" in page
    found = {line.split()[0]: line.split()[1:] for line in said.splitlines() if re.match(r"\w+ +\d+  ", line)}
    for label, row in (("prompt_copy", "copies of the prompt"), ("foreign", "another language")):
        shares = {name: share.replace("%", " %").replace("100.0", "100") for name, share in pairwise(found[label][1:])}
        cells = (found[label][0], shares.get("rejected", ""), shares.get("review", ""))
        assert f"| {row} | {' | '.join(cells)} | |".replace("|  |", "| |") in page, label
    spoilt = ("blank", "placeholder", "gibberish", "markup", "original_copy", "too_long", "spam_worker")
    assert all(found[label][1:] == ["rejected", "100.0%"] for label in spoilt)
    held = float(dict(pairwise(found["genuine"][1:]))["review"].rstrip("%"))
    assert "rejected" not in found["genuine"]
    assert f"| {sum(int(found[label][0]) for label in spoilt):,} | 100 % |" in page
    assert f"| genuine | {int(found['genuine'][0]):,} | 0 % | {held} % | {100 - held:.1f} % |" in page
