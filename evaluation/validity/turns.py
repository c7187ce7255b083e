"""Pairs the user turns of a corpus with those of its sets, with automatic checks and human judgements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec
from rapidfuzz import fuzz

from parapet.evaluation.intent import acts_of, user_turns
from parapet.evaluation.ratings.judgements import Interval, Judged
from parapet.evaluation.sets import SetRoot, Sources, find_sets, read_dialogues
from parapet.schemas.dialogue import Dialogue, State, Turn
from parapet.schemas.errors import InputError
from parapet.transforms.crowd.hits.judged import SAME, VALUES
from parapet.transforms.crowd.hits.markup import KeptValue, find_word, marks, speakable
from parapet.transforms.crowd.hits.page import CHECK, Place, VariedItem
from parapet.transforms.running.seeding import stable_digest

if TYPE_CHECKING:
    from parapet.evaluation.models.classifier import Classifier

BEFORE = 3  # turns shown before a user turn


class Original(msgspec.Struct, frozen=True):
    """A user turn of the reference.

    Attributes:
      before: (speaker, utterance) of the preceding turns, at most ``BEFORE``.
      values: the values of its slots that occur in the utterance; empty if ``bad_span``, a span outside the utterance.
      states: service to state.
      services: the services with a frame in which something happens, joined by ``+``.
      intent: the active intent, ``NONE`` for none; empty if the turn has no state. ``acts`` is one label.
    """

    utterance: str
    before: tuple[tuple[str, str], ...]
    values: tuple[KeptValue, ...]
    bad_span: bool
    states: dict[str, State]
    services: str
    intent: str
    acts: str


class Wanted(msgspec.Struct, frozen=True):
    """A value that a turn of a set must express: one of ``texts``; if these are empty, it cannot."""

    slot: str
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """Formats slot and value."""
        return f"{self.slot}: {' or '.join(self.texts) or 'no value'}"


class Pair(msgspec.Struct, frozen=True):
    """A user turn of a set with the original.

    Attributes:
      set: the name of the set.
      utterance: the utterance in the set.
      wanted: the values that the turn must express; empty for an unchanged turn.
      other_states: the services whose state differs from the original's.
    """

    set: str
    dialogue_id: str
    turn: int
    original: Original
    utterance: str
    wanted: tuple[Wanted, ...]
    other_states: tuple[str, ...]

    @property
    def place(self) -> Place:
        """The key of the pair."""
        return self.set, self.dialogue_id, self.turn

    @property
    def changed(self) -> bool:
        """Whether its text differs from the original's."""
        return self.utterance != self.original.utterance


class Pairs(msgspec.Struct, frozen=True):
    """All user turns of all sets.

    Attributes:
      pairs: in the order of sets, dialogues and turns.
      missing: set to the number of the reference's dialogues that it lacks.
      bad_spans: the number of turns of the reference with a span outside their text.
    """

    pairs: list[Pair]
    missing: dict[str, int]
    bad_spans: int

    @property
    def sets(self) -> list[str]:
        """The names of the sets."""
        return list(self.missing)


def read_pairs(sources: Sources) -> Pairs:
    """Reads the reference and its sets.

    Raises:
      InputError: a set cannot be read, there are no sets, or a set has a dialogue or turns that the reference lacks.
    """
    reference, *roots = (root for root in find_sets(sources) if root.kind != "variant")
    if not roots:
        raise InputError("is required: name the sets to check (example: typos=varied/typos)", "--sets")
    originals: dict[str, dict[int, Original]] = {}
    length: dict[str, int] = {}
    for _, dialogue in read_dialogues(reference.path, sources.split):
        originals[dialogue.dialogue_id] = dict(_originals(dialogue))
        length[dialogue.dialogue_id] = len(dialogue.turns)
    pairs: list[Pair] = []
    missing = {}
    for root in roots:
        of_set: dict[str, list[Pair]] = {}
        for path, dialogue in read_dialogues(root.path, sources.split):
            of_set[dialogue.dialogue_id] = _pairs(root, path, dialogue, originals, length)
        missing[root.name] = len(originals) - len(of_set)
        pairs += (pair for _, of_dialogue in sorted(of_set.items()) for pair in of_dialogue)
    bad_spans = sum(turn.bad_span for turns in originals.values() for turn in turns.values())
    return Pairs(pairs, missing, bad_spans)


