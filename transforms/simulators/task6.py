"""DSTC2 (Henderson et al. 2014) as dialog bAbI task 6 (Bordes et al. 2017, section 3.3), and in the SGD layout.

Reads lists of calls, ontology and calls. The knowledge base of restaurants is collected from the system's utterances,
or read from a file. A call becomes rounds with searches; these become lines of dialog bAbI, and a dialogue with states
from the labels, spans, acts, API calls and their results. Calls are converted in batches, with statistics and a report.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import dialogue_text
from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import SPLITS, as_path, is_there, parse_json, schema_bytes
from parapet.schemas.limits import MAX_FILE, read_text, read_whole
from parapet.transforms.core import fence, inputs, progress, runs, seeding
from parapet.transforms.core.counts import Balance, CountKey, Counts, DeadLetter, Equal, Invariant, Tally
from parapet.transforms.core.files import SetFiles, join, read_bytes
from parapet.transforms.report.numbers import Numbers, metrics_named, sections_of
from parapet.transforms.report.report import Examples, Report, Text, Tile, dialogue_example, report_files
from parapet.transforms.report.text import counted
from parapet.transforms.simulators import formats

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
    """Reads a call.

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
    log: _Log = inputs.convert(_parsed(place, LOG), _Log, LOG, prefix="not_dstc2: ")
    label: _Label = inputs.convert(_parsed(place, LABEL), _Label, LABEL, prefix="not_dstc2: ")
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
    """Removes tabs, line breaks and lone surrogates, which a line of a file cannot contain."""
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
    """Reads the lists of DSTC2, ``scripts/config/dstc2_train.flist`` and so on.

    Args:
      root: the unpacked folder of DSTC2, with ``data`` and ``scripts``.
      dev: the number of calls kept in the dev set, while later calls in its list are moved to train; None to keep all.

    Raises:
      InputError: there is no list, a list cannot be read, or a call is listed twice.
    """
    if not is_there(root):
        raise InputError("there is no such folder", root, "--logs")
    if not (paths := {split: path for split in SPLITS if (path := _found(root, f"dstc2_{split}.flist"))}):
        raise InputError(
            "contains no lists of calls: expected scripts/config/dstc2_train.flist, _dev and _test", root, "--logs"
        )
    splits = {split: _names(path) for split, path in paths.items()}
    if twice := [name for name, n in Counter(name for names in splits.values() for name in names).items() if n > 1]:
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
    return next((path for place in _PLACES if (path := as_path(root) / place / name).is_file()), None)


