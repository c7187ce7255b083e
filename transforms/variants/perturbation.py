"""Dialogues under the names of schema variants, as a corpus and as a perturbation (SGD-X, section 3).

The places of names in a dialogue are located once, then written with the names of each variant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from parapet.schemas.dialogue import DialogueFile, is_marker, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas, as_path, parse_services, schema_bytes
from parapet.schemas.limits import MAX_SCHEMA_FILE, read_whole
from parapet.transforms.perturbation import base
from parapet.transforms.perturbation.corpora import Corpus, Item
from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.running.counts import Counts, Tally, of_variants
from parapet.transforms.variants import matching

NO_INTENT = "NONE"
_FRAME_KEYS = {"service", "slots", "actions", "state", "service_call", "service_results"}
_STATE_KEYS = {"active_intent", "requested_slots", "slot_values"}


def _service(names: matching.Names, _: object) -> str:
    return names.service


def _slot(names: matching.Names, slot: str) -> str:
    return names.slots[slot]


def _slots(names: matching.Names, slots: Sequence[str]) -> list[str]:
    return [names.slots[slot] for slot in slots]


def _intent(names: matching.Names, intent: str) -> str:
    return names.intents[intent]


def _intents(names: matching.Names, values: Sequence[str]) -> list[str]:
    return [names.intents.get(value, value) for value in values]


def _record(names: matching.Names, record: Mapping[str, Any]) -> dict[str, Any]:
    """Rename all keys of a record at once, since names may be swapped."""
    return dict(zip(map(names.slots.__getitem__, record), record.values(), strict=True))


def _records(names: matching.Names, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_record(names, record) for record in records]


class Places:
    """The places of names in one dialogue, with the original names.

    Attributes:
      services: the services of the dialogue, in its list or in a frame.
      unknown_intents: the number of intents that the schema does not have; they are unchanged.

    Args:
      dialogue: the parsed dialogue; :meth:`write` replaces its names in place.
      known: the slots and intents of every service of its split.

    Raises:
      InputError: the schema lacks a service or slot, or the dialogue is not in SGD format; ``where`` is the place.
    """

    def __init__(self, dialogue: Any, known: matching.Known) -> None:
        self.dialogue = dialogue
        self.unknown_intents = 0
        self.services: list[str] = []
        self._known = known
        # Object, key and service of each place, the function that renames it, and the original name or names.
        self._places: list[tuple[dict[str, Any], str, str, Callable[[matching.Names, Any], Any], Any]] = []
        copies: list[tuple[dict[str, Any], str]] = []  # spans with ``copy_from``, and their services
        place = ""
        try:
            self._listed: list[str] = _typed(dialogue["services"], list)
            for i, service in enumerate(self._listed):
                place = f"services[{i}]"
                self._touch(service)
            for t, turn in enumerate(_typed(dialogue["turns"], list)):
                for f, frame in enumerate(_typed(turn["frames"], list)):
                    place = f"turns[{t}].frames[{f}]"
                    copies += self._take(frame, frame["service"])
            place = ""
            for span, service in copies:
                self._take_copy(span, service)
        except InputError as error:
            raise InputError(error.reason, "", error.where or place) from None
        except (TypeError, KeyError, AttributeError):
            typed(dialogue)  # stricter and slower, but with a clear error
            raise InputError("not_sgd: does not have the structure of an SGD dialogue", "", place) from None

    def _touch(self, service: str) -> None:
        if service not in self._known:
            raise InputError(f"unknown_service: no schema has a service {service!r}")
        if service not in self.services:
            self.services.append(service)

    def _take(self, frame: dict[str, Any], service: str) -> Iterator[tuple[dict[str, Any], str]]:
        """Collect the places of a frame, and yield the spans that are copied from another slot."""
        self._touch(service)
        slots = self._known[service][0]

        def add(holder: dict[str, Any], key: str, rename: Callable[[matching.Names, Any], Any], used: Any) -> None:
            _check_slots((used,) if rename is _slot else used, slots, service)
            self._places.append((holder, key, service, rename, used))

        self._places.append((frame, "service", service, _service, None))
        for span in frame.get("slots", ()):
            add(span, "slot", _slot, span["slot"])
            if "copy_from" in span:
                yield span, service
        for action in frame.get("actions", ()):
            if "slot" not in _typed(action, dict):
                continue
            slot, act = action["slot"], action.get("act", "")
            if slot == "intent" and is_marker(act, slot):
                for key in ("values", "canonical_values"):
                    if texts := action.get(key):
                        texts = [_typed(value, str) for value in _typed(texts, list)]
                        self._places.append((action, key, service, _intents, texts))
            elif slot and not is_marker(act, slot, slots):
                add(action, "slot", _slot, slot)
        if "state" in frame:
            state = frame["state"]
            self._take_intent(state, "active_intent", service)
            add(state, "requested_slots", _slots, _typed(state["requested_slots"], list))
            add(state, "slot_values", _record, _typed(state["slot_values"], dict))
        if "service_call" in frame:
            call = frame["service_call"]
            self._take_intent(call, "method", service)
            add(call, "parameters", _record, _typed(call["parameters"], dict))
        if results := frame.get("service_results"):
            for record in _typed(results, list):
                _check_slots(_typed(record, dict), slots, service)
            self._places.append((frame, "service_results", service, _records, results))
        for holder, known in ((frame, _FRAME_KEYS), (frame.get("state", {}), _STATE_KEYS)):
            for key in holder.keys() - known:
                if matching.names_slots(names := holder[key], slots):
                    add(holder, key, _record if isinstance(names, dict) else _slots, names)

    def _take_intent(self, holder: dict[str, Any], key: str, service: str) -> None:
        intent = holder[key]
        if intent in self._known[service][1]:
            self._places.append((holder, key, service, _intent, intent))
        elif intent != NO_INTENT:
            _typed(intent, str)
            self.unknown_intents += 1

    def _take_copy(self, span: dict[str, Any], service: str) -> None:
        """Collect a ``copy_from``.

        Its slot belongs to the frame's service or else to another service of the dialogue.
        """
        slot = span["copy_from"]
        owners = [name for name in self.services if slot in self._known[name][0]]
        owners = [service] if service in owners else owners
        if len(owners) != 1:
            which = "none" if not owners else "several"
            raise InputError(f"unknown_slot: copy_from {slot!r}: {which} of the dialogue's services has it")
        self._places.append((span, "copy_from", owners[0], _slot, slot))

    def write(self, names: Mapping[str, matching.Names]) -> None:
        """Write the names of one variant in all places. Can be repeated for other variants.

        Args:
          names: the names of every service in ``services``. New names may be swapped, or be old names of other
            elements.
        """
        self.dialogue["services"] = [names[service].service for service in self._listed]
        for holder, key, service, rename, old in self._places:
            holder[key] = rename(names[service], old)


def _check_slots(used: Collection[str], slots: frozenset[str], service: str) -> None:
    if not slots.issuperset(used):
        unknown = next(slot for slot in used if slot not in slots)
        raise InputError(f"unknown_slot: service {service!r} has no slot {unknown!r}")


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def places_of(dialogue: Any, known: matching.Known) -> Places | InputError:
    """Return the places of a dialogue, or the reason why it cannot be read or renamed."""
    try:
        return dialogue if isinstance(dialogue, InputError) else Places(dialogue, known)
    except InputError as error:
        return error


def rename(variant: matching.Variant, places: Places | InputError) -> Any:
    """Rename a dialogue to the names of a variant, in place.

    Args:
      variant: the variant.
      places: the places in the dialogue, or the reason why it cannot be renamed.

    Raises:
      InputError: the dialogue cannot be renamed.
    """
    if isinstance(places, InputError):
        raise places
    for service in places.services:
        if service in variant.bad:
            raise InputError(f"bad_service: {service!r}: {variant.bad[service]}")
    places.write(variant.names)
    return places.dialogue


Services = Sequence[Mapping[str, Any]]
Variants = Mapping[str, Mapping[str, Services]]  # name to split to services


class RenamedCorpus(Corpus):
    """A corpus under the names of one variant. Dialogues are renamed when they are read.

    Attributes:
      variant: the name of the variant.
      names: folder to the names of its services.
      known: folder to the slots and intents of the original's services.
    """

    def __init__(self, original: Corpus, variant: str, matched: matching.Matched) -> None:
        targets = {
            folder: matched.targets.get(schemas.split, SplitSchemas(schemas.split, "", [], []))
            for folder, schemas in original.folders.items()
        }
        schemas = {original.folders[folder].relative_path: _bytes_of(target) for folder, target in targets.items()}
        super().__init__(original.files, targets, schemas)
        self.original, self.variant = original, variant
        self.names = {folder: matched.splits[schemas.split] for folder, schemas in original.folders.items()}
        self.known = _known_names(original)

    def read(self, file: DialogueFile) -> Iterator[Item]:
        """Yield the renamed dialogues of a file."""
        for item in self.original.read(file):
            if item.error is None:
                places = places_of(item.raw, self.known[file.split])
                try:
                    item = item._replace(raw=rename(self.names[file.split], places), dialogue=None)
                except InputError as error:
                    item = item._replace(error=error)
            yield item

    def provenance(self) -> dict[str, Any]:
        """Return the original's provenance with the variant."""
        return {**self.original.provenance(), "variant": self.variant}