def _originals(dialogue: Dialogue) -> Iterator[tuple[int, Original]]:
    before: Turn | None = None
    for user_turn in user_turns(dialogue, {}):
        position, turn = user_turn.turn, dialogue.turns[user_turn.turn]
        try:
            values, bad_span = tuple(dict.fromkeys(mark.kept for mark in marks(turn, before))), False
        except ValueError:
            values, bad_span = (), True
        earlier = dialogue.turns[max(0, position - BEFORE) : position]
        services = [frame.service for frame in turn.frames if frame.actions or frame.slots]
        yield (
            position,
            Original(
                turn.utterance,
                tuple((turn.speaker, turn.utterance) for turn in earlier),
                values,
                bad_span,
                _states(turn),
                "+".join(services or [user_turn.service]),
                user_turn.intent,
                acts_of(turn),
            ),
        )
        before = turn


def _states(turn: Turn) -> dict[str, State]:
    return {frame.service: frame.state for frame in turn.frames if frame.state}


def _pairs(
    root: SetRoot,
    path: str,
    dialogue: Dialogue,
    originals: Mapping[str, Mapping[int, Original]],
    length: Mapping[str, int],
) -> list[Pair]:
    name = dialogue.dialogue_id
    if name not in originals:
        raise InputError(f"the reference has no dialogue {name!r}", path, f"--sets {root.name}")
    users = {position for position, turn in enumerate(dialogue.turns) if turn.speaker == "USER"}
    if len(dialogue.turns) != length[name] or users != originals[name].keys():
        reason = f"dialogue {name!r} has different turns than the reference, but is compared with it turn by turn"
        raise InputError(reason, path, f"--sets {root.name}")
    pairs = []
    for position, original in originals[name].items():
        turn = dialogue.turns[position]
        states = _states(turn)
        services = [*dict.fromkeys((*original.states, *states))]
        other = tuple(service for service in services if states.get(service) != original.states.get(service))
        wanted: tuple[Wanted, ...] = ()
        if turn.utterance != original.utterance:
            wanted = tuple(_wanted(value, original.states, states) for value in original.values)
        pairs.append(Pair(root.name, name, position, original, turn.utterance, wanted, other))
    return pairs


def _wanted(kept: KeptValue, states: Mapping[str, State], others: Mapping[str, State]) -> Wanted:
    """Returns what a set must express for a value of the original: the same, or its own state's differing value."""
    before, after = (
        state[kept.service].slot_values.get(kept.slot, []) if kept.service in state else []
        for state in (states, others)
    )
    texts = (kept.value,) if before == after else tuple(map(speakable, after))
    return Wanted(kept.slot, texts)


def draw_sample(pairs: Pairs, size: int, seed: int) -> tuple[list[VariedItem], dict[str, dict[str, int]]]:
    """Draws turns of each set at random, without replacement, among changed ones that should mean the same.

    A turn is drawn by a hash of seed, set, dialogue and turn, so that a larger sample contains the smaller one. Turns
    whose state differs from the original's, as with unseen entities, need not have the same meaning.

    Args:
      pairs: the pairs of all sets.
      size: the number of turns of each set; if there are fewer, all are drawn.
      seed: the seed of the draw.

    Returns:
      The turns, and by set the numbers of ``drawn`` and of all ``turns``.

    Raises:
      InputError: a set has no turn to draw, or a reserved name.
    """
    items: list[VariedItem] = []
    drawn = {}
    for name in pairs.sets:
        if name == CHECK:
            raise InputError(f"a set cannot be called {CHECK!r} here", name, "--sets")
        candidates = [pair for pair in pairs.pairs if pair.set == name and pair.changed and not pair.other_states]
        if not candidates:
            raise InputError(
                "no user turn has a changed text and the same state, so there is nothing to compare", name, "--sets"
            )
        candidates.sort(key=lambda pair: stable_digest(str(seed), "pair", pair.set, pair.dialogue_id, str(pair.turn)))
        items += map(item_of, candidates[:size])
        drawn[name] = {"drawn": len(candidates[:size]), "turns": len(candidates)}
    return items, drawn


def item_of(pair: Pair) -> VariedItem:
    """Converts a pair for its page."""
    original = pair.original
    values = tuple(dict.fromkeys(value.value for value in original.values))
    return VariedItem(
        pair.dialogue_id,
        pair.turn,
        pair.set,
        original.services,
        original.before,
        original.utterance,
        values,
        pair.utterance,
    )


