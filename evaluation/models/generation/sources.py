"""The sets that utterances are made for: the reference, its words under each variant, other corpora."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from parapet.evaluation.generation.corpus import ORIGINAL, Kinds, SystemTurn, kinds_of, system_turns
from parapet.evaluation.generation.references import ServiceWords, services_of, varied_words, words_of
from parapet.evaluation.models.generation.templates import text_of
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.layout import read_root
from parapet.schemas.service import Service
from parapet.transforms.corpora import dialogues_of, read_corpus
from parapet.transforms.variants.folders import find_variants


class Source(msgspec.Struct, frozen=True):
    """A set.

    Attributes:
      name: ``original``, ``v1``, or as ``--sets`` has it.
      files: of its dialogues, by name.
      kinds: of its slots.
      words: of its services, by the names that the dialogues have.
    """

    name: str
    files: tuple[DialogueFile, ...]
    kinds: Kinds
    words: dict[str, ServiceWords]


class Asked(msgspec.Struct, frozen=True):
    """A system turn, and the templates of its acts; nothing where it has none."""

    turn: SystemTurn
    text: str


def sources(root: str, split: str, variants: str | None, others: Mapping[str, str]) -> list[Source]:
    """The sets, the original first.

    A variant has the dialogues of the original: its acts, told in the variant's words.

    Args:
      root: the corpus.
      split: whose dialogues.
      variants: a folder of schema variants, or None.
      others: further corpora, by name.

    Raises:
      InputError: something is missing, or two sets have one name.
    """
    services, original = _source(ORIGINAL, root, split)
    found = [original]
    for name, place in (find_variants(variants) if variants is not None else {}).items():
        if name == ORIGINAL:
            raise InputError(f"a variant cannot be called {ORIGINAL!r}", place, "--variants")
        words = varied_words(services, read_root(place, leave_out_bad=True), name)
        found.append(Source(name, original.files, original.kinds, words))
    for name, other in others.items():
        if name in {one.name for one in found}:
            raise InputError(f"there is a set of the name {name!r} already", other, "--sets")
        found.append(_source(name, other, split)[1])
    return found


def _source(name: str, root: str, split: str) -> tuple[list[Service], Source]:
    schemas = {one.split: one for one in read_root(root, leave_out_bad=True)}
    files = tuple(sorted(read_corpus(root, [split]).files, key=lambda file: file.relative))
    services = services_of(schemas, split)
    words = {service.service_name: words_of(service) for service in services}
    return services, Source(name, files, kinds_of(services), words)


def turns_of(source: Source, file: int) -> Iterator[list[Asked]]:
    """The system turns of each dialogue of a file. Raises InputError where one cannot be read."""
    of = source.files[file]
    for position, _, _, dialogue in dialogues_of(of):
        if isinstance(dialogue, InputError):
            raise InputError(dialogue.reason, of.path, f"[{position}].{dialogue.where}".rstrip("."))
        try:
            yield [Asked(turn, text_of(turn.acts, source.words)) for turn in system_turns(dialogue, source.kinds)]
        except InputError as error:
            raise InputError(error.reason, of.path, error.where) from None
