"""Dialogues under the names of schema variants, as a corpus and as a perturbation (SGD-X, section 3).

The places of names in a dialogue are found once, then written with the names of one variant after another.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from parapet.schemas.dialogue import DialogueFile, is_marker, read_each, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, SPLITS, SplitSchemas, as_path, parse_services, read_root, schema_bytes
from parapet.schemas.limits import MAX_SCHEMA_FILE, read_whole
from parapet.transforms.perturbation.base import Detailed, Perturbation, Perturbed, Place, Shared
from parapet.transforms.perturbation.corpora import Corpus, Item, read_file
from parapet.transforms.perturbation.metrics import Metric, Numbers
from parapet.transforms.reports.text import counted
from parapet.transforms.running.counts import Counted, Counts, Tally, of_variants
from parapet.transforms.variants import COMMAND
from parapet.transforms.variants.matching import (
    MAPPING,
    Known,
    Mapped,
    Names,
    Plan,
    Split,
    Variant,
    check_matched,
    find_mapping,
    find_variants,
    known_names,
    make_plan,
    mapping_bytes,
    match_variant,
    names_of,
)

NO_INTENT = "NONE"


class _OfService:
    """The places in the frames of one service, with the original names.

    Attributes:
      frames: the frames, for their ``service``.
      slots: slot to the (object, key) that it is the value of: spans, actions, ``copy_from``.
      intents: (object, key, intent).
      requested: (state, its requested slots).
      offered: (action, key, values) whose values are intents.
      records: (object, key, record) of records whose keys are slots.
      results: (frame, records whose keys are slots).
    """

    __slots__ = ("frames", "intents", "known", "offered", "records", "requested", "results", "slots")

    def __init__(self, known: tuple[frozenset[str], frozenset[str]]) -> None:
        self.known = known
        self.frames: list[dict[str, Any]] = []
        self.slots: dict[str, list[tuple[dict[str, Any], str]]] = {}
        self.intents: list[tuple[dict[str, Any], str, str]] = []
        self.requested: list[tuple[dict[str, Any], list[str]]] = []
        self.offered: list[tuple[dict[str, Any], str, list[Any]]] = []
        self.records: list[tuple[dict[str, Any], str, dict[str, Any]]] = []
        self.results: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []


class Places:
    """The places of one dialogue.

    Attributes:
      services: the services that it touches, in its list or in a frame.
      unknown_intents: how many intents the schema lacks; they are unchanged.

    Args:
      dialogue: the dialogue, parsed; :meth:`write` replaces its names in place.
      known: the slots and intents of every service of its split.

    Raises:
      InputError: a service or slot that the schema lacks, or not the SGD format; ``where`` is the place.
    """

    def __init__(self, dialogue: Any, known: Known) -> None:
        self.dialogue = dialogue
        self.unknown_intents = 0
        self._known = known
        self._of: dict[str, _OfService] = {}
        self._copies: list[tuple[dict[str, Any], str]] = []  # spans with ``copy_from``, and their services
        place = ""
        try:
            self._listed: list[str] = _typed(dialogue["services"], list)
            for i, service in enumerate(self._listed):
                place = f"services[{i}]"
                self._of_service(service)
            for t, turn in enumerate(_typed(dialogue["turns"], list)):
                for f, frame in enumerate(_typed(turn["frames"], list)):
                    place = f"turns[{t}].frames[{f}]"
                    self._take(frame, frame["service"], self._of_service(frame["service"]))
            place = ""
            for span, service in self._copies:
                self._take_copy(span, service)
        except InputError as error:
            raise InputError(error.reason, "", error.where or place) from None
        except (TypeError, KeyError, AttributeError):
            raise _not_sgd(dialogue, place) from None
        self.services = list(self._of)

    def _of_service(self, service: str) -> _OfService:
        of = self._of.get(service)
        if of is None:
            if service not in self._known:
                raise InputError(f"unknown_service: no schema has a service {service!r}")
            of = self._of[service] = _OfService(self._known[service])
        return of

    def _take(self, frame: dict[str, Any], service: str, of: _OfService) -> None:
        of.frames.append(frame)
        for span in frame.get("slots", ()):
            _take_slot(span, "slot", of, service)
            if "copy_from" in span:
                self._copies.append((span, service))
        for action in frame.get("actions", ()):
            if "slot" in _typed(action, dict):
                _take_action(action, of, service)
        if "state" in frame:
            state = frame["state"]
            self._take_intent(state, "active_intent", of)
            if requested := _typed(state["requested_slots"], list):
                _check_slots(requested, of, service)
                of.requested.append((state, requested))
            _take_record(state, "slot_values", of, service)
        if "service_call" in frame:
            call = frame["service_call"]
            self._take_intent(call, "method", of)
            _take_record(call, "parameters", of, service)
        if results := frame.get("service_results"):
            for record in _typed(results, list):
                _check_slots(_typed(record, dict), of, service)
            of.results.append((frame, results))

    def _take_intent(self, holder: dict[str, Any], key: str, of: _OfService) -> None:
        intent = holder[key]
        if intent in of.known[1]:
            of.intents.append((holder, key, intent))
        elif intent != NO_INTENT:
            _typed(intent, str)
            self.unknown_intents += 1

    def _take_copy(self, span: dict[str, Any], service: str) -> None:
        """The slot of ``copy_from`` belongs to the service of the frame, or else to another service of the dialogue."""
        slot = span["copy_from"]
        owners = [name for name, of in self._of.items() if slot in of.known[0]]
        if service in owners:
            owners = [service]
        if len(owners) != 1:
            which = "none" if not owners else "several"
            raise InputError(f"unknown_slot: copy_from {slot!r}: {which} of the dialogue's services has it")
        self._of[owners[0]].slots.setdefault(slot, []).append((span, "copy_from"))

    def write(self, names: Mapping[str, Names]) -> None:
        """Writes the names of one variant in all places. Can be repeated with those of another.

        Args:
          names: of every service in ``services``. New names may swap, or be old names of others.
        """
        self.dialogue["services"] = [names[service].service for service in self._listed]
        for service, of in self._of.items():
            new = names[service]
            slots, intents = new.slots, new.intents
            for frame in of.frames:
                frame["service"] = new.service
            for old, holders in of.slots.items():
                name = slots[old]
                for holder, key in holders:
                    holder[key] = name
            for holder, key, intent in of.intents:
                holder[key] = intents[intent]
            for state, requested in of.requested:
                state["requested_slots"] = [slots[slot] for slot in requested]
            for holder, key, values in of.offered:
                holder[key] = [intents.get(value, value) for value in values]
            for holder, key, record in of.records:
                holder[key] = _renamed(record, slots)
            for frame, results in of.results:
                frame["service_results"] = [_renamed(record, slots) for record in results]


def _take_slot(holder: dict[str, Any], key: str, of: _OfService, service: str) -> None:
    slot = holder[key]
    holders = of.slots.get(slot)
    if holders is None:
        _check_slots((slot,), of, service)
        holders = of.slots[slot] = []
    holders.append((holder, key))


def _take_action(action: dict[str, Any], of: _OfService, service: str) -> None:
    slot, act = action["slot"], action.get("act", "")
    if slot == "intent" and is_marker(act, slot):
        for key in ("values", "canonical_values"):
            if values := action.get(key):
                of.offered.append((action, key, [_typed(value, str) for value in _typed(values, list)]))
    elif slot and not is_marker(act, slot, of.known[0]):
        _take_slot(action, "slot", of, service)


def _take_record(holder: dict[str, Any], key: str, of: _OfService, service: str) -> None:
    if record := _typed(holder[key], dict):
        _check_slots(record, of, service)
        of.records.append((holder, key, record))


def _check_slots(slots: Collection[str], of: _OfService, service: str) -> None:
    if not of.known[0].issuperset(slots):
        unknown = next(slot for slot in slots if slot not in of.known[0])
        raise InputError(f"unknown_slot: service {service!r} has no slot {unknown!r}")


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _not_sgd(dialogue: Any, place: str) -> InputError:
    """The error of the typed reader, which is stricter and slower."""
    try:
        typed(dialogue)
    except InputError as error:
        return InputError(error.reason, "", error.where or place)
    return InputError("not_sgd: not the form of an SGD dialogue", "", place)


def _renamed(record: Mapping[str, Any], slots: Mapping[str, str]) -> dict[str, Any]:
    """A record with new keys, replaced all at once: names may swap."""
    return dict(zip(map(slots.__getitem__, record), record.values(), strict=True))


def places_of(dialogue: Any, known: Known) -> Places | InputError:
    """The places of a dialogue, or why it cannot be renamed; one that cannot be read is the error itself."""
    if isinstance(dialogue, InputError):
        return dialogue
    try:
        return Places(dialogue, known)
    except InputError as error:
        return error


def rename(variant: Variant, places: Places | InputError) -> Any:
    """Renames the dialogue of these places to the names of a variant, in place.

    Args:
      variant: the variant.
      places: the places, or why the dialogue cannot be renamed.

    Raises:
      InputError: why the variant cannot have the dialogue.
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


