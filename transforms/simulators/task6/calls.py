"""The DSTC2 corpus (Henderson et al. 2014): lists of calls, ontology and calls; and its knowledge base of restaurants.

The knowledge base is collected from the system's utterances, or read from a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import SPLITS, as_path, is_there, parse_json
from parapet.schemas.limits import MAX_FILE, read_text, read_whole
from parapet.transforms.core.files import join, read_bytes
from parapet.transforms.core.inputs import convert
from parapet.transforms.core.seeding import stable_hash
from parapet.transforms.simulators import babi_format as babi

DONTCARE = "dontcare"
TRANSCRIPTION, ASR = "transcription", "asr"  # the sources of the caller's utterances
LOG, LABEL = "log.json", "label.json"

Slots = tuple[tuple[str, str], ...]
Restaurant = dict[str, str]  # its name, and its values by slot in the order of ``RELATIONS``


class Act(msgspec.Struct, frozen=True):
    """A dialogue act with its slots and values: ``inform(food=thai)``, ``request(slot=phone)``.

    In a log, a value may be a number: a count of restaurants.
    """

    act: str
    slots: tuple[tuple[Any, Any], ...] = ()


class CallTurn(msgspec.Struct, frozen=True):
    """A turn of DSTC2: first the system speaks, then the caller.

    Attributes:
      system: the prompt, as transcribed in the log.
      system_acts: the acts of the prompt.
      user: the caller's utterance in one line with normalised white space; empty if the caller was silent.
      user_acts: the semantics of the label.
      goals: (slot, value): the labelled state after the turn.
      method: the method of the caller's search: ``byconstraints``, ``byname``, ``byalternatives``, ``finished``,
        ``none``.
      requested: the slots that the caller requests.
    """

    system: str
    system_acts: tuple[Act, ...]
    user: str
    user_acts: tuple[Act, ...]
    goals: Slots
    method: str
    requested: tuple[str, ...]


class Call(msgspec.Struct, frozen=True):
    """A call: the name of its folder, as in the list, and its turns."""

    name: str
    turns: tuple[CallTurn, ...]


class _Output(msgspec.Struct):
    transcript: str
    acts: list[Act] = msgspec.field(name="dialog-acts")


class _Hypothesis(msgspec.Struct):
    text: str = msgspec.field(name="asr-hyp")


class _Live(msgspec.Struct):
    hypotheses: list[_Hypothesis] = msgspec.field(name="asr-hyps")


class _Input(msgspec.Struct):
    live: _Live


class _LogTurn(msgspec.Struct):
    output: _Output
    input: _Input | None = None


class _Log(msgspec.Struct):
    session: str = msgspec.field(name="session-id")
    turns: list[_LogTurn] = []


class _Semantics(msgspec.Struct):
    json: list[Act] = []


class _LabelTurn(msgspec.Struct):
    transcription: str
    goals: dict[str, str] = msgspec.field(name="goal-labels")
    method: str = msgspec.field(name="method-label", default="none")
    requested: list[str] = msgspec.field(name="requested-slots", default_factory=list)
    semantics: _Semantics = msgspec.field(default_factory=_Semantics)


class _Label(msgspec.Struct):
    session: str = msgspec.field(name="session-id")
    turns: list[_LabelTurn] = []


def read_call(folder: str, name: str, recognised: bool = False) -> Call:
    """Read a call.

    Args:
      folder: the folder of all calls.
      name: the call's folder below it.
      recognised: whether to use the recogniser's first hypotheses instead of transcriptions.

    Raises:
      InputError: the path leaves the folder, a file is missing or broken, or log and label do not match.
    """
    try:
        place = join(folder, name)
    except ValueError:
        raise InputError(f"bad_path: {name!r} is not a folder below {folder}") from None
    log: _Log = convert(_parsed(place, LOG), _Log, LOG, prefix="not_dstc2: ")
    label: _Label = convert(_parsed(place, LABEL), _Label, LABEL, prefix="not_dstc2: ")
    if log.session != label.session:
        raise InputError(
            f"mismatch: the log belongs to session {log.session!r}, but the label to {label.session!r}", LABEL
        )
    if len(log.turns) != len(label.turns):
        raise InputError(f"mismatch: the log has {len(log.turns)} turns, but the label has {len(label.turns)}", LABEL)
    if not log.turns:
        raise InputError("no_turns: the call has no turns", LOG)
    turns = [
        _turn(turn, meant, recognised, f"turns[{t}]")
        for t, (turn, meant) in enumerate(zip(log.turns, label.turns, strict=True))
    ]
    return Call(name, tuple(turns))


def _parsed(place: str, file: str) -> Any:
    try:
        data = read_bytes(f"{place}/{file}", MAX_FILE)
    except FileNotFoundError:
        raise InputError(f"missing: there is no {file}", file) from None
    except OSError as error:
        if error.strerror is None:  # network errors, which the runner retries
            raise
        raise InputError(f"cannot_be_read: {error.strerror}", file) from None
    try:
        return parse_json(data, file)
    except InputError as error:
        raise InputError(f"not_json: {error.reason}", file, error.where) from None


def _turn(said: _LogTurn, meant: _LabelTurn, recognised: bool, where: str) -> CallTurn:
    user = meant.transcription
    if recognised:
        if said.input is None:
            raise InputError(
                "not_dstc2: the turn has no input, so there is no hypothesis of the recogniser", LOG, where
            )
        user = said.input.live.hypotheses[0].text if said.input.live.hypotheses else ""
    return CallTurn(
        system=one_line(said.output.transcript),
        system_acts=_acts(said.output.acts),
        user=one_line(user),
        user_acts=_acts(meant.semantics.json),
        goals=tuple(sorted((slot, one_line(value)) for slot, value in meant.goals.items())),
        method=meant.method,
        requested=tuple(sorted(set(meant.requested))),
    )


def _acts(acts: Sequence[Act]) -> tuple[Act, ...]:
    return tuple(Act(act.act, tuple((one_line(str(a)), one_line(str(b))) for a, b in act.slots)) for act in acts)


def one_line(text: str) -> str:
    """Remove tabs, line breaks and lone surrogates, which a line of a file cannot contain."""
    return " ".join(text.encode("utf-8", "backslashreplace").decode().split())


PAPER_DEV = 500  # Bordes et al. 2017, Table 1; DSTC2 has 506, six of which are moved to train
BATCH = 128  # calls per batch, and so dialogues per file in the SGD layout
_PLACES = ("scripts/config", "")


class Batch(msgspec.Struct, frozen=True):
    """Calls that are read together and written to one dialogue file.

    Attributes:
      split: ``train``, ``dev`` or ``test``.
      index: the index of the batch in its split, from 0.
      names: folders of the calls, in the order of the list.
    """

    split: str
    index: int
    names: tuple[str, ...]

    @property
    def relative(self) -> str:
        """The path of the dialogue file in the corpus."""
        return f"{self.split}/dialogues_{self.index + 1:03}.json"


class Ontology(msgspec.Struct, frozen=True):
    """``ontology_dstc2.json``: the values of informable slots, and the requestable slots."""

    informable: dict[str, list[str]]
    requestable: list[str]


class Logs(msgspec.Struct, frozen=True):
    """The calls of a run.

    Attributes:
      folder: the folder of the calls.
      splits: split to the folders of its calls, in the order of the lists, after the split rule.
      moved: the number of calls moved from dev to train.
    """

    folder: str
    splits: dict[str, tuple[str, ...]]
    moved: int

    @property
    def batches(self) -> list[Batch]:
        """All calls in batches."""
        return [
            Batch(split, start // BATCH, names[start : start + BATCH])
            for split, names in self.splits.items()
            for start in range(0, len(names), BATCH)
        ]


def read_logs(root: str, dev: int | None) -> Logs:
    """Read the lists of DSTC2, ``scripts/config/dstc2_train.flist`` and so on.

    Args:
      root: the unpacked folder of DSTC2, with ``data`` and ``scripts``.
      dev: the number of calls kept in the dev set, while later calls in its list are moved to train; None to keep all.

    Raises:
      InputError: there is no list, a list cannot be read, or a call is listed twice.
    """
    if not is_there(root):
        raise InputError("there is no such folder", root, "--logs")
    paths = {split: path for split in SPLITS if (path := _found(root, f"dstc2_{split}.flist"))}
    if not paths:
        raise InputError(
            "contains no lists of calls: expected scripts/config/dstc2_train.flist, _dev and _test", root, "--logs"
        )
    splits = {split: _names(path) for split, path in paths.items()}
    twice = [name for name, n in Counter(name for names in splits.values() for name in names).items() if n > 1]
    if twice:
        raise InputError(f"{twice[0]!r} is listed twice, but a call belongs to one split", root, "--logs")
    moved = [] if dev is None else splits.get("dev", [])[dev:]
    if moved and "train" in splits:
        splits["train"] += moved
        splits["dev"] = splits["dev"][:dev]
    else:
        moved = []
    data = as_path(root) / "data"
    folder = str(data if data.is_dir() else as_path(root))
    return Logs(folder, {split: tuple(names) for split, names in splits.items()}, len(moved))


def _found(root: str, name: str) -> Path | None:
    places = [as_path(root) / place / name for place in _PLACES]
    return next((place for place in places if place.is_file()), None)


def _names(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def read_ontology(root: str, given: str) -> Ontology:
    """Read ``ontology_dstc2.json``. Raises InputError if it is missing or invalid."""
    path = as_path(given) if given else _found(root, "ontology_dstc2.json")
    if path is None or not is_there(path):
        reason = "contains no ontology: expected scripts/config/ontology_dstc2.json, or give --ontology FILE"
        raise InputError(reason, given or root, "--ontology")
    prefix = "is not an ontology of DSTC2: "
    ontology: Ontology = convert(parse_json(read_whole(path), path), Ontology, path, prefix=prefix)
    for slot in ("food", "area", "pricerange"):
        if slot not in ontology.informable:
            raise InputError(f"{prefix}informable has no {slot!r}", path)
    return ontology


RATING = "rating"
QUERY = ("food", "area", "pricerange")  # the parameters of an API call, in order
# Slot of DSTC2 to relation of dialog bAbI, in the order of the published facts.
RELATIONS = {
    "postcode": "R_post_code",
    "food": "R_cuisine",
    "area": "R_location",
    "phone": "R_phone",
    "addr": "R_address",
    "pricerange": "R_price",
}
# In the published facts, the values of these slots are tokens with the restaurant's name.
TOKENS = {"postcode": "post_code", "phone": "phone", "addr": "address"}
_SLOTS = {relation: slot for slot, relation in RELATIONS.items()}

Statement = tuple[str, str, str]  # restaurant, slot, value: the system informs about a restaurant that it offers


def search(restaurants: Iterable[Restaurant], query: Slots) -> list[Restaurant]:
    """Return the restaurants known to have all the values; a restaurant with an unknown value is excluded."""
    return [restaurant for restaurant in restaurants if set(query) <= restaurant.items()]


def token(value: str) -> str:
    """Format a value as one word, as in dialog bAbI: ``asian_oriental``."""
    return "_".join(value.lower().split())


def from_token(word: str) -> str:
    """Return the value or name for a word of dialog bAbI: ``asian oriental``."""
    return word.replace("_", " ").lower()


def statements_of(call: Call) -> Iterator[Statement]:
    """Yield the system's statements about the restaurants that it offers."""
    for turn in call.turns:
        names = set(offered(turn.system_acts))
        if len(names) == 1:
            (name,) = names
            for act in turn.system_acts:
                if act.act == "inform":
                    for slot, value in act.slots:
                        if slot in RELATIONS and value and value != DONTCARE:
                            yield name, slot, value.lower() if slot in QUERY else value
            yield name, "", ""  # a restaurant, even if nothing else is known about it