def _names(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def read_ontology(root: str, given: str) -> Ontology:
    """Reads ``ontology_dstc2.json``. Raises InputError if it is missing or invalid."""
    path = as_path(given) if given else _found(root, "ontology_dstc2.json")
    if path is None or not is_there(path):
        reason = "contains no ontology: expected scripts/config/ontology_dstc2.json, or give --ontology FILE"
        raise InputError(reason, given or root, "--ontology")
    prefix = "is not an ontology of DSTC2: "
    ontology: Ontology = inputs.convert(parse_json(read_whole(path), path), Ontology, path, prefix=prefix)
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
    """Returns the restaurants known to have all the values; a restaurant with an unknown value is excluded."""
    return [restaurant for restaurant in restaurants if set(query) <= restaurant.items()]


def token(value: str) -> str:
    """Formats a value as one word, as in dialog bAbI: ``asian_oriental``."""
    return "_".join(value.lower().split())


def from_token(word: str) -> str:
    """Returns the value or name for a word of dialog bAbI: ``asian oriental``."""
    return word.replace("_", " ").lower()


def statements_of(call: Call) -> Iterator[Statement]:
    """Yields the system's statements about the restaurants that it offers."""
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
    """Returns the restaurants that acts offer."""
    return [
        value.lower() for act in acts if act.act == "offer" for slot, value in act.slots if slot == "name" and value
    ]


def gathered(counts: Iterable[tuple[Statement, int]]) -> list[Restaurant]:
    """Creates the knowledge base from statements, with the most frequent value of each slot.

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
    """Adds ratings, which DSTC2 lacks: those offered earlier have higher ones, so that offers can be predicted.

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
        return str(placed[name] if name in placed else seeding.stable_hash(*key, name) % 5)

    return [{**restaurant, RATING: rating(restaurant["name"])} for restaurant in results]


def facts_about(restaurant: Restaurant) -> list[formats.Fact]:
    """Returns a restaurant's facts, as in dialog bAbI: ``ask R_phone ask_phone``."""
    name = token(restaurant["name"])
    return [
        formats.Fact(name, relation, f"{name}_{TOKENS[slot]}" if slot in TOKENS else token(restaurant[slot]))
        for slot, relation in (*RELATIONS.items(), (RATING, "R_rating"))
        if slot in restaurant
    ]


def read_knowledge(path: str) -> list[Restaurant]:
    """Reads a knowledge base in the format of dialog bAbI (``1 ask R_cuisine italian``).

    Raises:
      InputError: the file cannot be read or is not a knowledge base; with the line.
    """
    place = as_path(path)
    data = read_whole(place, where="--kb").removeprefix(b"\xef\xbb\xbf")
    rows: dict[str, dict[str, str]] = {}
    for fact in formats.parse_facts(data, place):
        values = rows.setdefault(from_token(fact.entity), {})
        if fact.relation in _SLOTS:  # other relations are ratings, which are drawn anew for each call
            values.setdefault(_SLOTS[fact.relation], from_token(fact.value))
    if not rows:
        raise InputError("contains no restaurants", path, "--kb")
    return [{"name": name, **{s: values[s] for s in RELATIONS if s in values}} for name, values in rows.items()]


_ANSWERS = frozenset({"offer", "canthelp", "canthelp.exception"})  # system acts that need a search


class Round(NamedTuple):
    """An utterance of the caller, and the answer of the system.

    Attributes:
      turn: the turn of the caller's utterance, which follows its prompt.
      query: (slot, value) of the known slots in the search before the answer; None without a search.
      results: the results of the search.
      answer: the turn whose prompt is the answer; None after the caller's last utterance.
    """

    turn: CallTurn
    query: Slots | None
    results: list[Restaurant]
    answer: CallTurn | None


def rounds(call: Call, knowledge: Sequence[Restaurant], seed: str) -> list[Round]:
    """Splits a call into rounds.

    There is a search if the answer needs one and the state (food, area and price range) differs from the previous
    search. ``dontcare`` is not a restriction.

    Args:
      call: the call.
      knowledge: the knowledge base.
      seed: the seed of the ratings.
    """
    queries = _queries(call)
    call_rounds: list[Round] = []
    for t, turn in enumerate(call.turns):
        answer = call.turns[t + 1] if t + 1 < len(call.turns) else None
        results: list[Restaurant] = []
        if t in queries:
            until = next((later for later in queries if later > t), len(call.turns))
            offers = [name for turn in call.turns[t + 1 : until + 1] for name in offered(turn.system_acts)]
            results = rated(search(knowledge, queries[t]), offers, seed, "rating", call.name, str(t))
        call_rounds.append(Round(turn, queries.get(t), results, answer))
    return call_rounds


def _queries(call: Call) -> dict[int, Slots]:
    """Returns turn to the query after it, in order."""
    queries: dict[int, Slots] = {}
    last: Slots | None = None
    for t, (turn, answer) in enumerate(zip(call.turns, call.turns[1:], strict=False)):
        query = query_of(turn.goals)
        if query != last and any(act.act in _ANSWERS for act in answer.system_acts):
            queries[t] = last = query
    return queries


def query_of(goals: Slots) -> Slots:
    """Returns the part of a state that restricts a search, in the order of an API call."""
    goal = {slot: value.lower() for slot, value in goals}
    return tuple((slot, goal[slot]) for slot in QUERY if goal.get(slot, DONTCARE) not in (DONTCARE, ""))


FAREWELL = "you are welcome"  # in task 6 the answer to the last utterance, which has no answer in DSTC2
NO_RESULT = formats.Fact("api_call", "no", "result")  # a line of three words, like facts


class Words:
    """Joins values of several words, as in task 6: ``asian_oriental``.

    Args:
      knowledge: the source of names and values.
      others: further values.
    """

    def __init__(self, knowledge: Iterable[Restaurant], others: Iterable[str]) -> None:
        slots = {*QUERY, "name"}
        values = {value for restaurant in knowledge for slot, value in restaurant.items() if slot in slots}
        values |= set(others)
        several = sorted({value for value in values if " " in value}, key=lambda value: (-len(value), value))
        self._pattern = _any_of(several)

    def joined(self, text: str) -> str:
        """Replaces each of these values in a text by a single word."""
        return self._pattern.sub(lambda match: token(match[0]), text) if self._pattern else text


def _any_of(values: Sequence[str]) -> re.Pattern[str] | None:
    """Compiles a pattern of the values as whole words in any case; earlier ones take precedence."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, values))})(?!\w)", re.IGNORECASE) if values else None


def lines_of(call: Call, of_call: Sequence[Round], words: Words) -> list[formats.Line]:
    """Formats the lines of a call."""
    bot = _Bot(words)
    lines: list[formats.Line] = [_line(formats.SILENCE, bot.says(call.turns[0]))]
    for round_ in of_call:
        user = words.joined(round_.turn.user) or formats.SILENCE
        if round_.query is not None:
            lines.append(formats.Exchange(user, api_call(round_.query)))
            lines += [fact for restaurant in round_.results for fact in facts_about(restaurant)] or [NO_RESULT]
            user = formats.SILENCE
        lines.append(_line(user, bot.says(round_.answer) if round_.answer is not None else FAREWELL))
    return lines


def _line(user: str, bot: str) -> formats.Line:
    return formats.Exchange(user, bot) if bot else formats.Unanswered(user)


def api_call(query: Slots) -> str:
    """Formats a query as an API call: ``api_call chinese R_location cheap``."""
    values = dict(query)
    return " ".join(["api_call", *(token(values[slot]) if slot in values else RELATIONS[slot] for slot in QUERY)])


class _Bot:
    """Formats the system's prompts in order; a phone number becomes that of the restaurant offered last."""

    def __init__(self, words: Words) -> None:
        self.words, self.name = words, ""

    def says(self, turn: CallTurn) -> str:
        self.name = (offered(turn.system_acts) or [self.name])[-1]
        text = turn.system
        if self.name:
            for act in turn.system_acts:
                for slot, value in act.slots:
                    if slot in TOKENS and value and (pattern := _any_of([value])):
                        text = pattern.sub(lambda _, slot=slot: f"{token(self.name)}_{TOKENS[slot]}", text)  # type: ignore[misc]
        return self.words.joined(text)


SERVICE, INTENT = "Restaurants_dstc2", "FindRestaurants"
_CATEGORICAL = 10  # maximum number of values

_DESCRIPTIONS = {
    "food": "Cuisine of the restaurant",
    "area": "Part of town in which the restaurant is",
    "pricerange": "Price range of the restaurant",
    "name": "Name of the restaurant",
    "addr": "Address of the restaurant",
    "phone": "Phone number of the restaurant",
    "postcode": "Post code of the restaurant",
    "signature": "Signature dish of the restaurant",
}
# Acts of DSTC2 to those of SGD; others keep their name.
_USER = {"reqalts": "REQUEST_ALTS", "reqmore": "REQ_MORE", "thankyou": "THANK_YOU", "bye": "GOODBYE"}
_SYSTEM = {
    "reqmore": "REQ_MORE",
    "expl-conf": "CONFIRM",
    "impl-conf": "CONFIRM",
    "confirm-domain": "OFFER_INTENT",
    "select": "REQUEST",
    "canthelp": "NOTIFY_FAILURE",
    "canthelp.exception": "NOTIFY_FAILURE",
    "canthelp.missing_slot_value": "NOTIFY_FAILURE",
}


def slots_of(ontology: Ontology) -> list[str]:
    """Returns the slots of the service in order."""
    return list(dict.fromkeys((*QUERY, "name", *ontology.informable, *RELATIONS, *ontology.requestable, RATING)))


def schema_of(ontology: Ontology) -> list[dict[str, Any]]:
    """Creates the services of the schema file, which is a single one."""
    slots = []
    for name in slots_of(ontology):
        values = sorted(value for value in ontology.informable.get(name, []) if value != DONTCARE)
        description = _DESCRIPTIONS.get(name, f"{name.capitalize()} of the restaurant")
        slots.append(formats.schema_slot(name, description, values if len(values) <= _CATEGORICAL else ()))
    names = [slot["name"] for slot in slots]
    optional = {name: DONTCARE for name in names if name in ontology.informable}
    description = "Find a restaurant by cuisine, part of town and price range"
    intent = formats.schema_intent(INTENT, description, [], names, optional=optional)
    return [formats.schema_service(SERVICE, "Restaurants of a town, found by phone (DSTC2)", slots, [intent])]


def dialogue_of(call: Call, of_call: Sequence[Round], slots: frozenset[str]) -> dict[str, Any]:
    """Creates the dialogue.

    The user begins, as in SGD, so the system's welcome, which is the same in all calls, is left out.

    Args:
      call: the call.
      of_call: the rounds of the call.
      slots: the slots of the service.

    Raises:
      InputError: a label has a slot that the service lacks.
    """
    turns = []
    for t, round_ in enumerate(of_call):
        turns.append(_user_turn(round_.turn, slots, f"turns[{t}]"))
        if round_.answer is not None:
            acts = _actions(round_.answer.system_acts, _SYSTEM, slots, "")
            api = None if round_.query is None else (INTENT, dict(round_.query))
            turns.append(
                formats.system_turn(SERVICE, _with_spans(round_.answer.system, acts), acts, api, round_.results)
            )
    return {"dialogue_id": call.name, "services": [SERVICE], "turns": turns}


def _user_turn(turn: CallTurn, known: frozenset[str], where: str) -> dict[str, Any]:
    for slot in (*(slot for slot, _ in turn.goals), *turn.requested):
        if slot not in known:
            raise InputError(f"unknown_slot: the ontology has no slot {slot!r}", "label.json", where)
    acts = _actions(turn.user_acts, _USER, known, asked_for(turn.system_acts))
    # The label of a silent turn has no method, but the search goes on.
    intent = "NONE" if turn.method == "finished" or (turn.method == "none" and not turn.goals) else INTENT
    after = formats.state(intent, {slot: [value] for slot, value in turn.goals}, turn.requested)
    return formats.user_turn(SERVICE, _with_spans(turn.user, acts), acts, after)


def asked_for(acts: Iterable[Act]) -> str:
    """Returns the slot that a prompt requests, which ``inform(this=dontcare)`` refers to; empty for several."""
    slots = {value for act in acts if act.act == "request" for slot, value in act.slots if slot == "slot"}
    return slots.pop() if len(slots) == 1 else ""


def _actions(acts: Iterable[Act], names: dict[str, str], known: frozenset[str], this: str) -> list[dict[str, Any]]:
    actions = []
    for act in acts:
        name = names.get(act.act, act.act.upper().replace(".", "_").replace("-", "_"))
        if act.act == "confirm-domain":
            actions.append(formats.act(name, "intent", INTENT))
        elif act.act == "select":  # "something in the north or in the south": one act with both values
            actions += [
                formats.act(name, slot, *(v for s, v in act.slots if s == slot)) for slot in _slots(act.slots, known)
            ]
        elif act.act == "request":
            actions += [formats.act(name, value) for slot, value in act.slots if slot == "slot" and value in known]
        else:
            pairs = [(this if slot == "this" else slot, value) for slot, value in act.slots]
            actions += [formats.act(name, slot, value) for slot, value in pairs if slot in known or slot == "count"]
            if not pairs or pairs == [("", DONTCARE)]:
                actions.append(formats.act(name))
    return actions


def _slots(pairs: Slots, known: frozenset[str]) -> list[str]:
    return [slot for slot in dict.fromkeys(slot for slot, _ in pairs) if slot in known]


def _with_spans(text: str, acts: Iterable[dict[str, Any]]) -> formats.Sentence:
    """Returns the text with the first span of each value of the acts; the longest values are placed first."""
    values = {
        (action["slot"], value)
        for action in acts
        for value in action["values"]
        if value and action["slot"] not in ("intent", "count")
    }
    spans: list[tuple[str, int, int]] = []
    for slot, value in sorted(values, key=lambda pair: (-len(pair[1]), pair)):
        for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text):
            if all(match.end() <= start or end <= match.start() for _, start, end in spans):
                spans.append((slot, match.start(), match.end()))
                break
    return formats.Sentence(text, tuple(sorted(spans, key=lambda span: (span[1], span[0]))))


