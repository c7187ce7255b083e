"""Dialogues under the names of a schema variant, one at a time (SGD-X, section 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from parapet.schemas.dialogue import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SPLITS, SplitSchemas, as_path, parse_services, read_root, schema_bytes
from parapet.schemas.limits import MAX_SCHEMA_FILE, read_whole
from parapet.transforms.corpora import Corpus, Item
from parapet.transforms.variants.dialogues import places_of, rename
from parapet.transforms.variants.folders import Mapped, find_mapping, find_variants
from parapet.transforms.variants.matching import Variant, check_matched, match_variant, names_of
from parapet.transforms.variants.names import known_names

Services = Sequence[Mapping[str, Any]]
Variants = Mapping[str, Mapping[str, Services]]  # name to split to services


class RenamedCorpus(Corpus):
    """A corpus under the names of one variant. Dialogues are renamed when they are read.

    Attributes:
      variant: its name.
      names: folder to the names of its services.
      known: folder to what the original's services have.
    """

    def __init__(
        self, original: Corpus, variant: str, names: Mapping[str, Variant], targets: Mapping[str, SplitSchemas]
    ) -> None:
        schemas = {original.folders[folder].relative_path: _bytes_of(of) for folder, of in targets.items()}
        super().__init__(original.files, targets, schemas)
        self.original, self.variant, self.names = original, variant, names
        self.known = {folder: known_names(of.services) for folder, of in original.folders.items()}

    def read(self, file: DialogueFile) -> Iterator[Item]:
        """The dialogues of one of the files, renamed."""
        for item in self.original.read(file):
            if item.error is None:
                places = places_of(item.raw, self.known[file.split])
                try:
                    item = item._replace(raw=rename(self.names[file.split], places), dialogue=None)
                except InputError as error:
                    item = item._replace(error=error)
            yield item

    def provenance(self) -> dict[str, Any]:
        """The variant, after the provenance of the original."""
        return {**self.original.provenance(), "variant": self.variant}


def _bytes_of(schemas: SplitSchemas) -> bytes:
    path = as_path(schemas.path)
    return read_whole(path, MAX_SCHEMA_FILE) if path.is_file() else schema_bytes(schemas.raw)


def renamed_corpora(
    corpus: Corpus, variants: str | Path | Variants, names: Sequence[str] = ()
) -> dict[str, RenamedCorpus]:
    """A corpus under the names of each variant, by name. See ``parapet.apply_variants``."""
    mapped: Mapped | None = None
    if isinstance(variants, Mapping):
        missing = [name for name in names if name not in variants]
        if missing:
            raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(variants)})")
        schemas = {name: _schemas_of(name, of) for name, of in variants.items() if not names or name in names}
    else:
        mapped = find_mapping(variants, "auto")
        schemas = {
            name: (str(path), read_root(path, leave_out_bad=True))
            for name, path in find_variants(variants, names, "variants").items()
        }
    originals = list({id(of): of for of in corpus.folders.values()}.values())
    renamed = {}
    for name, (path, splits) in schemas.items():
        matched = match_variant(name, splits, path, originals, names_of(name, mapped))
        check_matched(matched.splits.values(), matched.problems, Fraction(0))
        targets = {
            folder: matched.targets.get(of.split, SplitSchemas(of.split, "", [], []))
            for folder, of in corpus.folders.items()
        }
        of_folders = {folder: matched.splits[of.split] for folder, of in corpus.folders.items()}
        renamed[name] = RenamedCorpus(corpus, name, of_folders, targets)
    return renamed


def _schemas_of(name: str, splits: Mapping[str, Services]) -> tuple[str, list[SplitSchemas]]:
    """(place for messages, schemas) of a variant in memory."""
    splits_found = []
    for split, services in splits.items():
        if split not in (*SPLITS, SINGLE):
            raise InputError(f"{split!r} is no split: there are {', '.join(SPLITS)}", f"variants[{name!r}]")
        items = [dict(service) if isinstance(service, Mapping) else service for service in services]
        schemas = parse_services(items, f"variants[{name!r}][{split!r}]", split)
        if schemas.bad:
            raise schemas.bad[0].error
        splits_found.append(schemas)
    return f"variants[{name!r}]", splits_found