class ApplyVariants(Perturbation):
    """Dialogues under the names of schema variants (SGD-X, Lee et al. 2022, section 3).

    Args:
      plan: the variants, matched with the corpus.
    """

    name = "rewrite"
    command = COMMAND
    metrics = ()
    title = "Dialogues under the names of schema variants"
    tables = (
        Numbers(
            "Variants",
            "sets/*",
            ("variant",),
            (Metric("dialogues", "rewritten", shown_first=True), Metric("left_out", "left out", shown_first=True)),
        ),
    )
    links: ClassVar = {MAPPING: "the names of each variant"}
    keeps_empty_files = False
    shown = 0

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.variants, self.splits_of = plan.variants, plan.splits
        self.schemas, self.mapping = plan.schemas, mapping_bytes(plan.mapped)
        self.problems, self.plan_remarks, self.matched_by = plan.problems, plan.remarks, ""

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> ApplyVariants:
        """Reads and matches the schemas. Raises InputError where none of a variant's services match."""
        variants = find_variants(flags["variants"], [name for name in flags["variant"].split(",") if name])
        mapping = find_mapping(flags["variants"], flags["mapping"])
        plan = make_plan(flags["sgd"], variants, mapping)
        check_matched([of for split in plan.splits.values() for of in split.variants], plan.problems, flags["max_bad"])
        perturbation = cls(plan)
        perturbation.matched_by = "position" if mapping is None else "mapping"
        return perturbation

    def remarks(self) -> Iterator[tuple[int, str]]:
        """What does not match."""
        yield from ((logging.WARNING, f"does not match: {line}") for line in self.problems)
        yield from ((logging.WARNING, line) for line in self.plan_remarks)

    def recorded_options(self) -> Mapping[str, object]:
        """The variants, and how they were matched."""
        return {"variants": [*self.sets], "variant": "", "mapping": "", "matched_by": self.matched_by}

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the variants."""
        return tuple(self.variants)

    def row_sets(self) -> Sequence[str]:
        """None: all that changes are names, which ``mapping.json`` lists."""
        return ()

    def items(self, file: DialogueFile) -> Iterator[Item]:
        """The dialogues of a file. They are not typed: finding their names checks them, in a third of the time."""
        for position, (raw, plain) in enumerate(read_each(read_file(file), file.path)):
            yield Item(position, raw, plain)

    def state_of(self, place: Place, state: Any, shared: Shared) -> Split:
        """The services of the dialogue's split, with their names in each variant."""
        return self.splits_of[place[0].rpartition("/")[0]]

    def perturb_sets(self, item: Item, state: Split) -> Iterator[tuple[str, Perturbed | InputError]]:
        """The dialogue under the names of one variant after another, renamed in place."""
        places = places_of(item.raw, state.known)
        counts: dict[Counted, int] = {"unknown_intents": places.unknown_intents} if isinstance(places, Places) else {}
        for variant in state.variants:
            try:
                # A copy, for the driver takes one dialogue for one text; what is in it is still changed in place.
                dialogue = {**rename(variant, places)}
            except InputError as error:
                yield variant.name, error
            else:
                yield variant.name, Detailed(dialogue, counts=counts)

    def schema_files(self, corpus: Corpus) -> list[tuple[str, bytes]]:
        """The schemas of the variants, byte for byte."""
        # Read here, not by the workers: the variants may be on this machine while the dialogues are on gs://.
        return [(path, read_whole(as_path(source), MAX_SCHEMA_FILE)) for path, source in self.schemas]

    def tallies(self, counts: Counts) -> list[Tally]:
        """The dialogues of each variant that may be left out."""
        return of_variants(counts, self.variants)

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The dialogues of each variant."""
        of_all = counts.sum("left_out", set="")
        left_out = {name: counts.sum("left_out", set=name) + of_all for name in self.sets}
        return {
            "files": counts.sum("files"),
            "dialogues": counts.sum("dialogues", set=""),
            "left_out": sum(left_out.values()),
            # The same for each variant that has the dialogue.
            "unknown_intents": max(counts.by("set", "unknown_intents").values(), default=0),
            "sets": {
                name: {"dialogues": counts.sum("dialogues", set=name), "left_out": left_out[name]} for name in self.sets
            },
        }

    def notes(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """A warning of names that could not be changed."""
        if statistics["unknown_intents"]:
            yield f"unchanged: {counted(statistics['unknown_intents'], 'intent')} that no schema has"

    def metadata_files(self, statistics: Mapping[str, Any], reported: Mapping[str, Sequence[Any]]) -> dict[str, bytes]:
        """The names of each variant."""
        return {MAPPING: self.mapping}
