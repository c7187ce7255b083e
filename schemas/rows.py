"""The rows that commands write beside their sets: answers of the crowd, translations, and what became of each turn."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from parapet.schemas.service import Task

# What a crowd task asks for: a schema's names or descriptions, rewritten utterances, or ratings of utterances.
CrowdTask = Task | Literal["rewrites", "ratings", "validity"]

Disposition = Literal["used", "surplus", "duplicate", "rejected", "review"]
DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)

# Where answers come from: Mechanical Turk, Prolific, annotators of one's own, a language model.
AnswerSource = Literal["mturk", "prolific", "in_house", "llm"]
ANSWER_SOURCES: tuple[AnswerSource, ...] = get_args(AnswerSource)


class Assignment(msgspec.Struct):
    """One worker's submission of one task. The worker is known by a keyed hash only.

    Attributes:
      service_name: what the task is about: the first part of its id, of rewrites ``DIALOGUE_ID:TURN``,
        of ratings the page.
      answers: form field to text as given (line ends as ``\\n``); a field shown and left empty is ``""``.
      asked: whether ``answers`` holds every field that the form showed. In a batch CSV without ``Input.fields`` an
        empty cell may also mean that the form had no such field.
      accept_time: seconds since 1970, UTC; None where missing or unreadable. So is ``submit_time``.
      work_seconds: from acceptance to submission.
      rejected: whether the requester has rejected the assignment.
      source: ``file: row N``, for messages; never part of an output's content.
      platform: where it comes from.
      keystrokes: form field to how often a key changed its text, where the form counted. ``pastes`` and ``seconds``
        (of the field having the focus) are counted by the same forms.
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
    keystrokes: dict[str, int] = {}
    pastes: dict[str, int] = {}
    seconds: dict[str, float] = {}


class DeadLetter(msgspec.Struct):
    """An input record that could not be used: where it came from, why, and what it was.

    Attributes:
      stage: where it fell out: ``schemas`` or ``dialogues``, ``ingest``, ``settle``, ``compose`` or ``decisions``.
      key: what identifies it: an assignment id, a response id or ``file: row N``.
      reason: a machine-readable id and, after a colon, what a person should know.
      payload: the record, cut to a length that can be read.
    """

    stage: str
    key: str
    reason: str
    payload: str
    source: str = ""


class AuditRow(msgspec.Struct):
    """One answer's fate: a row of ``responses.parquet``.

    Attributes:
      field: ``name`` or ``description``: what was asked for. The form field is in ``response_id``.
      text: as given.
      canonical: as it is emitted, in the corpus's convention; ``""`` where nothing is left of it.
      reason: machine-readable; ``""`` for a used answer.
      variant: 1-5, None unless used.
      distance: to the original, by the run's metric; None where the answer was not ranked.
      source: where the answer comes from.
      keystrokes: how often a key changed the text. None where the form did not count; ``pastes`` and ``seconds``, for
        which the field had the focus, too.
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


_TIME = pa.timestamp("ms", tz="UTC")  # Parquet has no seconds

# Who gave an answer and when, where it comes from and how it was typed.
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


def audit_table(rows: list[AuditRow]) -> pa.Table:
    """The rows as Arrow, in the columns of ``responses.parquet``."""
    return pa.table({field.name: _column(rows, field) for field in RESPONSES}, RESPONSES)


def _column(rows: list[AuditRow], field: pa.Field) -> pa.Array:
    values = [getattr(row, field.name) for row in rows]
    if field.type == _TIME:
        return pa.array(values, pa.timestamp("s", tz="UTC")).cast(_TIME)
    return pa.array(values, field.type)


# A row for every rating: ``responses.parquet`` of ``evaluate --task ratings`` and ``--task validity``.
RATINGS = pa.schema(
    [
        pa.field("response_id", pa.string(), nullable=False),
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),
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
    """A line of ``rewritten.jsonl``, as ``language_variations --rewritten`` takes it.

    Attributes:
      turn: the position in the dialogue's turns, from 0.
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

# A row for every answer: ``responses.parquet`` of ``compose_variations``.
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
    """One text in another language: a row of ``memory.parquet``.

    Attributes:
      provider: the engine: ``google``, ``libretranslate``, ``local``; ``human`` for a translator's.
      model: what it says of its model.
      source: language of the text, as BCP 47 has it: ``en``, ``zh``.
      target: language of the translation.
      text: as it was sent.
      translation: as it came back.
    """

    provider: str
    model: str
    source: str
    target: str
    text: str
    translation: str


MEMORY = pa.schema([pa.field(name, pa.string(), nullable=False) for name in Translation.__struct_fields__])


