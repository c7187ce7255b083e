"""The rows that commands write beside their sets: crowd answers, translations, and the outcome of each turn."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.service import Task

# The tasks of crowd workers: names or descriptions of a schema, rewritten utterances, or ratings of utterances.
CrowdTask = Task | Literal["rewrites", "ratings"]

Disposition = Literal["used", "surplus", "duplicate", "rejected", "review"]
DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)
# In messages and on pages. A surplus answer of a service that is not composed yet is one that it needs.
IN_WORDS: dict[str, str] = {**{name: name for name in DISPOSITIONS}, "surplus": "good, not used yet"}

# The sources of answers: Mechanical Turk, Prolific, the user's own annotators, a language model.
AnswerSource = Literal["mturk", "prolific", "in_house", "llm"]
ANSWER_SOURCES: tuple[AnswerSource, ...] = get_args(AnswerSource)
WRITERS: dict[str, str] = {
    "mturk": "crowd workers of Amazon Mechanical Turk",
    "prolific": "participants of Prolific",
    "in_house": "annotators of the authors",
    "llm": "a language model",
}


class Assignment(msgspec.Struct):
    """A worker's submission of one task. The worker is only identified by a keyed hash.

    Attributes:
      service_name: what the task is about: the first part of its id; for rewrites ``DIALOGUE_ID:TURN``, for ratings the
        page.
      answers: form field to the original text (line ends as ``\\n``); a field that was shown and left empty is ``""``.
      asked: whether ``answers`` has every field of the form. In a batch CSV without ``Input.fields``, an empty cell may
        also mean that the form did not have the field.
      accept_time: seconds since 1970, UTC; None if missing or unreadable, as is ``submit_time``.
      work_seconds: from acceptance to submission.
      reward: dollars; None if the record does not state it.
      rejected: whether the requester has rejected the assignment, or simulated annotators have filled it in.
      source: ``file: row N``, for messages.
      platform: the source of the answers.
      unread: the times that the record states and that could not be read, with the reason; for a warning.
      keystrokes: form field to the number of keystrokes that changed its text, if the form counted them. Such forms
        also count ``pastes`` and ``seconds`` (with the focus in the field).
    """

    assignment_id: str
    service_name: str
    task: CrowdTask
    worker_hash: str
    answers: dict[str, str]
    asked: bool = False
    accept_time: int | None = None
    submit_time: int | None = None
    work_seconds: int | None = None
    rejected: bool = False
    source: str = ""
    platform: AnswerSource = "mturk"
    unread: tuple[str, ...] = ()
    keystrokes: dict[str, int] = {}
    pastes: dict[str, int] = {}
    seconds: dict[str, float] = {}
    reward: Decimal | None = None


class DeadLetter(msgspec.Struct):
    """An input record that could not be used: its origin, the reason, and its content.

    Attributes:
      stage: the step that refused it: ``schemas`` or ``dialogues``, ``ingest``, ``settle``, ``compose`` or
        ``decisions``.
      key: its identifier: an assignment id, a response id or ``file: row N``.
      reason: a machine-readable id and, after a colon, an explanation.
      payload: the record, truncated to a readable length.
    """

    stage: str
    key: str
    reason: str
    payload: str
    source: str = ""


class AuditRow(msgspec.Struct):
    """The outcome of an answer: a row of ``responses.parquet``.

    Attributes:
      field: ``name`` or ``description``, as requested. The form field is in ``response_id``.
      text: the original text.
      canonical: the text written to the output, in the corpus's convention; may be ``""``.
      reason: machine-readable; ``""`` for a used answer.
      variant: 1-5, None unless used.
      distance: the distance to the original, by the run's metric; None if the answer was not ranked.
      source: the source of the answer.
      keystrokes: number of keystrokes that changed the text; None if the form did not count them. ``pastes`` and
        ``seconds`` (with the focus in the field) likewise.
    """

    response_id: str
    element_id: str
    field: Literal["name", "description"]
    text: str
    canonical: str
    disposition: Disposition
    reason: str
    variant: int | None
    distance: float | None
    worker_hash: str
    accept_time: int | None
    submit_time: int | None
    work_seconds: int | None
    source: AnswerSource = "mturk"
    keystrokes: int | None = None
    pastes: int | None = None
    seconds: float | None = None


_TIME = pa.timestamp("ms", tz="UTC")  # Parquet has no unit of seconds

# Columns for the worker, times, source, and typing of an answer.
_OF_ANSWERS = [
    pa.field("worker_hash", pa.string(), nullable=False),
    pa.field("accept_time", _TIME),
    pa.field("submit_time", _TIME),
    pa.field("work_seconds", pa.int64()),
    pa.field("source", pa.string(), nullable=False),
    pa.field("keystrokes", pa.int32()),
    pa.field("pastes", pa.int32()),
    pa.field("seconds", pa.float64()),
]

RESPONSES = pa.schema(
    [
        pa.field("response_id", pa.string(), nullable=False),
        pa.field("element_id", pa.string(), nullable=False),
        pa.field("field", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("canonical", pa.string(), nullable=False),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("variant", pa.int8()),
        pa.field("distance", pa.float64()),
        *_OF_ANSWERS,
    ]
)


# A row for each rating: ``responses.parquet`` of ``evaluate --task ratings``.
RATINGS = pa.schema(
    [
        pa.field("response_id", pa.string(), nullable=False),
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),
        pa.field("act", pa.int32()),
        pa.field("stratum", pa.string(), nullable=False),
        pa.field("question", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        *_OF_ANSWERS,
    ]
)


Kind = Literal["paraphrase", "typos", "verbose", "simple"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class RewrittenTurn(msgspec.Struct, frozen=True):
    """A line of ``rewritten.jsonl``, the input of ``language_variations --rewritten``.

    Attributes:
      turn: the position of the turn in the dialogue, from 0.
      source: the response id.
    """

    dialogue_id: str
    turn: int
    kind: Kind
    utterance: str
    source: str


_VALUES = pa.list_(
    pa.struct(
        [
            pa.field("service", pa.string(), nullable=False),
            pa.field("slot", pa.string(), nullable=False),
            pa.field("value", pa.string(), nullable=False),
            pa.field("start", pa.int32(), nullable=False),
            pa.field("exclusive_end", pa.int32(), nullable=False),
            pa.field("new_start", pa.int32()),
            pa.field("new_exclusive_end", pa.int32()),
        ]
    )
)

# A row for each answer: ``responses.parquet`` of ``compose_variations``.
REWRITINGS = pa.schema(
    [
        pa.field("response_id", pa.string(), nullable=False),
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("original", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("canonical", pa.string(), nullable=False),
        pa.field("disposition", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("values", _VALUES, nullable=False),
        *_OF_ANSWERS,
    ]
)


class Translation(msgspec.Struct, frozen=True, order=True):
    """A translated text: a row of ``memory.parquet``.

    Attributes:
      provider: the engine: ``google``, ``local``; ``human`` for a translator.
      model: the engine's name for its model.
      source: the language of the text in BCP 47: ``en``, ``zh``.
      target: the language of the translation.
      text: the text that was sent.
      translation: the text that was returned.
    """

    provider: str
    model: str
    source: str
    target: str
    text: str
    translation: str


MEMORY = pa.schema([pa.field(name, pa.string(), nullable=False) for name in Translation.__struct_fields__])


class BackTranslation(msgspec.Struct, frozen=True):
    """The outcome of back-translating a name or description: a row of ``translations.parquet``.

    Attributes:
      element_id: ``SERVICE/slot/NAME`` and so on, with original names.
      field: ``name`` or ``description``.
      pivot: the pivot language.
      original: the text in the schema.
      text: the text that was sent; for a name, its words.
      pivot_text: the translation; may be ``""``.
      back_text: the back-translation; may be ``""``.
      emitted: the text in the variant.
      reason: why the original is used; ``""`` if the back-translation is used.
    """

    element_id: str
    field: Literal["name", "description"]
    pivot: str
    original: str
    text: str
    pivot_text: str
    back_text: str
    emitted: str
    reason: str


AUDIT = pa.schema([pa.field(name, pa.string(), nullable=False) for name in BackTranslation.__struct_fields__])


SPAN = pa.struct(
    [
        pa.field("service", pa.string(), nullable=False),
        pa.field("slot", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),  # in the original utterance
        pa.field("start", pa.int64(), nullable=False),
        pa.field("exclusive_end", pa.int64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # kept | lost
        pa.field("heard_start", pa.int64()),  # in the new utterance; null if the value is lost
        pa.field("heard_exclusive_end", pa.int64()),
    ]
)

# Sorted by dialogue, in the order of its file, and turn.
ASR_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("status", pa.string(), nullable=False),  # heard | not_spoken | failed
        pa.field("reason", pa.string(), nullable=False),  # why it has no transcript; may be empty
        pa.field("original", pa.string(), nullable=False),  # the original utterance
        pa.field("utterance", pa.string(), nullable=False),  # in the set
        pa.field("spoken", pa.string(), nullable=False),  # the spoken form: the reference
        pa.field("hypothesis", pa.string(), nullable=False),  # the transcript
        pa.field(
            "alignment", pa.string(), nullable=False
        ),  # reference>hypothesis, see parapet.transforms.perturb.speech.alignment
        pa.field("words", pa.int32(), nullable=False),
        pa.field("substitutions", pa.int32(), nullable=False),
        pa.field("deletions", pa.int32(), nullable=False),
        pa.field("insertions", pa.int32(), nullable=False),
        pa.field("wer", pa.float64()),  # of this turn; null without a transcript
        pa.field("voice", pa.string(), nullable=False),
        pa.field("noise", pa.string(), nullable=False),
        pa.field("snr", pa.float64()),  # dB; null without a transcript
        pa.field("audio_sha256", pa.string(), nullable=False),  # of the recognised samples
        pa.field("seconds", pa.float64()),
        pa.field("slots", pa.list_(pa.field("item", SPAN, nullable=False)), nullable=False),
    ]
)


# Sorted by dialogue, in the order of its file, and turn.
OOD_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the new dialogue, from 0
        pa.field("original_turn", pa.int32()),  # position in the original; null if the turn was injected
        pa.field("label", pa.string(), nullable=False),  # in_domain | ood
        pa.field("source", pa.string()),  # file and place of the foreign utterance; null for in_domain
        pa.field("utterance", pa.string(), nullable=False),
        pa.field("fallback", pa.string()),  # the system's answer; null for in_domain
    ]
)


# Sorted by dialogue, in the order of its file, and turn.
PERTURBED_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("status", pa.string(), nullable=False),  # varied | unchanged
        pa.field("reason", pa.string(), nullable=False),  # why it is unchanged; empty if it was varied
        pa.field("original", pa.string(), nullable=False),  # the original utterance
        pa.field("utterance", pa.string(), nullable=False),  # in the set
        # Source of the words: rules, llm, or as named in a file of rewritten turns; empty if unchanged.
        pa.field("source", pa.string(), nullable=False),
        # Kinds of changes of single words, in order: omission, politeness, ...
        pa.field("operations", pa.list_(pa.field("item", pa.string(), nullable=False)), nullable=False),
        pa.field("env", pa.int8(), nullable=False),  # number of the smallest Env set that varies it, from 1; 0 for none
    ]
)


_TEXTS = pa.list_(pa.field("item", pa.string(), nullable=False))

# Sorted by dialogue, in the order of its file; then service, slot, canonical form.
REPLACEMENTS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("service", pa.string(), nullable=False),
        pa.field("slot", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # city, date, ...; see docs/perturbations.md
        pa.field("status", pa.string(), nullable=False),  # replaced | kept
        pa.field("reason", pa.string(), nullable=False),  # why it was kept; empty if it was replaced
        pa.field("value", _TEXTS, nullable=False),  # all spellings besides the canonical form
        pa.field("replacement", _TEXTS, nullable=False),  # the distinct replacements of these
        pa.field("canonical", pa.string(), nullable=False),
        pa.field("canonical_replacement", pa.string(), nullable=False),  # empty if it was kept
        pa.field("unseen", pa.bool_(), nullable=False),  # whether the replacement does not occur in training
    ]
)


def parquet_bytes(table: pa.Table) -> bytes:
    """Write a table to Parquet, compressed with Zstandard."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, compression="zstd")
    return bytes(sink.getvalue())