def offered(acts: Iterable[Act]) -> list[str]:
    """Return the restaurants that acts offer."""
    return [
        value.lower() for act in acts if act.act == "offer" for slot, value in act.slots if slot == "name" and value
    ]


def gathered(counts: Iterable[tuple[Statement, int]]) -> list[Restaurant]:
    """Create the knowledge base from statements, with the most frequent value of each slot.

    Args:
      counts: the statements with their frequencies.
    """
    stated: dict[str, dict[str, tuple[int, str]]] = {}
    for (name, slot, value), n in sorted(counts):
        best = stated.setdefault(name, {})
        if slot and (slot not in best or n > best[slot][0]):
            best[slot] = (n, value)
    return [
        {"name": name, **{slot: best[slot][1] for slot in RELATIONS if slot in best}}
        for name, best in sorted(stated.items(), key=lambda item: (token(item[0]), item[0]))
    ]


def rated(results: Sequence[Restaurant], offers: Sequence[str], *key: str) -> list[Restaurant]:
    """Add ratings, which DSTC2 lacks: restaurants offered earlier have higher ratings, so that offers can be predicted.

    Args:
      results: the results of the API call.
      offers: the names offered by the system until the next call, in order.
      key: the key of the random ratings.

    Returns:
      The restaurants in the same order, each with its ``rating``: offered ones have ratings from 10 downwards, others
        from 0 to 4.
    """
    names = {restaurant["name"] for restaurant in results}
    order = [name for name in dict.fromkeys(offers) if name in names]
    top = max(10, 4 + len(order))
    placed = {name: top - i for i, name in enumerate(order)}

    def rating(name: str) -> str:
        return str(placed[name] if name in placed else stable_hash(*key, name) % 5)

    return [{**restaurant, RATING: rating(restaurant["name"])} for restaurant in results]