class BackTranslation(msgspec.Struct, frozen=True):
    """What became of one name or description under one pivot: a row of ``translations.parquet``.

    Attributes:
      element_id: ``SERVICE/slot/NAME`` and so on, original names.
      field: ``name`` or ``description``.
      pivot: the language it went through.
      original: as the schema has it.
      text: what was sent: of a name its words.
      pivot_text: the translation; ``""`` where there is none.
      back_text: the translation's translation; ``""`` where there is none.
      emitted: as the variant has it.
      reason: why that is the original; ``""`` where the back-translation is used.
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
        pa.field("value", pa.string(), nullable=False),  # as the original utterance has it
        pa.field("start", pa.int64(), nullable=False),
        pa.field("exclusive_end", pa.int64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # kept | lost
        pa.field("heard_start", pa.int64()),  # in the new utterance; null where the value is lost
        pa.field("heard_exclusive_end", pa.int64()),
    ]
)

# Sorted by dialogue, as its file has them, and turn.
ASR_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("status", pa.string(), nullable=False),  # heard | not_spoken | failed
        pa.field("reason", pa.string(), nullable=False),  # why it has no transcript; else empty
        pa.field("original", pa.string(), nullable=False),  # the original utterance
        pa.field("utterance", pa.string(), nullable=False),  # as the set has it
        pa.field("spoken", pa.string(), nullable=False),  # the spoken form: the reference
        pa.field("hypothesis", pa.string(), nullable=False),  # the transcript
        pa.field(
            "alignment", pa.string(), nullable=False
        ),  # reference>hypothesis, see parapet.transforms.perturbations.speech.alignment
        pa.field("words", pa.int32(), nullable=False),
        pa.field("substitutions", pa.int32(), nullable=False),
        pa.field("deletions", pa.int32(), nullable=False),
        pa.field("insertions", pa.int32(), nullable=False),
        pa.field("wer", pa.float64()),  # of this turn; null without a transcript
        pa.field("voice", pa.string(), nullable=False),
        pa.field("noise", pa.string(), nullable=False),
        pa.field("snr", pa.float64()),  # dB; null without a transcript
        pa.field("audio_sha256", pa.string(), nullable=False),  # of the samples that were recognised
        pa.field("seconds", pa.float64()),
        pa.field("slots", pa.list_(pa.field("item", SPAN, nullable=False)), nullable=False),
    ]
)


# Sorted by dialogue, as its file has them, and turn.
OOD_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the new dialogue, from 0
        pa.field("original_turn", pa.int32()),  # position in the original; null where the turn was injected
        pa.field("label", pa.string(), nullable=False),  # in_domain | ood
        pa.field("source", pa.string()),  # file and place of the foreign utterance; null where in_domain
        pa.field("utterance", pa.string(), nullable=False),
        pa.field("fallback", pa.string()),  # what the system answers to it; null where in_domain
    ]
)


OPERATION = pa.struct(
    [
        pa.field("kind", pa.string(), nullable=False),  # omission, opener, politeness, ...
        pa.field("start", pa.int32(), nullable=False),  # in the original
        pa.field("end", pa.int32(), nullable=False),
        pa.field("before", pa.string(), nullable=False),
        pa.field("after", pa.string(), nullable=False),
    ]
)

SLOT = pa.struct(
    [
        pa.field("service", pa.string(), nullable=False),
        pa.field("slot", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),  # as the original utterance has it
        pa.field("start", pa.int32(), nullable=False),
        pa.field("exclusive_end", pa.int32(), nullable=False),
        pa.field("new_value", pa.string(), nullable=False),  # as the set has it: another with --perturb_values only
        pa.field("new_start", pa.int32(), nullable=False),
        pa.field("new_exclusive_end", pa.int32(), nullable=False),
    ]
)

# Sorted by dialogue, as its file has them, and turn.
PERTURBED_TURNS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),  # position in the dialogue, from 0
        pa.field("status", pa.string(), nullable=False),  # varied | unchanged
        pa.field("reason", pa.string(), nullable=False),  # why it is unchanged; empty where it was varied
        pa.field("original", pa.string(), nullable=False),  # the utterance as it was
        pa.field("utterance", pa.string(), nullable=False),  # as the set has it
        # Whose words: rules, back_translation:PIVOT, or what a file of rewritten turns names; empty where unchanged.
        pa.field("source", pa.string(), nullable=False),
        # In order, apart: what stands in the original before, between and behind them moves by what they add or take.
        pa.field("operations", pa.list_(pa.field("item", OPERATION, nullable=False)), nullable=False),
        pa.field("env", pa.int8(), nullable=False),  # the smallest Env set that has it varied, from 1; 0: none
        pa.field("slots", pa.list_(pa.field("item", SLOT, nullable=False)), nullable=False),
    ]
)


_TEXTS = pa.list_(pa.field("item", pa.string(), nullable=False))

# Sorted by dialogue, as its file has them; then service, slot, canonical form.
REPLACEMENTS = pa.schema(
    [
        pa.field("dialogue_id", pa.string(), nullable=False),
        pa.field("service", pa.string(), nullable=False),
        pa.field("slot", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # city, date, ...; see docs/perturbations.md
        pa.field("status", pa.string(), nullable=False),  # replaced | kept
        pa.field("reason", pa.string(), nullable=False),  # why it was kept; empty where it was replaced
        pa.field("value", _TEXTS, nullable=False),  # every way in which it is written besides the canonical form
        pa.field("replacement", _TEXTS, nullable=False),  # what stands for these, each once
        pa.field("canonical", pa.string(), nullable=False),
        pa.field("canonical_replacement", pa.string(), nullable=False),  # empty where it was kept
        pa.field("unseen", pa.bool_(), nullable=False),  # replaced by what training does not have
        # Places replaced. What several slots share, unmarked, counts for the first.
        pa.field("utterances", pa.int32(), nullable=False),
        pa.field("spans", pa.int32(), nullable=False),  # those of them that a span marks
        pa.field("state", pa.int32(), nullable=False),
        pa.field("actions", pa.int32(), nullable=False),
        pa.field("service_call", pa.int32(), nullable=False),
        pa.field("results", pa.int32(), nullable=False),
    ]
)


def parquet_bytes(table: pa.Table) -> bytes:
    """The file, compressed with Zstandard."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, compression="zstd")
    return bytes(sink.getvalue())
