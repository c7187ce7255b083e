"""Dialogues under the names of schema variants, as a corpus and as a perturbation (SGD-X, section 3).

The places of names in a dialogue are located once, then written with the names of each variant.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from parapet.schemas.dialogue import DialogueFile, is_marker, typed
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas, as_path, parse_services, schema_bytes
from parapet.schemas.limits import MAX_SCHEMA_FILE, read_whole
from parapet.transforms.core.counts import Counts, Tally, of_variants
from parapet.transforms.perturb import base, corpora
from parapet.transforms.report.numbers import Metric, Numbers
from parapet.transforms.variants import matching

_FRAME_KEYS = {"service", "slots", "actions", "state", "service_call", "service_results"}
_STATE_KEYS = {"active_intent", "requested_slots", "slot_values"}


class ServicePlaces:
    """The places of one service's names in a dialogue: each an object and a key, or a list and a position.

    Attributes:
      service: the service.
      known_slots: the slots in its schema.
      copies: the spans that are copied from another slot, possibly of another service.
    """

    def __init__(self, service: str, known: matching.Known) -> None:
        if service not in known:
            raise InputError(f"unknown_service: no schema has a service {service!r}")
        self.service = service
        self.known_slots, self._known_intents = known[service]
        self.copies: list[dict[str, Any]] = []
        self._places: list[tuple[str, Any, str | int, str]] = []  # with the kind and the original name
        self._records: list[tuple[Any, str | int, dict[str, Any]]] = []  # with the original, which has slots as keys

    def add_service(self, holder: Any, key: str | int) -> None:
        """Adds a place of the service's own name."""
        self._places.append(("service", holder, key, self.service))

    def add_intent(self, holder: Any, key: str | int) -> None:
        """Adds a place of an intent; one that the schema lacks stays as it is, such as ``NONE``."""
        if (intent := _typed(holder[key], str)) in self._known_intents:
            self._places.append(("intent", holder, key, intent))

    def add_slot(self, holder: Any, key: str | int) -> None:
        """Adds a place of a slot. Raises InputError if the schema lacks it."""
        slot = holder[key]
        self._check((slot,))
        self._places.append(("slot", holder, key, slot))

    def add_slots(self, slots: list[str]) -> None:
        """Adds a list of slots."""
        for i in range(len(_typed(slots, list))):
            self.add_slot(slots, i)

    def add_record(self, holder: Any, key: str | int) -> None:
        """Adds the place of an object with a key for each slot."""
        record = _typed(holder[key], dict)
        self._check(record)
        self._records.append((holder, key, record))

    def _check(self, slots: Collection[str]) -> None:
        if not self.known_slots.issuperset(slots):
            unknown = next(slot for slot in slots if slot not in self.known_slots)
            raise InputError(f"unknown_slot: service {self.service!r} has no slot {unknown!r}")

    def write(self, names: matching.Names) -> None:
        """Writes the names of a variant in all places."""
        new_names = {"service": {self.service: names.service}, "intent": names.intents, "slot": names.slots}
        for kind, holder, key, name in self._places:
            holder[key] = new_names[kind][name]
        for holder, key, record in self._records:  # all keys at once, since names may be swapped
            holder[key] = {names.slots[slot]: value for slot, value in record.items()}


