"""The rows of tables: crowd answers, translations, the outcome of each turn, dialogues and services.

Dialogues and services are converted to rows and back without loss. JSON objects whose keys are data (slot values,
parameters, results) become lists of key and value, because ``datasets`` cannot read Arrow's map columns. Content that
the columns cannot represent (keys of other programs, another order of keys) is kept in ``source_json``, which is null
if the columns suffice, as for all of SGD and SGD-X. ``layout`` is the format of the row's file: ``published`` like
SGD's files; ``no_newline`` for the same without the final newline (as written by the SGD-X generator), which are both
restored byte for byte; or ``other``, which is restored with the same content.
"""

import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Literal, get_args

import msgspec
import orjson
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError, reason_and_place
from parapet.schemas.layout import dialogue_bytes, parse_json, schema_bytes
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


_INT, _FLOAT, _TEXT = pa.int32(), pa.float64(), pa.string()


def required(kind: pa.DataType, *names: str) -> list[pa.Field]:
    """Returns columns of one type that have a value in every row."""
    return [pa.field(name, kind, nullable=False) for name in names]


def _required_list(name: str, of: pa.DataType) -> pa.Field:
    return pa.field(name, pa.list_(pa.field("item", of, nullable=False)), nullable=False)


_TIME = pa.timestamp("ms", tz="UTC")  # Parquet has no unit of seconds

# Columns for the worker, times, source, and typing of an answer.
_OF_ANSWERS = [
    *required(_TEXT, "worker_hash"),
    *(("accept_time", _TIME), ("submit_time", _TIME), ("work_seconds", pa.int64())),
    *required(_TEXT, "source"),
    *(("keystrokes", _INT), ("pastes", _INT), ("seconds", _FLOAT)),
]

RESPONSES = pa.schema(
    [
        *required(_TEXT, "response_id", "element_id", "field", "text", "canonical", "disposition", "reason"),
        ("variant", pa.int8()),
        ("distance", _FLOAT),
        *_OF_ANSWERS,
    ]
)