def _bytes_of(schemas: SplitSchemas) -> bytes:
    path = as_path(schemas.path)
    return read_whole(path, MAX_SCHEMA_FILE) if path.is_file() else schema_bytes(schemas.raw)


def _known_names(corpus: Corpus) -> dict[str, matching.Known]:
    return {folder: matching.known_names(schemas.services) for folder, schemas in corpus.folders.items()}


def renamed_corpora(
    corpus: Corpus, variants: str | Path | Variants, names: Sequence[str] = ()
) -> dict[str, RenamedCorpus]:
    """Return a corpus under the names of each variant, by name. See ``parapet.apply_variants``."""
    if isinstance(variants, Mapping):
        if missing := [name for name in names if name not in variants]:
            raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(variants)})")
        matches = {
            name: matching.match_variant(name, *_schemas_of(name, splits), _originals(corpus))
            for name, splits in variants.items()
            if not names or name in names
        }
    else:
        paths = matching.find_variants(variants, names, "variants")
        matches = matching.match_folders(paths, _originals(corpus))
    matching.check_matched(matches)
    return {name: RenamedCorpus(corpus, name, matched) for name, matched in matches.items()}


def _originals(corpus: Corpus) -> list[SplitSchemas]:
    """Return the schemas of a corpus; those of several folders once."""
    return list({id(schemas): schemas for schemas in corpus.folders.values()}.values())