class Places:
    """The places of names in one dialogue.

    Attributes:
      services: the services of the dialogue, in its list or in a frame, with the places of their names.

    Args:
      dialogue: the parsed dialogue, or why it could not be parsed; :meth:`rename` replaces its names in place.
      known: the slots and intents of every service of its split.

    Raises:
      InputError: the schema lacks a service or slot, or it is no dialogue in SGD format; ``where`` is the place.
    """

    def __init__(self, dialogue: Any, known: matching.Known) -> None:
        self.dialogue = dialogue
        self.services: dict[str, ServicePlaces] = {}
        self._known = known
        place = ""
        try:
            for i, service in enumerate(_typed(dialogue["services"], list)):
                place = f"services[{i}]"
                self._of(service).add_service(dialogue["services"], i)
            for t, turn in enumerate(_typed(dialogue["turns"], list)):
                for f, frame in enumerate(_typed(turn["frames"], list)):
                    place = f"turns[{t}].frames[{f}]"
                    _add_frame(frame, self._of(frame["service"]))
            place = ""
            for service, places in self.services.items():
                for span in places.copies:
                    self._add_copy(span, service)
        except InputError as error:
            raise InputError(error.reason, "", error.where or place) from None
        except (TypeError, KeyError, AttributeError):
            typed(dialogue)  # stricter and slower, but with a clear error
            raise InputError("not_sgd: does not have the structure of an SGD dialogue", "", place) from None

    def _of(self, service: str) -> ServicePlaces:
        if service not in self.services:
            self.services[service] = ServicePlaces(service, self._known)
        return self.services[service]

    def _add_copy(self, span: dict[str, Any], service: str) -> None:
        """Adds a ``copy_from``: its slot belongs to the frame's service or else to another service of the dialogue."""
        slot = span["copy_from"]
        owners = [name for name, places in self.services.items() if slot in places.known_slots]
        owners = [service] if service in owners else owners
        if len(owners) != 1:
            which = "none" if not owners else "several"
            raise InputError(f"unknown_slot: copy_from {slot!r}: {which} of the dialogue's services has it")
        self.services[owners[0]].add_slot(span, "copy_from")

    def rename(self, variant: matching.Variant) -> Any:
        """Returns the dialogue, renamed in place. Can be repeated for other variants.

        Args:
          variant: the variant. New names may be swapped, or be old names of other elements.

        Raises:
          InputError: the variant lacks a service.
        """
        for service in self.services:
            if service in variant.bad:
                raise InputError(f"bad_service: {service!r}: {variant.bad[service]}")
        for service, places in self.services.items():
            places.write(variant.names[service])
        return self.dialogue


def _add_frame(frame: dict[str, Any], places: ServicePlaces) -> None:
    """Adds the places in a frame of the service, and the spans that are copied from another slot."""
    slots = places.known_slots
    places.add_service(frame, "service")
    for span in frame.get("slots", ()):
        places.add_slot(span, "slot")
        if "copy_from" in span:
            places.copies.append(span)
    for action in frame.get("actions", ()):
        if "slot" not in _typed(action, dict):
            continue
        slot, act = action["slot"], action.get("act", "")
        if slot == "intent" and is_marker(act, slot):
            for key in ("values", "canonical_values"):
                for i in range(len(_typed(action.get(key) or [], list))):
                    places.add_intent(action[key], i)
        elif slot and not is_marker(act, slot, slots):
            places.add_slot(action, "slot")
    if "state" in frame:
        state = frame["state"]
        places.add_intent(state, "active_intent")
        places.add_slots(state["requested_slots"])
        places.add_record(state, "slot_values")
    if "service_call" in frame:
        places.add_intent(frame["service_call"], "method")
        places.add_record(frame["service_call"], "parameters")
    results = _typed(frame.get("service_results") or [], list)
    for i in range(len(results)):
        places.add_record(results, i)
    for holder, known in ((frame, _FRAME_KEYS), (frame.get("state", {}), _STATE_KEYS)):
        for key in holder.keys() - known:
            if matching.names_slots(names := holder[key], slots):
                if isinstance(names, dict):
                    places.add_record(holder, key)
                else:
                    places.add_slots(names)


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


Services = Sequence[Mapping[str, Any]]
Variants = Mapping[str, Mapping[str, Services]]  # name to split to services


class RenamedCorpus(corpora.Corpus):
    """A corpus under the names of one variant. Dialogues are renamed when they are read.

    Attributes:
      variant: the name of the variant.
      names: folder to the names of its services.
      known: folder to the slots and intents of the original's services.
    """

    def __init__(self, original: corpora.Corpus, variant: str, matched: matching.Matched) -> None:
        targets = {
            folder: matched.targets.get(schemas.split, SplitSchemas(schemas.split, "", [], []))
            for folder, schemas in original.folders.items()
        }
        schemas = {original.folders[folder].relative_path: _bytes_of(target) for folder, target in targets.items()}
        super().__init__(original.files, targets, schemas)
        self.original, self.variant = original, variant
        self.names = {folder: matched.splits[schemas.split] for folder, schemas in original.folders.items()}
        self.known = _known_names(original)

    def read(self, file: DialogueFile) -> Iterator[corpora.Item]:
        """Yields the renamed dialogues of a file."""
        for item in self.original.read(file):
            if item.error is None:
                try:
                    places = Places(item.raw, self.known[file.split])
                    item = item._replace(raw=places.rename(self.names[file.split]), dialogue=None)
                except InputError as error:
                    item = item._replace(error=error)
            yield item

    def provenance(self) -> dict[str, Any]:
        """Returns the original's provenance with the variant."""
        return {**self.original.provenance(), "variant": self.variant}