# A row for each rating: ``responses.parquet`` of ``evaluate --task ratings``.
RATINGS = pa.schema(
    [
        *required(_TEXT, "response_id", "dialogue_id"),
        *required(_INT, "turn"),
        ("act", _INT),
        *required(_TEXT, "stratum", "question", "text", "disposition", "reason"),
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


_VALUE = [*required(_TEXT, "service", "slot", "value"), *required(_INT, "start", "exclusive_end")]

# A row for each answer: ``responses.parquet`` of ``compose_variations``.
REWRITINGS = pa.schema(
    [
        *required(_TEXT, "response_id", "dialogue_id"),
        *required(_INT, "turn"),
        *required(_TEXT, "kind", "original", "text", "canonical", "disposition", "reason"),
        *required(pa.list_(pa.struct([*_VALUE, ("new_start", _INT), ("new_exclusive_end", _INT)])), "values"),
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


MEMORY = pa.schema(required(_TEXT, *Translation.__struct_fields__))


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


AUDIT = pa.schema(required(_TEXT, *BackTranslation.__struct_fields__))


SPAN = pa.struct(
    [
        *required(_TEXT, "service", "slot", "value"),  # the value in the original utterance
        *required(pa.int64(), "start", "exclusive_end"),
        *required(_TEXT, "status"),  # kept | lost
        ("heard_start", pa.int64()),  # in the new utterance; null if the value is lost
        ("heard_exclusive_end", pa.int64()),
    ]
)

# Sorted by dialogue, in the order of its file, and turn.
ASR_TURNS = pa.schema(
    [
        *required(_TEXT, "dialogue_id"),
        *required(_INT, "turn"),  # position in the dialogue, from 0
        *required(_TEXT, "status"),  # heard | not_spoken | failed
        *required(_TEXT, "reason"),  # why it has no transcript; may be empty
        *required(_TEXT, "original", "utterance"),  # the original utterance, and the one in the set
        *required(_TEXT, "spoken", "hypothesis"),  # the spoken form, which is the reference, and the transcript
        *required(_TEXT, "alignment"),  # reference>hypothesis, see parapet.transforms.perturb.speech.alignment
        *required(_INT, "words", "substitutions", "deletions", "insertions"),
        ("wer", _FLOAT),  # of this turn; null without a transcript
        *required(_TEXT, "voice", "noise"),
        ("snr", _FLOAT),  # dB; null without a transcript
        *required(_TEXT, "audio_sha256"),  # of the recognised samples
        ("seconds", _FLOAT),
        _required_list("slots", SPAN),
    ]
)


# Sorted by dialogue, in the order of its file, and turn.
OOD_TURNS = pa.schema(
    [
        *required(_TEXT, "dialogue_id"),
        *required(_INT, "turn"),  # position in the new dialogue, from 0
        ("original_turn", _INT),  # position in the original; null if the turn was injected
        *required(_TEXT, "label"),  # in_domain | ood
        ("source", _TEXT),  # file and place of the foreign utterance; null for in_domain
        *required(_TEXT, "utterance"),
        ("fallback", _TEXT),  # the system's answer; null for in_domain
    ]
)


# Sorted by dialogue, in the order of its file, and turn.
PERTURBED_TURNS = pa.schema(
    [
        *required(_TEXT, "dialogue_id"),
        *required(_INT, "turn"),  # position in the dialogue, from 0
        *required(_TEXT, "status"),  # varied | unchanged
        *required(_TEXT, "reason"),  # why it is unchanged; empty if it was varied
        *required(_TEXT, "original", "utterance"),  # the original utterance, and the one in the set
        # Source of the words: rules, llm, or as named in a file of rewritten turns; empty if unchanged.
        *required(_TEXT, "source"),
        _required_list("operations", _TEXT),  # kinds of changes of single words, in order: omission, politeness, ...
        *required(pa.int8(), "env"),  # number of the smallest Env set that varies it, from 1; 0 for none
    ]
)


# Sorted by dialogue, in the order of its file; then service, slot, canonical form.
REPLACEMENTS = pa.schema(
    [
        *required(_TEXT, "dialogue_id", "service", "slot"),
        *required(_TEXT, "kind"),  # city, date, ...; see docs/perturbations.md
        *required(_TEXT, "status"),  # replaced | kept
        *required(_TEXT, "reason"),  # why it was kept; empty if it was replaced
        _required_list("value", _TEXT),  # all spellings besides the canonical form
        _required_list("replacement", _TEXT),  # the distinct replacements of these
        *required(_TEXT, "canonical"),
        *required(_TEXT, "canonical_replacement"),  # empty if it was kept
        *required(pa.bool_(), "unseen"),  # whether the replacement does not occur in training
    ]
)


def parquet_bytes(table: pa.Table) -> bytes:
    """Writes a table to Parquet, compressed with Zstandard."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, compression="zstd")
    return bytes(sink.getvalue())


_TEXTS = pa.list_(_TEXT)
_PAIRS = pa.list_(pa.struct([("key", _TEXT), ("value", _TEXT)]))
_SPAN = pa.struct([("slot", _TEXT), ("start", _INT), ("exclusive_end", _INT)])
_ACTION = pa.struct([("act", _TEXT), ("slot", _TEXT), ("values", _TEXTS), ("canonical_values", _TEXTS)])
_SLOT_VALUES = pa.list_(pa.struct([("key", _TEXT), ("value", _TEXTS)]))
_FRAME = pa.struct(
    [
        ("service", _TEXT),
        ("slots", pa.list_(_SPAN)),
        ("actions", pa.list_(_ACTION)),
        ("state", pa.struct([("active_intent", _TEXT), ("requested_slots", _TEXTS), ("slot_values", _SLOT_VALUES)])),
        ("service_call", pa.struct([("method", _TEXT), ("parameters", _PAIRS)])),
        ("service_results", pa.list_(_PAIRS)),
    ]
)
_TURN = pa.struct([("speaker", _TEXT), ("utterance", _TEXT), ("frames", pa.list_(_FRAME))])
DIALOGUES = pa.schema(
    [
        *required(_TEXT, "dialogue_id", "file"),
        *required(_INT, "position"),
        *required(_TEXT, "layout"),
        ("services", _TEXTS),
        ("turns", pa.list_(_TURN)),
        ("source_json", _TEXT),
    ]
)
_SLOT = pa.struct(
    [("name", _TEXT), ("description", _TEXT), ("is_categorical", pa.bool_()), ("possible_values", _TEXTS)]
)
_INTENT = pa.struct(
    [
        ("name", _TEXT),
        ("description", _TEXT),
        ("is_transactional", pa.bool_()),
        ("required_slots", _TEXTS),
        ("optional_slots", _PAIRS),
        ("result_slots", _TEXTS),
    ]
)
SERVICES = pa.schema(
    [
        *required(_TEXT, "variant", "service_name"),
        *required(_INT, "position"),
        *required(_TEXT, "layout"),
        ("description", _TEXT),
        ("slots", pa.list_(_SLOT)),
        ("intents", pa.list_(_INTENT)),
        ("source_json", _TEXT),
    ]
)


def service_rows(services: Sequence[Mapping[str, Any]], variant: str, data: bytes) -> list[dict[str, Any]]:
    """Converts a schema file to rows, given its corpus, and its bytes to detect the layout."""
    layout = layout_of(data, schema_bytes(services))
    return [{**service_row(service, variant, i), "layout": layout} for i, service in enumerate(services)]


def layout_of(data: bytes, published: bytes) -> str:
    """Detects a file's layout from its bytes, and from the bytes in the published layout."""
    return "published" if data == published else "no_newline" if data + b"\n" == published else "other"


def dialogue_row(dialogue: Mapping[str, Any], file: str, position: int) -> dict[str, Any]:
    """Converts a dialogue to a row of DIALOGUES.

    Args:
      dialogue: the validated dialogue in the format of its file (see ``parapet.schemas.dialogue``).
      file: the name of the file.
      position: its position in the file, from 0.
    """
    row = {
        "dialogue_id": dialogue["dialogue_id"],
        "file": file,
        "position": position,
        "layout": "published",
        "services": dialogue["services"],
        "turns": _converted(dialogue["turns"], _frame_row),
        "source_json": None,
    }
    if _sorted_json(dialogue_of(row)) != _sorted_json(dialogue):
        row["source_json"] = json.dumps(dialogue, sort_keys=True)
    return row


def dialogue_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a row to a dialogue in the format of its file."""
    if row["source_json"] is not None:
        return dict(json.loads(row["source_json"]))
    return {
        "dialogue_id": row["dialogue_id"],
        "services": row["services"],
        "turns": _converted(row["turns"], _frame_of),
    }


def _converted(turns: Sequence[Mapping[str, Any]], convert: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """Returns the turns with each frame converted."""
    return [
        {"speaker": turn["speaker"], "utterance": turn["utterance"], "frames": [*map(convert, turn["frames"])]}
        for turn in turns
    ]


def service_row(service: Mapping[str, Any], variant: str, position: int) -> dict[str, Any]:
    """Converts a service to a row of SERVICES.

    Args:
      service: the validated service in the format of its file (see ``parapet.schemas.service``).
      variant: its corpus: ``original``, ``v1``.
      position: its position in the file, from 0.
    """
    row = {
        "variant": variant,
        "service_name": service["service_name"],
        "position": position,
        "layout": "published",
        "description": service["description"],
        "slots": [{key: slot.get(key) for key in _SLOT_KEYS} for slot in service["slots"]],
        "intents": [
            {**{key: intent.get(key) for key in _INTENT_KEYS}, "optional_slots": _pairs(intent.get("optional_slots"))}
            for intent in service["intents"]
        ],
        "source_json": None,
    }
    # compared as text, since the order of keys matters for the bytes of a schema file
    if json.dumps(service_of(row)) != (text := json.dumps(service)):
        row["source_json"] = text
    return row


def service_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a row to a service, with keys in the order of the published files."""
    if row["source_json"] is not None:
        return dict(json.loads(row["source_json"]))
    return {
        "service_name": row["service_name"],
        "description": row["description"],
        "slots": [_without_none(slot, _SLOT_KEYS) for slot in row["slots"]],
        "intents": [
            _without_none({**intent, "optional_slots": _object(intent["optional_slots"])}, _INTENT_KEYS)
            for intent in row["intents"]
        ],
    }


_SLOT_KEYS, _INTENT_KEYS, _SPAN_KEYS, _ACTION_KEYS = (
    tuple(field.name for field in struct) for struct in (_SLOT, _INTENT, _SPAN, _ACTION)
)


def _frame_row(frame: Mapping[str, Any]) -> dict[str, Any]:
    state, call, results, actions = (frame.get(key) for key in ("state", "service_call", "service_results", "actions"))
    return {
        "service": frame["service"],
        "slots": [{key: span.get(key) for key in _SPAN_KEYS} for span in frame.get("slots", [])],
        "actions": actions and [{key: action.get(key) for key in _ACTION_KEYS} for action in actions],
        "state": state
        and {
            "active_intent": state["active_intent"],
            "requested_slots": state["requested_slots"],
            "slot_values": _pairs(state["slot_values"]),
        },
        "service_call": call and {"method": call["method"], "parameters": _pairs(call["parameters"])},
        "service_results": results and [_pairs(result) for result in results],
    }


def _frame_of(frame: Mapping[str, Any]) -> dict[str, Any]:
    state, call, results, actions = (frame[key] for key in ("state", "service_call", "service_results", "actions"))
    converted = {
        "service": frame["service"],
        "slots": [_without_none(span, _SPAN_KEYS) for span in frame["slots"]],
        "actions": actions and [_without_none(action, _ACTION_KEYS) for action in actions],
        "state": state and {**state, "slot_values": _object(state["slot_values"])},
        "service_call": call and {"method": call["method"], "parameters": _object(call["parameters"])},
        "service_results": results and [_object(result) for result in results],
    }
    return {key: value for key, value in converted.items() if value is not None}


def _pairs(values: Mapping[str, Any] | None) -> list[dict[str, Any]] | None:
    return None if values is None else [{"key": key, "value": value} for key, value in values.items()]


def _object(pairs: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _without_none(values: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: values[key] for key in keys if values[key] is not None}


def _sorted_json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


_BLOCK = 64 * 2**20  # bytes of lines that Arrow parses at a time


class Malformed(msgspec.Struct, frozen=True):
    """A dialogue that is not in SGD format: its id, the place in it and the reason."""

    dialogue_id: str
    where: str
    reason: str


class FileLines(msgspec.Struct, frozen=True):
    """A dialogue file as rows: each a line of JSON, with the id of its dialogue.

    Attributes:
      ids: the ids of all dialogues.
      lines: the rows of all dialogues.
      dialogues: the typed dialogues in SGD format.
      malformed: the other dialogues, whose rows have everything in ``source_json``.
    """

    ids: list[str] = []
    lines: list[bytes] = []
    dialogues: list[Dialogue] = []
    malformed: list[Malformed] = []


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pauses Python's cyclic garbage collection, which would take half of the time for parsing and using dialogues.

    Dialogues have no cycles. They should be released when the block ends, because the collector visits what is left.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def dialogue_lines(data: bytes, file: str, path: object) -> FileLines:
    """Converts a dialogue file to lines.

    Args:
      data: the bytes of the file.
      file: the file name for the rows.
      path: the path for messages.

    Raises:
      InputError: the file is not a list of JSON objects with a ``dialogue_id``.
    """
    items = parse_json(data, path)
    if not isinstance(items, list):
        raise InputError("expected a list of dialogues", path)
    try:
        layout = layout_of(data, dialogue_bytes(items))
    except TypeError as error:
        raise InputError(f"contains a value that cannot be stored: {error}", path) from None
    result = FileLines()
    for i, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(dialogue_id := item.get("dialogue_id"), str):
            raise InputError("is not a dialogue: it has no 'dialogue_id'", path, f"[{i}]")
        try:
            result.dialogues.append(msgspec.convert(item, Dialogue))
            row = dialogue_row(item, file, i)
        except msgspec.ValidationError as error:
            reason, where = reason_and_place(error)
            result.malformed.append(Malformed(dialogue_id, where, reason))
            source = json.dumps(item, sort_keys=True)
            row = {"dialogue_id": dialogue_id, "file": file, "position": i, "services": None, "turns": None}
            row["source_json"] = source
        result.ids.append(dialogue_id)
        result.lines.append(_sorted_json({**row, "layout": layout}))
    return result


def lines_table(lines: Sequence[bytes]) -> pa.Table:
    """Parses lines to a table of ``DIALOGUES``."""
    blocks, size = [[]], 0  # type: list[list[bytes]], int
    for line in lines:
        if size + len(line) > _BLOCK and blocks[-1]:
            blocks.append([])
            size = 0
        blocks[-1].append(line)
        size += len(line) + 1
    return pa.concat_tables([_table(b"\n".join(block)) for block in blocks])


def _table(text: bytes) -> pa.Table:
    if not text:
        return DIALOGUES.empty_table()
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    parse = pyarrow.json.ParseOptions(explicit_schema=DIALOGUES, unexpected_field_behavior="error")
    return pyarrow.json.read_json(pa.BufferReader(text), read, parse).cast(DIALOGUES)
