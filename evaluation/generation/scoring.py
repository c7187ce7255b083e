"""SGSAcc (Chen, Lin and Byrne 2023, section 2): chooses and validates references, and judges and ranks utterances.

The judges of textual entailment are called in batches, and only once for each pair. One of them is a model in the
user's folder.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from parapet.evaluation import sets, task
from parapet.evaluation.generation.corpus import (
    Act,
    Candidate,
    Corpus,
    Place,
    Prediction,
    Rules,
    ServiceWords,
    SystemTurn,
    references,
    tampered,
)
from parapet.evaluation.models import saving
from parapet.schemas.errors import InputError
from parapet.transforms.core import checkpoints, progress

LABELS = ("entailment", "neutral", "contradiction")
Pair = tuple[str, str]  # premise, hypothesis
Judgement = tuple[float, float, float]  # probabilities of LABELS

_PORTION = 256  # pairs between two writes: one or two minutes with a large model


class Scorer(Protocol):
    """A judge of textual entailment.

    Attributes:
      name: the kind of judge, for every output.
      model: the exact model with its version, as the judgements of other models differ.
      joint: the separator between the parts of a premise (preceding turn, description of the slot, utterance).
    """

    name: str
    model: str
    joint: str

    def entailment(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """Judges each pair, in order."""
        ...


def entails(judgement: Judgement) -> bool:
    """Whether entailment is the most probable class; ties do not count."""
    entailment, neutral, contradiction = judgement
    return entailment > neutral and entailment > contradiction


class Cached:
    """A scorer that keeps its judgements, in memory or in an SQLite file for other runs.

    They are written as they are computed, so that an interrupted run need not repeat them.

    Args:
      scorer: the scorer that judges.
      path: the file; empty for none.

    Raises:
      InputError: the file cannot be opened, or is another one.
    """

    def __init__(self, scorer: Scorer, path: str = "") -> None:
        self.scorer = scorer
        self.name, self.model, self.joint = scorer.name, scorer.model, scorer.joint
        try:
            self._file = sqlite3.connect(path or ":memory:")
            self._file.execute(f"CREATE TABLE IF NOT EXISTS judgements (key TEXT PRIMARY KEY, {', '.join(LABELS)})")
            rows = self._file.execute("SELECT * FROM judgements")
            self._known: dict[str, Judgement] = {key: (shares[0], shares[1], shares[2]) for key, *shares in rows}
        except sqlite3.Error as error:
            raise InputError(f"cannot be used to keep judgements: {error}", path, "--cache") from None

    def entailment(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """Judges each pair, in order."""
        keys = {pair: self._key(pair) for pair in pairs}
        new = [pair for pair, key in keys.items() if key not in self._known]
        # Sorted by length, so that a batch has texts of similar length.
        new.sort(key=lambda pair: (len(pair[0]) + len(pair[1]), pair))
        progress.expect(len(new), "pairs", "entailment")
        for start in range(0, len(new), _PORTION):
            portion = new[start : start + _PORTION]
            judged = dict(zip((keys[pair] for pair in portion), self.scorer.entailment(portion), strict=True))
            self._known |= judged
            with self._file:
                rows = [(key, *judgement) for key, judgement in judged.items()]
                self._file.executemany("INSERT INTO judgements VALUES (?, ?, ?, ?)", rows)
            progress.advance(len(portion), "pairs", "entailment")
        return [self._known[keys[pair]] for pair in pairs]

    def _key(self, pair: Pair) -> str:
        return hashlib.sha256(json.dumps([self.name, self.model, *pair]).encode()).hexdigest()[:32]


AT_ONCE = 512  # questions: enough to fill a model's batches, with memory that does not grow with the corpus


def ask(questions: Iterable[tuple[str, Sequence[str]]], scorer: Scorer) -> list[list[Judgement]]:
    """Judges the hypotheses of each question (premise, hypotheses), many questions at a time."""
    answers: list[list[Judgement]] = []
    remaining = iter(questions)
    while batch := list(islice(remaining, AT_ONCE)):
        pairs = [(premise, hypothesis) for premise, hypotheses in batch for hypothesis in hypotheses]
        judged = iter(scorer.entailment(pairs))
        answers += [list(islice(judged, len(hypotheses))) for _, hypotheses in batch]
    return answers


def best_of(judgements: Sequence[Judgement]) -> int:
    """Returns the index of the most entailed hypothesis; the first of equals."""
    return max(range(len(judgements)), key=lambda i: (judgements[i][0], -i))


def any_entailed(judgements: Iterable[Judgement]) -> bool:
    """Whether any judgement is entailment."""
    return any(map(entails, judgements))


_FLAG = "--nli_model"
_HEAD = "ForSequenceClassification"


class Nli:
    """A classifier of text pairs with the labels entailment, neutral and contradiction.

    Rounding depends on the shape of a batch: if two classes are equally likely up to the sixth digit, either may win on
    another machine.

    Args:
      folder: config.json, weights and tokenizer, as ``save_pretrained`` writes them.
      batch: pairs at a time.

    Raises:
      InputError: the folder does not exist or does not have such a model; see :func:`inspect`.
    """

    name = "nli"
    joint = " "

    def __init__(self, folder: str, batch: int = 32) -> None:
        if batch < 1:
            raise InputError("must be 1 or more", "--batch", str(batch))
        self.order = inspect(folder)
        saving.check_installed("torch", "transformers")
        self.folder, self.batch = folder, batch
        self.model = f"{Path(folder).resolve().name}@{checkpoints.digest(folder)}"
        self._loaded: tuple[Any, Any] | None = None

    def entailment(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """Judges each pair, in order. The model is loaded at the first call.

        Raises:
          InputError: it cannot be loaded.
        """
        if not pairs:
            return []
        if self._loaded is None:
            self._loaded = self._load()
        import torch

        tokenizer, model = self._loaded
        rows = self._tokens(tokenizer, model, pairs)
        judgements: list[Judgement] = [(0.0, 0.0, 0.0)] * len(pairs)
        # Sorted by length for little padding. Texts break ties, so that results do not depend on the order of the
        # pairs.
        order = sorted(range(len(pairs)), key=lambda i: (len(rows[i]["input_ids"]), pairs[i]))
        for start in range(0, len(order), self.batch):
            chunk = order[start : start + self.batch]
            inputs = tokenizer.pad([rows[i] for i in chunk], return_tensors="pt").to(model.device)
            with torch.inference_mode():
                shares = torch.softmax(model(**inputs).logits.double(), dim=-1).cpu().tolist()
            for i, row in zip(chunk, shares, strict=True):
                judgements[i] = row[self.order[0]], row[self.order[1]], row[self.order[2]]
        return judgements

    def _tokens(self, tokenizer: Any, model: Any, pairs: Sequence[Pair]) -> list[dict[str, list[int]]]:
        """Tokenizes pairs. In pairs that are too long, the beginning of the premise is cut off."""
        # RoBERTa counts positions from 2 on.
        longest = min(tokenizer.model_max_length, model.config.max_position_embeddings - 2)
        firsts, seconds = zip(*pairs, strict=True)
        encoded = tokenizer(list(firsts), list(seconds), truncation="longest_first", max_length=longest)
        return [{key: encoded[key][i] for key in encoded} for i in range(len(pairs))]

    def _load(self) -> tuple[Any, Any]:
        tokenizer, model = saving.load(checkpoints.opened(self.folder, _FLAG), f"AutoModel{_HEAD}")
        tokenizer.truncation_side = "left"
        return tokenizer, model.to(saving.device_of("auto"))


def inspect(folder: str) -> tuple[int, int, int]:
    """Returns the positions of entailment, neutral and contradiction in the model's output, from its config.json.

    Raises:
      InputError: there is no such folder (the name of a model on a hub is none), or it lacks a classifier, weights or
        the three labels.
    """
    checkpoint = checkpoints.opened(folder, _FLAG)
    if not any(head.endswith(_HEAD) for head in checkpoint.heads):
        kind = checkpoint.heads[0] if checkpoint.heads else f"model of type {checkpoint.config.get('model_type')!r}"
        raise checkpoint.refused(f"contains a {kind}: expected a classifier of text pairs (...{_HEAD})")
    checkpoints.check_weights(checkpoint)
    checkpoints.check_tokenizer(checkpoint)
    labels = checkpoint.config.get("id2label")
    label_map = labels if isinstance(labels, dict) else {}
    by_label = {str(label).lower(): str(key) for key, label in label_map.items()}
    if sorted(by_label) != sorted(LABELS) or sorted(by_label.values()) != ["0", "1", "2"]:
        known_labels = ", ".join(str(label) for label in label_map.values()) or "none"
        wanted = ", ".join(LABELS)
        reason = f"its labels are {known_labels}: id2label in config.json must map the outputs to {wanted}"
        raise checkpoint.refused(reason)
    entailment, neutral, contradiction = (int(by_label[label]) for label in LABELS)
    return entailment, neutral, contradiction


Premise = Literal["utterance", "augmented"]


Premises = tuple[tuple[Premise, str], ...]


def premises_of(act: Act, previous: str, words: ServiceWords, joint: str, utterance: str) -> Premises:
    """Returns the utterance and, if it differs, the augmented premise (section 2.1, Figure 1), one line per part.

    Parts before the utterance are sentences, and get a full stop if they lack final punctuation.

    Args:
      act: the act; the description of its slot is a part.
      previous: the preceding turn, which is another part.
      words: the words of the act's service.
      joint: the separator of the parts.
      utterance: the utterance.
    """
    plain = line_of(utterance)
    parts = map(line_of, (previous, words.slot(act.slot).description if act.slot else ""))
    before = [part if part[-1] in ".?!" else f"{part}." for part in parts if part]
    whole = joint.join([*before, plain]) if plain else ""
    return (("utterance", plain), ("augmented", whole)) if plain != whole else (("utterance", plain),)


def line_of(text: str) -> str:
    """Joins lines and removes double blanks."""
    return " ".join(text.split())


class Validated(msgspec.Struct, frozen=True):
    """The ground truth's verdict on the reference sentences of an act.

    Attributes:
      reference: the candidate that it entails most, without context.
      premise: the premise that entails a candidate, whether the reference or another; None if neither does.
      tampered: whether it entails a sentence with tampered values; None if there is none.
    """

    reference: str
    premise: Premise | None
    tampered: bool | None

    @property
    def valid(self) -> bool:
        """Whether a candidate is entailed and no tampered sentence is."""
        return self.premise is not None and not self.tampered


def first_entailing(
    questions: Sequence[tuple[Premises, Sequence[str]]], scorer: Scorer
) -> list[tuple[Premise | None, list[Judgement]]]:
    """Returns which premise entails any of the hypotheses: the utterance or, if it does not, the augmented premise.

    Args:
      questions: (premises, hypotheses).
      scorer: the judge of entailment.

    Returns:
      For each question the premise, or None if neither entails a hypothesis; and the judgements by the utterance alone.
    """
    alone = ask(((premises[0][1], hypotheses) for premises, hypotheses in questions), scorer)
    entailing: list[Premise | None] = ["utterance" if any_entailed(judged) else None for judged in alone]
    left = [i for i, (premises, _) in enumerate(questions) if entailing[i] is None and len(premises) > 1]
    for i, judged in zip(left, ask(((questions[i][0][1][1], questions[i][1]) for i in left), scorer), strict=True):
        if any_entailed(judged):
            entailing[i] = "augmented"
    return list(zip(entailing, alone, strict=True))


def validate(questions: Sequence[tuple[Premises, Sequence[str], Sequence[str]]], scorer: Scorer) -> list[Validated]:
    """Chooses the reference sentence of each act by the ground truth, and validates it.

    The paper names validation and the final evaluation as the steps that use the augmented premise, so the choice does
    not use it.

    Args:
      questions: for each act, the premises of the ground truth, the candidate sentences, and sentences of the same act
        with tampered values; the latter are empty if it has no value or is not validated.
      scorer: the judge of entailment.
    """
    premises_found = first_entailing([(premises, candidates) for premises, candidates, _ in questions], scorer)
    with_negatives = [(premises, negatives) for premises, _, negatives in questions if negatives]
    tampered_entailed = iter(first_entailing(with_negatives, scorer))
    validated = []
    for (_, candidates, negatives), (premise, alone) in zip(questions, premises_found, strict=True):
        is_entailed = next(tampered_entailed)[0] is not None if negatives else None
        validated.append(Validated(candidates[best_of(alone)], premise, is_entailed))
    return validated


Outcome = Literal["faithful", "unfaithful", "no_reference", "tampered_entailed"]


class TurnAct(msgspec.Struct, frozen=True):
    """An act of a turn, and the same act with tampered values."""

    turn: SystemTurn
    act: Act
    tampered: Act | None


class ScoredAct(msgspec.Struct, frozen=True):
    """An act with the ground truth's verdict on its sentences, and the premise by which the prediction is faithful.

    Attributes:
      valid: whether it passes validation; always true without validation.
    """

    turn: SystemTurn
    act: Act
    valid: bool
    validated: Validated
    premise: Premise | None

    @property
    def outcome(self) -> Outcome:
        """The outcome."""
        if self.valid:
            return "faithful" if self.premise else "unfaithful"
        return "tampered_entailed" if self.validated.premise else "no_reference"


def acts_of(corpus: Corpus, seed: str, with_tampered: bool) -> list[TurnAct]:
    """Returns the acts of all turns, in order, with tampered values if needed; ``seed`` is that of tampering."""
    return [
        TurnAct(
            turn,
            act,
            tampered(act, corpus.pools, seed, turn.dialogue_id, str(turn.turn), str(i)) if with_tampered else None,
        )
        for turn in corpus.turns
        for i, act in enumerate(turn.acts)
    ]


def check_references(
    acts: Sequence[TurnAct], words: Mapping[str, ServiceWords], rules: Rules, scorer: Scorer
) -> list[Validated]:
    """Validates each act's sentences, built by some rules with the words of a schema."""
    questions = []
    for act in acts:
        words_of_service = words[act.act.service]
        negatives = references(act.tampered, words_of_service, rules) if act.tampered is not None else ()
        premises = premises_of(act.act, act.turn.previous, words_of_service, scorer.joint, act.turn.utterance)
        questions.append((premises, references(act.act, words_of_service, rules), negatives))
    return validate(questions, scorer)


