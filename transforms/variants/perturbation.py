"""Dialogues under the names of schema variants, as a corpus and as a perturbation (SGD-X, section 3).

The places of names in a dialogue are located once, then written with the names of each variant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from parapet.schemas.dialogue import DialogueFile, is_marker, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SPLITS, SplitSchemas, as_path, parse_services, schema_bytes
from parapet.schemas.limits import MAX_SCHEMA_FILE, read_whole
from parapet.transforms.perturbation.base import Perturbation, Perturbed, Place, Shared
from parapet.transforms.perturbation.corpora import Corpus, Item, read_items
from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.reports.text import counted
from parapet.transforms.running.counts import Counted, Counts, Tally, of_variants
from parapet.transforms.variants import matching

NO_INTENT = "NONE"
_FRAME_KEYS = {"service", "slots", "actions", "state", "service_call", "service_results"}
_STATE_KEYS = {"active_intent", "requested_slots", "slot_values"}


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
        self._known = known
        self.services: list[str] = []
        self._frames: list[tuple[dict[str, Any], str]] = []
        # Object, key and service of each place and, unless it is a single slot, the function that renames it.
        self._slots: list[tuple[dict[str, Any], str, str, str]] = []
        self._others: list[tuple[dict[str, Any], str, str, Callable[[matching.Names, Any], Any], Any]] = []
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
            raise _not_sgd(dialogue, place) from None

    def _touch(self, service: str) -> None:
        if service not in self._known:
            raise InputError(f"unknown_service: no schema has a service {service!r}")
        if service not in self.services:
            self.services.append(service)

    def _take(self, frame: dict[str, Any], service: str) -> Iterator[tuple[dict[str, Any], str]]:
        """Collect the places of a frame, and yield the spans that are copied from another slot."""
        self._touch(service)
        self._frames.append((frame, service))
        add, slots = self._others.append, self._known[service][0]
        for span in frame.get("slots", ()):
            _check_slots((span["slot"],), slots, service)
            self._slots.append((span, "slot", service, span["slot"]))
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
                        add((action, key, service, _intents, texts))
            elif slot and not is_marker(act, slot, slots):
                _check_slots((slot,), slots, service)
                self._slots.append((action, "slot", service, slot))
        if "state" in frame:
            state = frame["state"]
            self._take_intent(state, "active_intent", service)
            if requested := _typed(state["requested_slots"], list):
                _check_slots(requested, slots, service)
                add((state, "requested_slots", service, _slots, requested))
            if values := _typed(state["slot_values"], dict):
                _check_slots(values, slots, service)
                add((state, "slot_values", service, _record, values))
        if "service_call" in frame:
            call = frame["service_call"]
            self._take_intent(call, "method", service)
            _check_slots(_typed(call["parameters"], dict), slots, service)
            add((call, "parameters", service, _record, call["parameters"]))
        if results := frame.get("service_results"):
            for record in _typed(results, list):
                _check_slots(_typed(record, dict), slots, service)
            add((frame, "service_results", service, _records, results))
        for holder, known in ((frame, _FRAME_KEYS), (frame.get("state", {}), _STATE_KEYS)):
            for key in holder.keys() - known:
                if matching.names_slots(names := holder[key], slots):
                    add((holder, key, service, _record if isinstance(names, dict) else _slots, names))

    def _take_intent(self, holder: dict[str, Any], key: str, service: str) -> None:
        intent = holder[key]
        if intent in self._known[service][1]:
            self._others.append((holder, key, service, _intent, intent))
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
        self._slots.append((span, "copy_from", owners[0], slot))

    def write(self, names: Mapping[str, matching.Names]) -> None:
        """Write the names of one variant in all places. Can be repeated for other variants.

        Args:
          names: the names of every service in ``services``. New names may be swapped, or be old names of other
            elements.
        """
        self.dialogue["services"] = [names[service].service for service in self._listed]
        for frame, service in self._frames:
            frame["service"] = names[service].service
        for holder, key, service, slot in self._slots:
            holder[key] = names[service].slots[slot]
        for holder, key, service, renamed, old in self._others:
            holder[key] = renamed(names[service], old)


def _check_slots(used: Collection[str], slots: frozenset[str], service: str) -> None:
    if not slots.issuperset(used):
        unknown = next(slot for slot in used if slot not in slots)
        raise InputError(f"unknown_slot: service {service!r} has no slot {unknown!r}")


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _not_sgd(dialogue: Any, place: str) -> InputError:
    """Return the error of the typed reader, which is stricter and slower."""
    try:
        typed(dialogue)
    except InputError as error:
        return InputError(error.reason, "", error.where or place)
    return InputError("not_sgd: does not have the structure of an SGD dialogue", "", place)


def places_of(dialogue: Any, known: matching.Known) -> Places | InputError:
    """Return the places of a dialogue, or the reason why it cannot be read or renamed."""
    if isinstance(dialogue, InputError):
        return dialogue
    try:
        return Places(dialogue, known)
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

    def __init__(
        self, original: Corpus, variant: str, names: Mapping[str, matching.Variant], targets: Mapping[str, SplitSchemas]
    ) -> None:
        schemas = {
            original.folders[folder].relative_path: _bytes_of(schemas_here) for folder, schemas_here in targets.items()
        }
        super().__init__(original.files, targets, schemas)
        self.original, self.variant, self.names = original, variant, names
        self.known = {
            folder: matching.known_names(schemas_here.services) for folder, schemas_here in original.folders.items()
        }

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


def renamed_corpora(
    corpus: Corpus, variants: str | Path | Variants, names: Sequence[str] = ()
) -> dict[str, RenamedCorpus]:
    """Return a corpus under the names of each variant, by name. See ``parapet.apply_variants``."""
    originals = list({id(schemas): schemas for schemas in corpus.folders.values()}.values())
    if isinstance(variants, Mapping):
        if missing := [name for name in names if name not in variants]:
            raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(variants)})")
        matches = {
            name: matching.match_variant(name, *_schemas_of(name, schemas), originals, None)
            for name, schemas in variants.items()
            if not names or name in names
        }
    else:
        variants_here = matching.find_variants(variants, names, "variants")
        matches = matching.match_folders(variants_here, originals, matching.find_mapping(variants, "auto"))
    renamed = {}
    for name, matched in matches.items():
        matching.check_matched(matched.splits.values(), matched.problems, Fraction(0))
        targets = {
            folder: matched.targets.get(schemas.split, SplitSchemas(schemas.split, "", [], []))
            for folder, schemas in corpus.folders.items()
        }
        of_folders = {folder: matched.splits[schemas.split] for folder, schemas in corpus.folders.items()}
        renamed[name] = RenamedCorpus(corpus, name, of_folders, targets)
    return renamed


def _schemas_of(name: str, splits: Mapping[str, Services]) -> tuple[list[SplitSchemas], str]:
    """Return (schemas, place for messages) of a variant in memory."""
    place, schemas = f"variants[{name!r}]", []
    for split, services in splits.items():
        if split not in (*SPLITS, SINGLE):
            raise InputError(f"{split!r} is not a split: must be one of {', '.join(SPLITS)}", place)
        items = [dict(service) if isinstance(service, Mapping) else service for service in services]
        schemas.append(parse_services(items, f"{place}[{split!r}]", split))
        if schemas[-1].bad:
            raise schemas[-1].bad[0].error
    return schemas, place


class ApplyVariants(Perturbation):
    """Dialogues under the names of schema variants (SGD-X, Lee et al. 2022, section 3).

    Args:
      plan: the variants, matched with the corpus.
      matched_by: what they were matched by, for ``run.json``.
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
    keeps_empty_files = False
    shown = 0

    def __init__(self, plan: matching.Plan, matched_by: str = "") -> None:
        super().__init__()
        self.variants, self.splits_of = plan.variants, plan.splits
        self.schemas, self.mapping = plan.schemas, matching.mapping_bytes(plan.mapped)
        self.problems, self.plan_remarks, self.matched_by = plan.problems, plan.remarks, matched_by

    def remarks(self) -> Iterator[tuple[int, str]]:
        """What does not match."""
        yield from ((logging.WARNING, f"does not match the corpus: {line}") for line in self.problems)
        yield from ((logging.WARNING, line) for line in self.plan_remarks)

    def recorded_options(self) -> Mapping[str, object]:
        """Return the variants, and how they were matched."""
        return {"variants": [*self.sets], "variant": "", "mapping": "", "matched_by": self.matched_by}

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the names of the variants."""
        return tuple(self.variants)

    def row_sets(self) -> Sequence[str]:
        """Return an empty tuple: only names change, and ``mapping.json`` lists them."""
        return ()

    def items(self, file: DialogueFile) -> Iterator[Item]:
        """Yield the dialogues of a file without types. Finding their names checks them in a third of the time."""
        for position, raw in enumerate(read_items(file)):
            yield Item(position, raw)

    def state_of(self, place: Place, state: Any, shared: Shared) -> matching.Split:
        """Return the services of the dialogue's split, with their names in each variant."""
        return self.splits_of[place[0].rpartition("/")[0]]

    def perturb_sets(self, item: Item, state: matching.Split) -> Iterator[tuple[str, Perturbed | InputError]]:
        """Yield the dialogue under the names of each variant, renamed in place."""
        places = places_of(item.raw, state.known)
        counts: dict[Counted, int] = {"unknown_intents": places.unknown_intents} if isinstance(places, Places) else {}
        for variant in state.variants:
            try:
                # A new object, since the driver identifies texts by dialogue; its content is still modified in place.
                dialogue = {**rename(variant, places)}
            except InputError as error:
                yield variant.name, error
            else:
                yield variant.name, Perturbed(dialogue, counts=counts)

    def schema_files(self, corpus: Corpus) -> list[tuple[str, bytes]]:
        """Return the variants' schema files, unchanged."""
        # Read here, not on workers: the variants may be on this machine while the dialogues are on gs://.
        return [(path, read_whole(as_path(source), MAX_SCHEMA_FILE)) for path, source in self.schemas]

    def tallies(self, counts: Counts) -> list[Tally]:
        """Return tallies of the dialogues that may be left out of each variant."""
        return of_variants(counts, self.variants)

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Count the dialogues of each variant."""
        of_all = counts.sum("left_out", set="")
        left_out = {name: counts.sum("left_out", set=name) + of_all for name in self.sets}
        return {
            "files": counts.sum("files"),
            "dialogues": counts.sum("dialogues", set=""),
            "left_out": sum(left_out.values()),
            # equal for all variants that have the dialogue
            "unknown_intents": max(counts.by("set", "unknown_intents").values(), default=0),
            "sets": {
                name: {"dialogues": counts.sum("dialogues", set=name), "left_out": left_out[name]} for name in self.sets
            },
        }

    def notes(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """Yield a warning about names that could not be changed."""
        if statistics["unknown_intents"]:
            yield f"left unchanged: {counted(statistics['unknown_intents'], 'intent')} that no schema has"

    def metadata_files(self, statistics: Mapping[str, Any], reported: Mapping[str, Sequence[Any]]) -> dict[str, bytes]:
        """Return ``mapping.json``."""
        return {matching.MAPPING: self.mapping}