def facts_about(restaurant: Restaurant) -> list[babi.Fact]:
    """Return a restaurant's facts, as in dialog bAbI: ``ask R_phone ask_phone``."""
    name = token(restaurant["name"])
    return [
        babi.Fact(name, relation, f"{name}_{TOKENS[slot]}" if slot in TOKENS else token(restaurant[slot]))
        for slot, relation in (*RELATIONS.items(), (RATING, "R_rating"))
        if slot in restaurant
    ]


def read_knowledge(path: str) -> list[Restaurant]:
    """Read a knowledge base in the format of dialog bAbI (``1 ask R_cuisine italian``).

    Raises:
      InputError: the file cannot be read or is not a knowledge base; with the line.
    """
    place = as_path(path)
    data = read_whole(place, where="--kb").removeprefix(b"\xef\xbb\xbf")
    rows: dict[str, dict[str, str]] = {}
    for fact in babi.parse_facts(data, place):
        values = rows.setdefault(from_token(fact.entity), {})
        if fact.relation in _SLOTS:  # other relations are ratings, which are drawn anew for each call
            values.setdefault(_SLOTS[fact.relation], from_token(fact.value))
    if not rows:
        raise InputError("contains no restaurants", path, "--kb")
    return [{"name": name, **{s: values[s] for s in RELATIONS if s in values}} for name, values in rows.items()]
