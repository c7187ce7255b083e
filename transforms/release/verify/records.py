"""Do the dialogues of a release hold together with its schemas, its JSON files, and the counts of its manifest?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from parapet.schemas.dialogue_table import service_of
from parapet.schemas.layout import DIALOGUE_FILE, SINGLE
from parapet.schemas.release_manifest import MANIFEST, Manifest
from parapet.schemas.service import Service, parse_service
from parapet.transforms.progress import advance, expect
from parapet.transforms.release.checks import KINDS, Fault, row_faults
from parapet.transforms.release.keys import key_text
from parapet.transforms.release.verify.copies import DIALOGUE, SERVICE, Copies
from parapet.transforms.release.verify.files import is_inside
from parapet.transforms.release.verify.findings import Findings
from parapet.transforms.release.verify.survey import WholeSplit
from parapet.transforms.release.verify.tables import Row, SplitTable

SCHEMAS = "schemas"
_STAGE = "checking rows"
_IN_FULL = 5  # faults of a kind that are reported in full
_COPY = re.compile(r"sgd/([^/]+)/(?:([^/]+)/)?([^/]+\.json)")

Services = dict[tuple[str, str], dict[str, Service]]  # corpus and split -> name -> service


class Records:
    """Checks the rows of every split and what they make together.

    Attributes:
      rows: read so far.
      services: of the schemas read so far.
      copies: the JSON files of each (record, corpus, split).
    """

    def __init__(self, root: Path, manifest: Manifest, found: Findings) -> None:
        self.root, self.manifest, self.found = root, manifest, found
        self.rows = 0
        self.services: Services = {}
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.faults: Counter[str] = Counter()
        self.damaged: set[tuple[str, str]] = set()  # configuration and split of files that could not be read
        self.copies = _copies(manifest)
        configs = manifest.configs
        self._places = [(name, split) for name, config in configs.items() for split in config.splits]

    def check_schemas(self) -> None:
        """Checks the schemas: before all others, for dialogues speak of them."""
        for name, split in self._places:
            if self.manifest.configs[name].record == "service":
                self._check_split(name, split)

    def check(self, whole: Mapping[tuple[str, str], WholeSplit]) -> None:
        """Checks all the rest, the schemas being checked.

        Args:
          whole: splits of dialogues whose rows are known to be those of their JSON files, and what they hold.
        """
        rest = [place for place in self._places if self.manifest.configs[place[0]].record != "service"]
        expect(sum(place not in whole for place in rest), "splits", _STAGE)
        for name, split in rest:
            if (name, split) in whole:
                self._add_whole(whole[name, split], name, split)
            else:
                self._check_split(name, split)
                advance(1, "splits", _STAGE)
        self._check_copies_have_rows()
        self._check_faults(rest)
        self._check_counts()

    def _add_whole(self, content: WholeSplit, name: str, split: str) -> None:
        self.counts["dialogues", name, split] += content.rows
        self.counts["turns", name, split] += content.turns
        self.rows += content.rows
        if (SCHEMAS, split) not in self.damaged:
            self.faults.update(content.faults)

    def _check_split(self, name: str, split: str) -> None:
        with self.found.guard("parquet", f"data/{name}"):
            self._read_split(name, split)

    def _read_split(self, name: str, split: str) -> None:
        table = SplitTable(self.root, self.manifest, name, split, self.found)
        record = self.manifest.configs[name].record
        if record == "dialogue":
            self._check_dialogues(table, name, split)
        elif record == "service":
            self._check_services(table, split)
        else:
            for _, row in table.read():
                if record == "paraphrase":
                    self._count_paraphrase(row)
        self.rows += table.rows
        if table.unread:
            self.damaged.add((name, split))

    def _check_dialogues(self, table: SplitTable, corpus: str, split: str) -> None:
        copies = Copies(self.root, DIALOGUE, self.found)
        copies.read(self.copies.get(("dialogue", corpus, split), []), "")
        self.counts["dialogues", corpus, split] += 0
        for path, row in table.read():
            where = f"dialogue {row['dialogue_id']}"
            with self.found.guard("faults", path, where):
                self.counts["dialogues", corpus, split] += 1
                self.counts["turns", corpus, split] += len(row["turns"] or ())
                copies.compare(path, row["dialogue_id"], row)
                self.faults.update(fault.kind for fault in self._faults(row, corpus, split))
        copies.finish(table.missed, f"data/{corpus}/{split}")

    def _faults(self, row: Row, corpus: str, split: str) -> Iterator[Fault]:
        if (SCHEMAS, split) not in self.damaged:  # reported already, and without its schemas nothing can be checked
            yield from row_faults(row, self.services.get((corpus, split), {}))

    def _check_services(self, table: SplitTable, split: str) -> None:
        copies = Copies(self.root, SERVICE, self.found)
        for (kind, corpus, of_split), paths in self.copies.items():
            if kind == "service" and of_split == split:
                copies.read(paths, f"{corpus}\0")
        for path, row in table.read():
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
                copies.read(paths, "")
                copies.finish(lambda _: False, f"data/{name}/{split}")

    def _check_faults(self, places: Iterable[tuple[str, str]]) -> None:
        """Faults that were published knowingly are fine, up to the number that the manifest has."""
        known = self.manifest.known_problems
        beyond = {kind: n for kind, n in self.faults.items() if n > known.get(kind, 0)}
        for path, where, fault in self._first_faults(beyond, places):
            self.found.add("faults", path, where, f"{fault.where}: {fault.reason}")
        for kind in sorted(beyond):
            n_known = known.get(kind, 0)
            if n_known or beyond[kind] > _IN_FULL:
                reason = f"{beyond[kind]:,} faults of this kind ({KINDS[kind]}), {n_known:,} of them known"
                self.found.add("faults", MANIFEST, f"known_problems.{kind}", reason)
        if not self.damaged:
            for kind, n_known in sorted(known.items()):
                if n_known > self.faults[kind]:
                    self._check_count(f"known_problems.{kind}", n_known, self.faults[kind])

    def _first_faults(
        self, counts: Mapping[str, int], places: Iterable[tuple[str, str]]
    ) -> Iterator[tuple[str, str, Fault]]:
        """Yields the first of some kinds, with the file and the dialogue: reads rows again until it has them."""
        left = Counter({kind: min(n, _IN_FULL) for kind, n in counts.items()})
        unheard = Findings()  # all of it was reported
        for name, split in places:
            if left.total() and self.manifest.configs[name].record == "dialogue":
                with unheard.guard("parquet", f"data/{name}"):
                    yield from self._first_of_split(left, SplitTable(self.root, self.manifest, name, split, unheard))

    def _first_of_split(self, left: Counter[str], table: SplitTable) -> Iterator[tuple[str, str, Fault]]:
        for path, row in table.read():
            where = f"dialogue {row['dialogue_id']}"
            with table.found.guard("faults", path, where):
                for fault in self._faults(row, table.name, table.split):
                    if left[fault.kind]:
                        left[fault.kind] -= 1
                        yield path, where, fault
            if not left.total():
                return

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