STATEMENTS = "statements"  # the output of read_batch besides the calls
BABI = "babi"  # a further output of write_batch

SET = "sgd"
FILE = "dialog-babi-task6-dstc2-{}.txt"
SHOWN = 3  # dialogues of a split on the page

_TOTALS = ("dialogues", "left_out", "user_turns", "bot_turns", "api_calls", "no_result", "facts")
# Bordes et al. 2017, Table 1, task 6: means per dialogue, dialogues per split, total sizes.
PAPER_MEANS = {"utterances": 54, "user_turns": 6, "bot_turns": 8, "facts": 40}
PAPER_DIALOGUES = {"train": 1618, "dev": 500, "test": 1117}
PAPER_SIZES = {"vocabulary": 1229, "candidates": 2406}


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      logs: the calls by split.
      split_rule: ``paper`` or ``original``.
      user: the source of users' utterances: ``transcription`` or ``asr``.
      ontology: the ontology of DSTC2.
      knowledge: the knowledge base; None to collect it from the calls.
      seed: the seed of the ratings.
    """

    output: str
    logs: Logs
    split_rule: str
    user: str
    ontology: Ontology
    knowledge: list[Restaurant] | None
    seed: str

    def options(self) -> dict[str, object]:
        """Returns the options that affect the content, for ``run.json``."""
        return {"split_rule": self.split_rule, "user": self.user, "kb": self.knowledge is not None, "seed": self.seed}

    def tallies(self, counts: Counts) -> list[Tally]:
        """Returns the records that count against ``max_bad``: the calls of each split."""
        return [
            Tally("call", counts.sum("calls", split=split), counts.sum("left_out", split=split), split, is_record=True)
            for split in self.logs.splits
        ]

    def invariants(self) -> list[Invariant]:
        """Every listed call is a dialogue of its split, or left out."""
        calls = {CountKey("calls", split=split): len(names) for split, names in self.logs.splits.items()}
        return [Equal(calls), Balance("calls", ["dialogues", "left_out"], splits=list(self.logs.splits))]


# A batch with its calls, and the dead letters of unreadable ones.
CallBatch = tuple[Batch, list[Call], list[DeadLetter]]


def read_batch(batch: Batch, config: Config) -> Iterator[CallBatch | TaggedOutput]:
    """Reads calls; yields them with their (Statement, n) about restaurants, unless there is a knowledge base."""
    calls, dead_letters = [], []
    statements: Counter[Statement] = Counter()
    for name in progress.tracked(batch.names, "calls", "reading"):
        try:
            call = read_call(config.logs.folder, name, config.user == ASR)
            of_call = list(statements_of(call)) if config.knowledge is None else []
        except Exception as error:
            dead_letters.append(_dead_letter(batch, name, fence.bad_record(error)))
        else:
            calls.append(call)
            statements.update(of_call)
    progress.expect(len(calls), "calls")
    yield batch, calls, dead_letters
    yield from (TaggedOutput(STATEMENTS, pair) for pair in statements.items())


def _dead_letter(batch: Batch, name: str, error: InputError) -> DeadLetter:
    where = ": ".join(part for part in (error.path, error.where) if part)
    return DeadLetter(
        "", batch.split, storable(name), "", storable(where), storable(error.reason), fence.trace_of(error)
    )


def write_batch(read: CallBatch, knowledge: Sequence[Restaurant], config: Config) -> runs.FileResult:
    """Writes the dialogue file of a batch into staging, and creates the lines of dialog bAbI.

    Args:
      read: the batch.
      knowledge: the knowledge base.
      config: the options.
    """
    batch, calls, dead_letters = read
    slots = frozenset(slots_of(config.ontology))
    words = Words(knowledge, (value for values in config.ontology.informable.values() for value in values))
    result = runs.FileResult(f"{batch.split}/{batch.index:06}")
    result.dead_letters += dead_letters
    counts: Counter[str] = Counter(calls=len(batch.names))
    texts: list[str] = []
    examples = result.examples[batch.split] = []
    with ExitStack() as stack:
        files = SetFiles(config.output, [SET], batch.relative, stack)
        for call in progress.tracked(calls, "calls"):
            try:
                call_rounds = rounds(call, knowledge, config.seed)
                text = dialogue_text(dialogue_of(call, call_rounds, slots))
                lines = lines_of(call, call_rounds, words)
                draw = batch.index.to_bytes(4) + len(texts).to_bytes(4)
                shown = [(draw, (storable(call.name), formats.labelled_lines(lines)))] if len(texts) < SHOWN else []
                babi_lines, call_counts = formats.dialogue_text(lines), _count(call_rounds, lines)
            except Exception as error:
                result.dead_letters.append(_dead_letter(batch, call.name, fence.bad_record(error)))
                continue
            files.add(SET, text)
            examples += shown
            texts.append(babi_lines)
            counts.update(call_counts)
        files.close()
    result.written = files.written()
    counts.update(dialogues=len(texts), left_out=len(result.dead_letters))
    for name, n in counts.items():
        result.counts.add(name, n, split=batch.split)
    result.others = {BABI: [(batch.split, batch.index, "".join(texts))]}
    return result


def _count(call_rounds: Sequence[Round], lines: Sequence[formats.Line]) -> dict[str, int]:
    exchanges = [line for line in lines if isinstance(line, formats.Exchange)]
    facts = [line for line in lines if isinstance(line, formats.Fact)]
    no_result = facts.count(NO_RESULT)
    return {
        "user_turns": sum(not isinstance(line, formats.Fact) and line.user != formats.SILENCE for line in lines),
        "bot_turns": len(exchanges),
        "api_calls": sum(round_.query is not None for round_ in call_rounds),
        "no_result": no_result,
        "facts": len(facts) - no_result,
    }


def metadata_files(
    counts: Counts,
    examples: Mapping[str, Sequence[Any]],
    knowledge: Sequence[Restaurant],
    texts: Iterable[tuple[str, int, str]],
    config: Config,
) -> dict[str, bytes]:
    """Creates the files other than dialogues in the SGD layout, by path.

    Args:
      counts: the counts of the run.
      examples: split to (id, labelled lines) of some dialogues.
      knowledge: the knowledge base.
      texts: (split, index of the batch, its dialogues).
      config: the options.
    """
    facts = [fact for restaurant in knowledge for fact in facts_about(restaurant)]
    dialogues: dict[str, list[str]] = {split: [] for split in config.logs.splits}
    vocabulary: set[str] = set()
    answers: set[str] = set()
    for split, _, text in sorted(texts):
        dialogues[split].append(text)
        for line in text.split("\n"):
            content = line.partition(" ")[2]
            vocabulary.update(content.split())
            answers.add(content.partition("\t")[2])
    candidates = sorted(answers - {"", formats.SILENCE})
    numbers = {
        **statistics(config, counts),
        "vocabulary": len(vocabulary),
        "candidates": len(candidates),
        "restaurants": len(knowledge),
        "kb_facts": len(facts),
    }
    schema = schema_bytes(schema_of(config.ontology))
    return {
        **{FILE.format(formats.SPLITS[split]): "".join(parts).encode() for split, parts in dialogues.items()},
        FILE.format("candidates"): formats.candidates_text(candidates).encode(),
        # Task 6 has a space before the value, other tasks a tab.
        FILE.format("kb"): "".join(f"1 {fact.entity} {fact.relation} {fact.value}\n" for fact in facts).encode(),
        **{f"{SET}/{split}/schema.json": schema for split in config.logs.splits},
        **report_files(numbers, report_on(numbers, examples, config)),
    }


def statistics(config: Config, counts: Counts) -> dict[str, Any]:
    """Returns the part of ``statistics.json`` computed from counts."""
    splits = {}
    for split in config.logs.splits:
        numbers: dict[str, Any] = {name: counts.sum(name, split=split) for name in _TOTALS}
        n = numbers["dialogues"]
        sums = {"utterances": sum(numbers[name] for name in ("user_turns", "bot_turns", "facts", "no_result"))}
        sums |= {name: numbers[name] for name in ("user_turns", "bot_turns", "facts")}
        numbers["per_dialogue"] = {name: round(total / n, 2) if n else None for name, total in sums.items()}
        splits[split] = numbers
    return {"splits": splits, "moved_from_dev_to_train": config.logs.moved}


def report_on(numbers: Mapping[str, Any], examples: Mapping[str, Sequence[Any]], config: Config) -> Report:
    """Creates the report for the card and the page.

    Args:
      numbers: the content of ``statistics.json``.
      examples: split to (id, labelled lines) of some dialogues.
      config: the options.
    """
    splits = numbers["splits"]
    sizes = ", ".join(f"{split} {of_split['dialogues']:,}" for split, of_split in splits.items())
    total = counted(sum(of_split["dialogues"] for of_split in splits.values()), "dialogue")
    user = "first hypotheses of the recogniser" if config.user == ASR else "transcriptions, with noise words"
    means = {
        **{split: {"dialogues": part["dialogues"], **part["per_dialogue"]} for split, part in splits.items()},
        "paper, Table 1": {"dialogues": " / ".join(f"{n:,}" for n in PAPER_DIALOGUES.values()), **PAPER_MEANS},
    }
    title = "Dialogues, and means per dialogue"
    return Report(
        command="babi_task6",
        title="Dialog bAbI task 6 of DSTC2",
        headline="DSTC2 as dialog bAbI task 6",
        lead=f"{total}: {sizes}. Calls of DSTC2 (Henderson et al. 2014) in the format of dialog bAbI (Bordes et al. "
        "2017, section 3.3), and in the SGD layout in `sgd/`.",
        tiles=[
            Tile("restaurants", f"{numbers['restaurants']:,}"),
            Tile("facts in the knowledge base", f"{numbers['kb_facts']:,}"),
            *(Tile(f"{name} (paper: {size:,})", f"{numbers[name]:,}") for name, size in PAPER_SIZES.items()),
        ],
        sections=[
            *sections_of(means, Numbers(title, "*", ("split",), metrics_named("dialogues", *PAPER_MEANS, digits=2))),
            Text(
                title="About these dialogues",
                paragraphs=[
                    f"User turns are {user}; bot turns are the system's prompts. API calls are made from the labelled "
                    "states, and ratings are made up for each call, such that what the system offers next has the "
                    f"highest (seed `{config.seed}`). The splits are the lists of DSTC2, with "
                    f"{counted(numbers['moved_from_dev_to_train'], 'call')} moved from dev to train."
                ],
            ),
            *(
                Examples(title=f"Examples of {split}", examples=[dialogue_example(*example) for example in of_split])
                for split, of_split in sorted(examples.items())
            ),
        ],
        terms={
            "utterances": "User turns, bot turns and lines of API results, as in Table 1 of Bordes et al. 2017.",
            "bot turns": "API calls included.",
            "facts": "Those that API calls return.",
            "no result": "API calls without results: the line `api_call no result`.",
        },
        links={"statistics.json": "all numbers", "dead_letters.jsonl": "calls that could not be converted"},
    )