def score(
    acts: Sequence[TurnAct],
    validated: Sequence[Validated],
    words: Mapping[str, ServiceWords],
    utterances: Mapping[Place, str],
    scorer: Scorer,
    validation: bool,
) -> list[ScoredAct]:
    """Judges whether utterances are faithful to each act, by its reference sentence; also for invalid acts."""
    questions = []
    for act, checked in zip(acts, validated, strict=True):
        place, words_of_service = act.turn.place, words[act.act.service]
        premises = premises_of(act.act, act.turn.previous, words_of_service, scorer.joint, utterances[place])
        questions.append((premises, (checked.reference,)))
    judged = first_entailing(questions, scorer)
    return [
        ScoredAct(act.turn, act.act, checked.valid or not validation, checked, premise)
        for act, checked, (premise, _) in zip(acts, validated, judged, strict=True)
    ]


def choose(
    turns: Iterable[SystemTurn],
    candidates: Mapping[Place, Sequence[Candidate]],
    words: Mapping[str, ServiceWords],
    scorer: Scorer,
) -> dict[Place, str]:
    """Chooses for each turn the candidate that is faithful to the most acts (the paper's ensemble, section 3).

    An act counts if the candidate alone entails any of its sentences; neither the ground truth nor its choice of a
    sentence is used. Ties are broken by the highest score, then by position.

    Args:
      turns: the turns, with their acts.
      candidates: at least one for each turn.
      words: the words of each service, as the system knows them.
      scorer: the judge of entailment.
    """
    turns = list(turns)
    several = [(turn, i, candidate) for turn in turns for i, candidate in enumerate(candidates[turn.place])]
    several = [option for option in several if len(candidates[option[0].place]) > 1]
    questions = (
        (line_of(candidate.utterance), references(act, words[act.service], "paper"))
        for turn, _, candidate in several
        for act in turn.acts
    )
    judged = iter(ask(questions, scorer))
    points = {(turn.place, i): sum(any_entailed(next(judged)) for _ in turn.acts) for turn, i, _ in several}

    def best(place: Place) -> Candidate:
        ranked = enumerate(candidates[place])
        return max(ranked, key=lambda pair: (points.get((place, pair[0]), 0), pair[1].score, -pair[0]))[1]

    return {turn.place: best(turn.place).utterance for turn in turns}


