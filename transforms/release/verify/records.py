"""Do the dialogues of a release hold together with its schemas, its JSON files, and the counts of its manifest?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from parapet.schemas.dialogue_table import service_of
from parapet.schemas.layout import DIALOGUE_FILE, SINGLE
from parapet.schemas.release_manifest import MANIFEST, Manifest
from parapet.schemas.service import Service, parse_service
from parapet.transforms.release.checks import KINDS, Fault, row_faults
from parapet.transforms.release.keys import key_text
from parapet.transforms.release.verify.copies import DIALOGUE, SERVICE, Copies
from parapet.transforms.release.verify.files import Progress, is_inside
from parapet.transforms.release.verify.findings import Findings
from parapet.transforms.release.verify.tables import Row, SplitTable

SCHEMAS = "schemas"
_IN_FULL = 5  # faults of a kind that are reported in full
_COPY = re.compile(r"sgd/([^/]+)/(?:([^/]+)/)?([^/]+\.json)")

Services = dict[tuple[str, str], dict[str, Service]]  # corpus and split -> name -> service


class Records:
    """Checks the rows of every split and what they make together.

    Attributes:
      rows: read so far.
    """

    def __init__(self, root: Path, manifest: Manifest, found: Findings, progress: Progress) -> None:
        self.root, self.manifest, self.found, self.progress = root, manifest, found, progress
        self.rows = 0
        self.services: Services = {}
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.faults: Counter[str] = Counter()
        self.first_faults: list[tuple[str, str, Fault]] = []
        self.damaged: set[tuple[str, str]] = set()  # configuration and split of files that could not be read
        self.copies = _copies(manifest)

    def check(self) -> None:
        """Checks all; schemas first, for dialogues speak of them."""
        configs = self.manifest.configs
        places = [(name, split) for name, config in configs.items() for split in config.splits]
        for name, split in sorted(places, key=lambda place: configs[place[0]].record != "service"):
            with self.found.guard("parquet", f"data/{name}"):
                self._check_split(name, split)
        self._check_copies_have_rows()
        _check_faults(self.faults, self.first_faults, self.manifest.known_problems, self.found)
        self._check_counts()

    def _check_split(self, name: str, split: str) -> None:
        table = SplitTable(self.root, self.manifest, name, split, self.found)
        record = self.manifest.configs[name].record
        if record == "dialogue":
            self._check_dialogues(table, name, split)
        elif record == "service":
            self._check_services(table, split)
        else:
            for _, row in table.read(self.progress):
                if record == "paraphrase":
                    self._count_paraphrase(row)
        self.rows += table.rows
        if table.unread:
            self.damaged.add((name, split))

    def _check_dialogues(self, table: SplitTable, corpus: str, split: str) -> None:
        copies = Copies(self.root, DIALOGUE, self.found)
        copies.read(self.copies.get(("dialogue", corpus, split), []), "", self.progress)
        self.counts["dialogues", corpus, split] += 0
        for path, row in table.read(self.progress):
            where = f"dialogue {row['dialogue_id']}"
            with self.found.guard("faults", path, where):
                self.counts["dialogues", corpus, split] += 1
                self.counts["turns", corpus, split] += len(row["turns"] or ())
                copies.compare(path, row["dialogue_id"], row)
                self._count_faults(path, where, row, corpus, split)
        copies.finish(table.missed, f"data/{corpus}/{split}")

    def _count_faults(self, path: str, where: str, row: Row, corpus: str, split: str) -> None:
        if (SCHEMAS, split) in self.damaged:  # reported already, and without its schemas nothing can be checked
            return
        for fault in row_faults(row, self.services.get((corpus, split), {})):
            self.faults[fault.kind] += 1
            if self.faults[fault.kind] <= _IN_FULL:
                self.first_faults.append((path, where, fault))

    def _check_services(self, table: SplitTable, split: str) -> None:
        copies = Copies(self.root, SERVICE, self.found)
        for (kind, corpus, of_split), paths in self.copies.items():
            if kind == "service" and of_split == split:
                copies.read(paths, f"{corpus}\0", self.progress)
        for path, row in table.read(self.progress):
            corpus, where = row["variant"], f"service {row['variant']}/{row['service_name']}"
            with self.found.guard("faults", path, where):
                self.counts["services", corpus, split] += 1
                self.counts["intents", corpus, split] += len(row["intents"] or ())
                self.counts["slots", corpus, split] += len(row["slots"] or ())
                copies.compare(path, key_text(row, ["variant", "service_name"]), row)
                service = parse_service(service_of(row), path)
                self.services.setdefault((corpus, split), {})[service.service_name] = service
        copies.finish(table.missed, f"data/{SCHEMAS}/{split}")

    def _count_paraphrase(self, row: Mapping[str, Any]) -> None:
        self.counts["disposition", str(row.get("disposition")), ""] += 1
        if row.get("disposition") == "rejected":
            self.counts["rejection", str(row.get("reason")).partition(":")[0], ""] += 1

    def _check_copies_have_rows(self) -> None:
        """A corpus may have no configuration at all, where its files hold nothing."""
        for (kind, corpus, split), paths in self.copies.items():
            name = SCHEMAS if kind == "service" else corpus
            config = self.manifest.configs.get(name)
            if config is None or split not in config.splits:
                copies = Copies(self.root, SERVICE if kind == "service" else DIALOGUE, self.found)
                copies.read(paths, "", self.progress)
                copies.finish(lambda _: False, f"data/{name}/{split}")

    def _check_counts(self) -> None:
        manifest = self.manifest
        for what in ("services", "intents", "slots", "dialogues", "turns"):
            stated = {
                (what, corpus, split): n
                for corpus, splits in manifest.counts.get(what, {}).items()
                for split, n in splits.items()
            }
            for place in sorted({*stated, *(place for place in self.counts if place[0] == what)}):
                _, corpus, split = place
                if (SCHEMAS if what in ("services", "intents", "slots") else corpus, split) not in self.damaged:
                    self._check_count(f"counts.{what}.{corpus}.{split}", stated.get(place, 0), self.counts[place])
        if any(manifest.configs[name].record == "paraphrase" for name, _ in self.damaged):
            return
        for what, told_of in (("disposition", manifest.dispositions), ("rejection", manifest.rejections)):
            for name in sorted({*told_of, *(place[1] for place in self.counts if place[0] == what)}):
                self._check_count(f"{what}s.{name}", told_of.get(name, 0), self.counts[what, name, ""])

    def _check_count(self, where: str, stated: int, counted: int) -> None:
        if stated != counted:
            self.found.add("counts", MANIFEST, where, f"is {stated:,}, but there are {counted:,}")


def _copies(manifest: Manifest) -> dict[tuple[str, str, str], list[str]]:
    """The JSON files of each (record, corpus, split), in order."""
    copies: dict[tuple[str, str, str], list[str]] = {}
    for path in sorted({file.path for file in manifest.files if is_inside(file.path)}):
        if not (match := _COPY.fullmatch(path)):
            continue
        corpus, split, name = match[1], match[2] or SINGLE, match[3]
        if name == "schema.json":
            copies.setdefault(("service", corpus, split), []).append(path)
        elif DIALOGUE_FILE.fullmatch(name):
            copies.setdefault(("dialogue", corpus, split), []).append(path)
    return copies


def _check_faults(
    faults: Mapping[str, int],
    first: Iterable[tuple[str, str, Fault]],
    known: Mapping[str, int],
    found: Findings,
) -> None:
    """Faults that were published knowingly are fine, up to the number that the manifest has."""
    beyond = {kind for kind, n in faults.items() if n > known.get(kind, 0)}
    for path, where, fault in first:
        if fault.kind in beyond:
            found.add("faults", path, where, f"{fault.where}: {fault.reason}")
    for kind in sorted(beyond):
        n_known = known.get(kind, 0)
        if n_known or faults[kind] > _IN_FULL:
            reason = f"{faults[kind]:,} faults of this kind ({KINDS[kind]}), {n_known:,} of them known"
            found.add("faults", MANIFEST, f"known_problems.{kind}", reason)