def _schemas_of(name: str, splits: Mapping[str, Services]) -> tuple[list[SplitSchemas], str]:
    """Return (schemas, place for messages) of a variant in memory."""
    place, schemas = f"variants[{name!r}]", []
    for split, services in splits.items():
        items = [dict(service) if isinstance(service, Mapping) else service for service in services]
        schemas.append(parse_services(items, f"{place}[{split!r}]", split))
        if schemas[-1].bad:
            raise schemas[-1].bad[0].error
    return schemas, place


class ApplyVariants(base.Perturbation):
    """Dialogues under the names of schema variants (SGD-X, Lee et al. 2022, section 3).

    Args:
      variants: the folder of the variants.
      variant: the names of those to use, separated by commas; empty for all.
    """

    name = "rewrite"
    title = "Dialogues under the names of schema variants"
    tables = (
        Numbers(
            "Variants",
            "sets/*",
            ("variant",),
            (
                Metric("dialogues", "dialogues rewritten", shown_first=True),
                Metric("left_out", "left out", shown_first=True),
            ),
        ),
    )
    links: ClassVar = {matching.MAPPING: "the names of each variant"}

    def __init__(self, variants: str | Path, variant: str = "") -> None:
        super().__init__()
        self.variants = matching.find_variants(variants, [name for name in variant.split(",") if name])
        self.known: dict[str, matching.Known] = {}
        self.of_folders: dict[str, list[matching.Variant]] = {}
        self.schemas: list[tuple[str, str]] = []
        self.mapping = b""

    def prepare(self, corpus: Corpus) -> None:
        """Match the schemas of the variants. Raises InputError if no service of a variant matches."""
        matches = matching.match_folders(self.variants, _originals(corpus))
        matching.check_matched(matches)
        self.known = _known_names(corpus)
        self.of_folders = {
            folder: [matched.splits[schemas.split] for matched in matches.values()]
            for folder, schemas in corpus.folders.items()
        }
        self.schemas = [
            (f"{name}/{schemas.relative_path}", matched.targets[schemas.split].path)
            for name, matched in matches.items()
            for schemas in _originals(corpus)
            if schemas.split in matched.targets
        ]
        self.mapping = matching.mapping_bytes({name: matched.names for name, matched in matches.items()})
        for matched in matches.values():
            for problem in matched.problems:
                logging.warning("does not match the corpus: %s", problem)

    def recorded_options(self) -> Mapping[str, object]:
        """Return the names of the variants."""
        return {"variants": [*self.sets], "variant": ""}

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the names of the variants."""
        return tuple(self.variants)

    def row_sets(self) -> Sequence[str]:
        """Return an empty tuple: only names change, and ``mapping.json`` lists them."""
        return ()

    def state_of(self, place: base.Place, state: Any, shared: base.Shared) -> str:
        """Return the folder of the dialogue's split."""
        return place[0].rpartition("/")[0]

    def perturb_sets(self, item: Item, state: str) -> Iterator[tuple[str, base.Perturbed | InputError]]:
        """Yield the dialogue under the names of each variant, renamed in place."""
        places = places_of(item.raw, self.known[state])
        for variant in self.of_folders[state]:
            try:
                # A new object, since the driver identifies texts by dialogue; its content is still modified in place.
                yield variant.name, base.Perturbed({**rename(variant, places)})
            except InputError as error:
                yield variant.name, error

    def schema_files(self, corpus: Corpus) -> dict[str, bytes]:
        """Return the variants' schema files, unchanged, and ``mapping.json``."""
        # Read here, not on workers: the variants may be on this machine while the dialogues are on gs://.
        schemas = {path: read_whole(as_path(source), MAX_SCHEMA_FILE) for path, source in self.schemas}
        return {**schemas, matching.MAPPING: self.mapping}

    def tallies(self, counts: Counts) -> list[Tally]:
        """Return tallies of the dialogues that may be left out of each variant."""
        return of_variants(counts, self.sets)

    def statistics(self, counts: Counts, reported: Sequence[Any]) -> dict[str, Any]:
        """Count the dialogues of each variant."""
        of_all = counts.sum("left_out", set="")
        left_out = {name: counts.sum("left_out", set=name) + of_all for name in self.sets}
        return {
            "files": counts.sum("files"),
            "dialogues": counts.sum("dialogues", set=""),
            "left_out": sum(left_out.values()),
            "sets": {
                name: {"dialogues": counts.sum("dialogues", set=name), "left_out": left_out[name]} for name in self.sets
            },
        }