FUZZY = 85  # of 100: least similarity of a piece of the turn to a value

METRICS = ("changed", "states_equal", "values_kept", "values_kept_fuzzy", "same_label", "accuracy_original", "accuracy")

Form = Callable[[str], str]


class Check(msgspec.Struct, frozen=True):
    """The automatic checks of a pair.

    Attributes:
      lost: the values that do not occur verbatim in the text; ``lost_fuzzy`` those that nothing in it resembles.
      label: the right label; empty if unknown.
      predicted: the labels of the original and of the varied text; empty without a classifier, and for an unchanged
        turn.
    """

    pair: Pair
    lost: tuple[Wanted, ...]
    lost_fuzzy: tuple[Wanted, ...]
    label: str = ""
    predicted: tuple[str, str] | tuple[()] = ()

    def values(self) -> dict[str, float | None]:
        """Returns the turn's value of each of ``METRICS``; None if undefined."""
        metrics: dict[str, float | None] = dict.fromkeys(METRICS)
        metrics["changed"] = float(self.pair.changed)
        metrics["states_equal"] = float(not self.pair.other_states)
        if self.pair.wanted:
            metrics["values_kept"] = float(not self.lost)
            metrics["values_kept_fuzzy"] = float(not self.lost_fuzzy)
        if self.predicted:
            before, after = self.predicted
            metrics["same_label"] = float(before == after)
            if self.label:
                metrics["accuracy_original"], metrics["accuracy"] = (
                    float(before == self.label),
                    float(after == self.label),
                )
        return metrics


class Labels(msgspec.Struct, frozen=True):
    """The predictions of a classifier: the kind of its labels, ``intent`` or ``acts``, and the label of each text."""

    task: str
    of_text: Mapping[str, str]


class LabelModel(msgspec.Struct, frozen=True):
    """A classifier of ``parapet train classifier``, and the kind of its labels, ``intent`` or ``acts``."""

    task: str
    classifier: Classifier


def load_classifier(folder: str) -> LabelModel:
    """Loads a classifier. Raises InputError if the folder has none, or one for out-of-domain turns only."""
    from parapet.evaluation.models.classifier import load

    card, classifier = load(folder, "cpu", 256)
    if card.task not in ("intent", "acts"):
        raise InputError(
            f"is a classifier for --task {card.task}: train one for intents or acts", folder, "--classifier"
        )
    return LabelModel(card.task, classifier)


def predict_labels(model: LabelModel, pairs: Iterable[Pair]) -> Labels:
    """Classifies every changed text, before and after the change."""
    changed = [pair for pair in pairs if pair.changed]
    texts = sorted({text for pair in changed for text in (pair.original.utterance, pair.utterance)})
    answers, _ = model.classifier.answers(texts)
    return Labels(model.task, {text: answer.label for text, answer in zip(texts, answers, strict=True)})


def check(pair: Pair, labels: Labels | None, form: Form) -> Check:
    """Checks a pair.

    Args:
      pair: the original and the varied turn.
      labels: the labels of the texts, with a classifier.
      form: normalises texts for the fuzzy comparison, see :func:`compared_form`.
    """
    text = speakable(pair.utterance)
    lost = tuple(
        wanted for wanted in pair.wanted if not any(find_word(text, value) is not None for value in wanted.texts)
    )
    resembling = form(text) if lost else ""
    lost_fuzzy = tuple(
        wanted for wanted in lost if not any(resembles(form(value), resembling) for value in wanted.texts)
    )
    if labels is None or not pair.changed:
        return Check(pair, lost, lost_fuzzy)
    label = pair.original.intent if labels.task == "intent" else pair.original.acts
    predicted = labels.of_text[pair.original.utterance], labels.of_text[pair.utterance]
    return Check(pair, lost, lost_fuzzy, label, predicted)


def resembles(value: str, text: str) -> bool:
    """Whether a piece of a text is similar to a value: ``san fracisco`` to ``san francisco``."""
    if len(text) < len(value):
        return fuzz.ratio(value, text) >= FUZZY
    return bool(value) and fuzz.partial_ratio(value, text) >= FUZZY


