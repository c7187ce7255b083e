"""Table 1 of a corpus: which services of it are measured, and what is written about them.

``parapet.transforms.table1`` has the measures, ``parapet.transforms.table1_report`` the page. Nothing here imports
Beam before it is used, so that wrong input is reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import (
    SINGLE,
    TEST,
    TRAIN,
    SplitSchemas,
    as_path,
    is_root,
    is_there,
    read_root,
    services_by_name,
    split_of_folder,
    variant_roots,
)
from parapet.schemas.published import check_variants
from parapet.schemas.service import Service
from parapet.transforms import table1
from parapet.transforms.fence import needed

Read = Callable[[str | Path], list[SplitSchemas]]


class Item(msgspec.Struct, frozen=True):
    """A service to measure: the original, its variants, and whether train lacks it."""

    original: Service
    variants: dict[str, Service]
    unseen: bool


class Inputs(msgspec.Struct, frozen=True):
    """What to measure.

    Attributes:
      items: the services that have variants; all of them where no variants are measured.
      variants: the names of the variants, in natural order.
      split: of the services whose names are looked up among those of train.
      names: of train; None where there is no train.
      left_out: the services that no variant has.
      ignored: the services of the variants that the corpus lacks.
      tokenizer: of BLEU, by its name in sacrebleu.
    """

    items: list[Item]
    variants: list[str]
    split: str
    names: table1.Names | None
    left_out: list[str]
    ignored: list[str]
    tokenizer: str = table1.TOKENIZER

    def about(self) -> dict[str, Any]:
        """What statistics.json says of the services that were counted, and of BLEU."""
        return {
            "split": self.split,
            "services": len(self.items),
            "unseen_services": sum(item.unseen for item in self.items),
            "services_without_variants": self.left_out,
            "bleu_signature": table1.bleu_signature(self.tokenizer),
        }


def read_inputs(
    sgd: str | Path,
    folder: str | Path | None,
    split: str | None,
    tokenizer: str = table1.TOKENIZER,
    read: Read = read_root,
) -> Inputs:
    """Reads the original and its variants, and brings their services together.

    Args:
      sgd: the original corpus.
      folder: of variants; None measures the original alone.
      split: whose services that train lacks are looked up in train; None takes test, else dev.
      tokenizer: of BLEU.
      read: reads the schemas of the original.

    Raises:
      InputError: neither variants nor a train split and services that it lacks, or variants that do not match.
    """
    splits, train, alone = _splits_of(sgd, read)
    if train is None and folder is None:
        raise InputError("there is no train/schema.json, so nothing can be seen in train", sgd)
    split = split or alone or (TEST if TEST in splits else "dev")
    if split not in splits:
        there = ", ".join(splits)
        raise InputError(f"there is no {split}/schema.json (found: {there}); choose with --split", sgd)
    seen = {service.service_name for service in train or splits[split]}
    unseen = {service.service_name for service in splits[split]} - seen
    if not unseen and folder is None:
        raise InputError(f"train has all services of {split}, so there are no unseen ones to measure", sgd, "--split")
    originals = {service.service_name: service for services in splits.values() for service in services}
    variants: dict[str, dict[str, Service]] = {}
    aligned: dict[str, dict[str, Service]] = {name: {} for name in originals}
    ignored: list[str] = []
    if folder is not None:
        variants = read_variants(folder, alone)
        try:
            aligned, ignored = table1.align(originals, variants)
        except InputError as error:
            raise InputError(error.reason, folder, "--variants") from None
    return Inputs(
        items=[Item(originals[name], services, name in unseen) for name, services in aligned.items()],
        variants=list(variants),
        split=split,
        names=None if train is None else table1.names_of(train),
        left_out=[name for name in originals if name not in aligned],
        ignored=ignored,
        tokenizer=tokenizer,
    )


def _splits_of(sgd: str | Path, read: Read) -> tuple[dict[str, list[Service]], list[Service] | None, str | None]:
    """The services of each split, those of train, and the split where it is one's folder: train is beside it."""
    splits = {split.split: split.services for split in read(sgd)}
    alone = split_of_folder(sgd)
    if alone is None:
        return splits, splits.get(TRAIN), None
    folder = as_path(sgd).resolve()
    beside = (folder.parent if folder.is_file() else folder).parent / TRAIN
    return {alone: splits[SINGLE]}, read(beside)[0].services if is_root(beside) else None, alone


def read_variants(folder: str | Path, split: str | None = None) -> dict[str, dict[str, Service]]:
    """The services of each variant below ``folder``, in natural order of the variants (v2 before v10).

    Args:
      folder: holds ``v1/train/schema.json`` and so on.
      split: only its services; a variant that has no splits is taken whole.

    Raises:
      InputError: no such folder, no variants in it, or it is itself a variant.
    """
    folder = as_path(folder)
    if not is_there(folder) or not folder.is_dir():
        raise InputError("there is no such folder", folder, "--variants")
    check_variants(folder, "--variants")
    if is_root(folder):
        raise InputError("this is one corpus; give the folder that holds the variants' folders", folder, "--variants")
    found = variant_roots(folder)
    if not found:
        raise InputError("no variants here: expected folders such as v1/train/schema.json", folder, "--variants")
    return {
        name: services_by_name([part for part in read_root(path) if split is None or part.split in (split, SINGLE)])
        for name, path in found.items()
    }


def count_item(item: Item, names: table1.Names | None, tokenizer: str) -> table1.Counts:
    """Counts one service; the names only of a service that train lacks."""
    from apache_beam.metrics import Metrics

    from parapet.transforms.progress import advance

    with needed("service", item.original.service_name):
        counts = table1.count(item.original, item.variants, names if item.unseen else None, tokenizer)
    Metrics.counter("parapet", "services").inc()
    advance(1, "services")
    return counts


def files_of(variants: list[str], counts: list[table1.Counts], about: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """The output: statistics.json and report.html."""
    from parapet.transforms.report import page
    from parapet.transforms.table1_report import statistics_report

    statistics = {**table1.rounded(table1.table(counts, variants)), **about}
    return [
        ("statistics.json", (json.dumps(statistics, indent=2) + "\n").encode()),
        ("report.html", page(statistics_report(statistics)).encode()),
    ]