class Scores(msgspec.Struct, frozen=True):
    """The scores of a system.

    Attributes:
      utterances: the system's utterances, by place; ``acts`` has their faithfulness.
      checks: for the original and each variant, the verdicts on the sentences with its words.
    """

    utterances: dict[Place, str]
    acts: list[ScoredAct]
    checks: dict[str, list[tuple[TurnAct, Validated]]]


def evaluate(
    corpus: Corpus,
    predictions: Mapping[Place, Prediction],
    scorer: Scorer,
    seed: str = "0",
    validation: bool = True,
    rules: Rules = "paper",
    stage: task.Stage = lambda _: None,
) -> Scores:
    """Scores predictions.

    Args:
      corpus: the reference data.
      predictions: a prediction for each of its turns.
      scorer: the judge of entailment.
      seed: the seed of tampered values.
      validation: whether acts count only if the ground truth entails a sentence, and none with tampered values. Without
        validation, all acts count, and tampered values are not judged.
      rules: the rules that make the sentences.
      stage: is called with the name of each stage.
    """
    with_tampered = acts_of(corpus, seed, validation or len(corpus.words) > 1)
    acts = with_tampered if validation else [msgspec.structs.replace(act, tampered=None) for act in with_tampered]
    stage("references")
    words_of_original = corpus.words[sets.ORIGINAL]
    validated = check_references(acts, words_of_original, rules, scorer)
    stage("utterances")
    utterances = {place: prediction.utterance for place, prediction in predictions.items()}
    scored = score(acts, validated, words_of_original, utterances, scorer, validation)
    checks = {}
    for name, words in corpus.words.items():
        if name == sets.ORIGINAL and (validation or len(corpus.words) == 1):
            outcome = validated
        else:
            stage(name)
            outcome = check_references(with_tampered, words, rules, scorer)
        checks[name] = list(zip(with_tampered, outcome, strict=True))
    return Scores(utterances, scored, checks)