def compared_form() -> tuple[Form, bool]:
    """Returns the normalisation of texts, and whether it is their spoken form: ``five thirty p m`` for ``5:30 pm``.

    The spoken form needs the extra ``speech``; without it, letters are lower-cased.
    """
    if find_spec("num2words") is None:
        return str.casefold, False
    from parapet.transforms.perturbations.speech.spoken import spoken_words


    @lru_cache(1 << 14)
    def spoken(text: str) -> str:
        return " ".join(word.text for word in spoken_words(text)) or text.casefold()

    return spoken, True


def lost_by_slot(checks: Sequence[Check]) -> dict[str, int]:
    """Counts the values of each slot that do not occur verbatim in the text, the most frequent first."""
    counts: dict[str, int] = {}
    for check in checks:
        for wanted in check.lost:
            counts[wanted.slot] = counts.get(wanted.slot, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


PEOPLE = (
    *("human_valid", "human_same", "human_values", "naturalness"),
    *("observed_agreement", "fleiss_kappa", "krippendorff_alpha"),
)
OF_ROWS = PEOPLE[:4]  # means over turns


def judged_values(one: Judged[VariedItem]) -> dict[str, float | None]:
    """Returns the human judgement of a turn for each of ``OF_ROWS``; None without a majority."""
    same, kept = one.majority(SAME), one.majority(VALUES)
    undecided = same is None or (kept is None and one.item.values)
    valid = False if same is False or kept is False else None if undecided else True
    words = (("human_valid", valid), ("human_same", same), ("human_values", kept))
    return {**{name: None if word is None else float(word) for name, word in words}, "naturalness": one.naturalness}


class PeopleDetails(msgspec.Struct, frozen=True):
    """The part of ``details.json`` on the human judgements of a set, or of all.

    Attributes:
      pairs: the number of drawn pairs; ``majorities`` is the number of those with a majority on their validity.
      complete: the number of pairs with all wanted ratings, used for kappa.
      intervals: 95 % intervals by metric; None if undefined.
    """

    pairs: int
    majorities: int
    complete: int
    intervals: dict[str, Interval | None]


class GroupDetails(msgspec.Struct, frozen=True):
    """The part of ``details.json`` on a set, or on all.

    Attributes:
      user_turns: the number of user turns; ``changed`` is the number of those with another text, to which the rest
        refers.
      values: the number of values that these turns must express; ``values_found`` occur verbatim,
        ``values_found_fuzzy`` nearly.
      lost_by_slot: values that do not occur verbatim.
      changed_labels: (label of the original, label of the varied text, turns), the most frequent ones.
      intervals: 95 % intervals by metric; None if undefined.
    """

    user_turns: int
    changed: int
    values: int
    values_found: int
    values_found_fuzzy: int
    lost_by_slot: dict[str, int]
    changed_labels: list[tuple[str, str, int]]
    intervals: dict[str, Interval | None]


class Crowd(msgspec.Struct, frozen=True):
    """The part of ``details.json`` on human answers: their numbers and dispositions."""

    raters: int
    workers: int
    assignments: int
    answers: dict[str, int]
    reasons: dict[str, dict[str, int]]
    dead_letters: int
    groups: dict[str, PeopleDetails]


class Details(msgspec.Struct, frozen=True):
    """The content of ``details.json``.

    Attributes:
      labels: the kind of labels of the classifier: ``intent`` or ``acts``; None without one.
      spoken: whether values are also compared in their spoken form.
      missing_dialogues: set to the number of the reference's dialogues that it lacks.
      bad_spans: user turns of the reference with a span outside the text.
      people: human judgements, if any.
    """

    labels: str | None
    spoken: bool
    missing_dialogues: dict[str, int]
    bad_spans: int
    groups: dict[str, GroupDetails]
    people: Crowd | None = None


def check_same_turns(judged: Iterable[Judged[VariedItem]], pairs: Iterable[Pair], path: str) -> None:
    """Raises InputError if the pages at ``path`` show other sets than those of the pairs."""
    pair_at = {pair.place: pair for pair in pairs}
    for judgement in judged:
        item, pair = judgement.item, pair_at.get(judgement.item.place)
        if pair is None or (item_of(pair).original, pair.utterance) != (item.original, item.utterance):
            difference = (
                f"{item.stratum!r} has no turn {item.turn} of dialogue {item.dialogue_id!r}, or it has a different text"
            )
            raise InputError(f"does not match --sets: {difference}", path, "--hits")