def _bytes_of(schemas: SplitSchemas) -> bytes:
    path = as_path(schemas.path)
    return read_whole(path, MAX_SCHEMA_FILE) if path.is_file() else schema_bytes(schemas.raw)


def _known_names(corpus: corpora.Corpus) -> dict[str, matching.Known]:
    return {folder: matching.known_names(schemas.services) for folder, schemas in corpus.folders.items()}


def renamed_corpora(
    corpus: corpora.Corpus, variants: str | Path | Variants, names: Sequence[str] = ()
) -> dict[str, RenamedCorpus]:
    """Returns a corpus under the names of each variant, by name. See ``parapet.apply_variants``."""
    if isinstance(variants, Mapping):
        if missing := [name for name in names if name not in variants]:
            raise InputError(f"there is no variant {missing[0]!r} (found: {', '.join(variants)})")
        matches = {
            name: matching.match_variant(name, *_schemas_of(name, splits), _originals(corpus))
            for name, splits in variants.items()
            if not names or name in names
        }
    else:
        matches = matching.match_folders(matching.find_variants(variants, names, "variants"), _originals(corpus))
    matching.check_matched(matches)
    return {name: RenamedCorpus(corpus, name, matched) for name, matched in matches.items()}


def _originals(corpus: corpora.Corpus) -> list[SplitSchemas]:
    """Returns the schemas of a corpus; those of several folders once."""
    return list({id(schemas): schemas for schemas in corpus.folders.values()}.values())


def _schemas_of(name: str, splits: Mapping[str, Services]) -> tuple[list[SplitSchemas], str]:
    """Returns (schemas, place for messages) of a variant in memory."""
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

    def prepare(self, corpus: corpora.Corpus) -> None:
        """Matches the schemas of the variants. Raises InputError if no service of a variant matches."""
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
        """Returns the names of the variants."""
        return {"variants": [*self.sets], "variant": ""}

    @property
    def sets(self) -> tuple[str, ...]:
        """Returns the names of the variants."""
        return tuple(self.variants)

    def row_sets(self) -> Sequence[str]:
        """Returns an empty tuple: only names change, and ``mapping.json`` lists them."""
        return ()

    def state_of(self, place: base.Place, state: Any, shared: base.Shared) -> str:
        """Returns the folder of the dialogue's split."""
        return place[0].rpartition("/")[0]

    def perturb_sets(self, item: corpora.Item, state: str) -> Iterator[tuple[str, base.Perturbed | InputError]]:
        """Yields the dialogue under the names of each variant, renamed in place."""
        try:
            places = Places(item.raw, self.known[state])
        except InputError as error:
            yield from ((name, error) for name in self.sets)
            return
        for variant in self.of_folders[state]:
            try:
                yield variant.name, base.Perturbed(places.rename(variant))
            except InputError as error:
                yield variant.name, error

    def schema_files(self, corpus: corpora.Corpus) -> dict[str, bytes]:
        """Returns the variants' schema files, unchanged, and ``mapping.json``."""
        # Read here, not on workers: the variants may be on this machine while the dialogues are on gs://.
        schemas = {path: read_whole(as_path(source), MAX_SCHEMA_FILE) for path, source in self.schemas}
        return {**schemas, matching.MAPPING: self.mapping}

    def tallies(self, counts: Counts) -> list[Tally]:
        """Returns tallies of the dialogues that may be left out of each variant."""
        return of_variants(counts, self.sets)

    def statistics(self, counts: Counts) -> dict[str, Any]:
        """Counts the dialogues of each variant."""
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
