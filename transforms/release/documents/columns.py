"""The columns of a release in words, and their Arrow types taken apart: the manifest has them as text."""

from __future__ import annotations

import re

import msgspec

_ROW = {
    "position": "its place in its file, from 0",
    "layout": "how its file was laid out: `published` as SGD's, `no_newline`, or `other`",
    "source_json": "the record as its file has it, where the other columns cannot say all of it; else null",
}
# By what a row is, and the column.
MEANINGS = {
    "dialogue": {
        **_ROW,
        "dialogue_id": "unique in its split",
        "file": "its file's name",
        "services": "those that it speaks of, by name",
        "turns": "the utterances and their annotation: frames with slots, actions, state and service calls, as in SGD",
    },
    "service": {
        **_ROW,
        "variant": "the corpus it is of",
        "service_name": "unique in its corpus and split",
        "description": "what the service does",
        "slots": "the slots that can be requested or given",
        "intents": "what can be done, and the slots that each of them needs, takes and gives",
    },
    "paraphrase": {
        "response_id": "of the answer: its assignment and the field of the form",
        "element_id": "what it is a paraphrase of: a service, intent or slot, by its original name",
        "field": "`name` or `description`: what the worker was asked for",
        "text": "as it was given",
        "canonical": "the form that a variant has, or would have",
        "disposition": "what became of it",
        "reason": "why it was not used",
        "variant": "the variant that has it; null if none",
        "distance": "to the original; null where it was not ranked",
        "work_seconds": "that the worker took for the whole form",
    },
}


class Type(msgspec.Struct, frozen=True):
    """An Arrow type.

    Attributes:
      name: ``list``, ``struct``, that of a type without members, or ``other`` for what is not taken apart.
      members: name and type; of a list the one of its items.
    """

    name: str
    members: tuple[tuple[str, Type], ...] = ()


OTHER = Type("other")
_LIST = re.compile(r"(?:large_)?(?:list|list_view)<|fixed_size_list<")
_PLAIN = re.compile(r"(?:dictionary|map|\w*union|run_end_encoded|extension)<|\w+(?:\[[^\]]*\]|\([^)]*\))?")
_LABEL = re.compile(r"(.*?): ", re.DOTALL)
_END = re.compile(r"(?: not null)?(, |>(?:\[\d+\])?)")


def parse(text: str) -> Type:
    """Takes a type apart, as ``str`` of pyarrow's gives it; ``OTHER`` where its text can be read in no or several ways.

    Names in it are not quoted, and may have anything in them.
    """
    try:
        found, at = _type(text, 0)
    except (ValueError, RecursionError):
        return OTHER
    return found if at == len(text) else OTHER


def in_words(found: Type) -> str:
    """A type as a reader wants it: ``list of {speaker, utterance, frames}``."""
    if found.name == "list":
        return f"list of {in_words(found.members[0][1])}"
    if found.name == "struct":
        return "{" + ", ".join(name for name, _ in found.members) + "}"
    return found.name


def _type(text: str, at: int) -> tuple[Type, int]:
    if found := _LIST.match(text, at):
        return _members("list", text, found.end())
    if text.startswith("struct<>", at):
        return Type("struct"), at + len("struct<>")
    if text.startswith("struct<", at):
        return _members("struct", text, at + len("struct<"))
    found = _PLAIN.match(text, at)
    if not found or found[0].endswith("<"):
        raise ValueError(f"no plain type at {at}")
    return Type(found[0]), found.end()


def _members(name: str, text: str, at: int) -> tuple[Type, int]:
    members = []
    while True:
        label = _LABEL.match(text, at)
        if not label:
            raise ValueError(f"no name at {at}")
        member, at = _type(text, label.end())
        members.append((label[1], member))
        end = _END.match(text, at)
        if not end:
            raise ValueError(f"no end at {at}")
        at = end.end()
        if end[1] != ", ":
            return Type(name, tuple(members)), at
