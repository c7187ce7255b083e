"""The columns of a release and their types in words, for readers of its documents."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

Columns = Mapping[str, pa.Schema]  # by configuration

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


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is a list of any of Arrow's kinds."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def inner(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the items of a list; any other type unchanged."""
    return kind.value_type if is_list(kind) else kind


def in_words(kind: pa.DataType) -> str:
    """Returns a type as readers want it: ``list of {speaker, utterance, frames}``."""
    if is_list(kind):
        return f"list of {in_words(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "{" + ", ".join(field.name for field in kind) + "}"
    return str(kind)
