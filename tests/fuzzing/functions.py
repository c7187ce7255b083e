"""Functions of one record or one text, called on hostile ones as long as a record may be."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import parapet
from fuzzing.cases import corpus_services, good_dialogues, varied
from fuzzing.mutations import CHARACTERS, TEXTS, json_text, mutated, mutated_text
from fuzzing.running import Found, Workshop
from fuzzing.watching import Finding, call
from parapet.evaluation.dst.frames import fuzzy_score
from parapet.evaluation.generation.lexical import Lexical, parse_claim
from parapet.evaluation.response.goals import is_said, placeholders
from parapet.transforms.anonymise.chats import Chat, ChatTurn
from parapet.transforms.anonymise.replacing import Anonymiser, Rules, suspects_in
from parapet.transforms.crowd import vet
from parapet.transforms.crowd.hits import markup
from parapet.transforms.perturbation import user_turns
from parapet.transforms.perturbations import typos
from parapet.transforms.perturbations.entities import kinds
from parapet.transforms.perturbations.speech.spoken import load_normalisation, spoken_words, unspeakable
from parapet.transforms.reports import markdown, text

CALLS = 300  # of a round
SECONDS = 10.0


class Function(NamedTuple):
    """A function of a record.

    Attributes:
      name: as ``module.function``.
      seeds: good records.
      call: calls it.
    """

    name: str
    seeds: Callable[[], list[Any]]
    call: Callable[[Any], Any]


def _texts() -> list[Any]:
    turns = [turn["utterance"] for one in good_dialogues("test") for turn in one["turns"]]
    return [*turns, *(slot["name"] for one in corpus_services() for slot in one["slots"]), *TEXTS]


def _of_text(name: str, function: Callable[[str], Any]) -> Function:
    return Function(name, _texts, lambda record: function(record) if isinstance(record, str) else None)


def _dialogues() -> list[Any]:
    return good_dialogues("test")


def _perturbed(name: str, **options: Any) -> Callable[[Any], Any]:
    def apply(dialogue: Any) -> None:
        corpus = parapet.corpus_of({"test": [dialogue]}, {"test": corpus_services()})
        for one in parapet.perturb(corpus, name, **options).dialogues():
            json.dumps(one)

    return apply


def _scored(dialogue: Any) -> None:
    good = good_dialogues("test")[:1]
    parapet.score_states(good, [dialogue], schemas=corpus_services())


def _rewritten(service: Any) -> None:
    corpus = parapet.corpus_of({"test": good_dialogues("test")}, {"test": corpus_services()})
    others = [varied(one, "1") for one in corpus_services()[1:]]
    for renamed in parapet.apply_variants(corpus, {"v1": {"test": [service, *others]}}).values():
        list(renamed.dialogues())


def _vetted(record: str) -> None:
    for task, name in (("names", "gym_name"), ("descriptions", "Name of the gym")):
        cleaned = text.clean(record)[:20_000]
        words = text.name_words(cleaned) if task == "names" else text.words(cleaned)
        vet.vet_answer.__wrapped__(vet.Answer(cleaned, words, task, name, "Name of the gym"))  # type: ignore[arg-type]


def _anonymised(record: str) -> None:
    done = Anonymiser(Rules()).of(
        Chat("1", (ChatTurn("user", record[:20_000], "Ann Lee"), ChatTurn("agent", "Hi Ann")))
    )
    for i, one in enumerate(done.texts):
        list(suspects_in(i, one, done.parts, done.names))


def _typed(record: str) -> None:
    values = user_turns.sayable([record[:9], "a"])
    user_turns.edited(record, typos.typo_operations(record, [(0, len(record) // 2)], values, typos.Rates(), b"key"))


RULES = load_normalisation()
FUNCTIONS: list[Function] = [
    *(
        Function(f"parapet.perturb {name}", _dialogues, _perturbed(name, **options))
        for name, options in (
            ("typos", {}),
            ("verbose", {}),
            ("simple", {}),
            ("paraphrase", {}),
            ("unseen_entities", {}),
        )
    ),
    Function("parapet.score_states", _dialogues, _scored),
    Function("parapet.apply_variants", lambda: [varied(one, "1") for one in corpus_services()[:1]], _rewritten),
    _of_text("parapet.rank", lambda one: parapet.rank("gym_name", [one, "name of gym"])),
    _of_text("parapet.rank jaccard", lambda one: parapet.rank("Name of the gym", [one[:5_000], "a b"], by="jaccard")),
    _of_text("transforms.crowd.vet.vet_answer", _vetted),
    _of_text("transforms.anonymise.replacing.Anonymiser", _anonymised),
    _of_text("transforms.perturbations.typos.typo_operations", _typed),
    _of_text("transforms.reports.text.name_words", text.name_words),
    _of_text("transforms.reports.text.find_convention", lambda one: text.find_convention([one, "a_b"])),
    _of_text("transforms.reports.text.clean", lambda one: text.words(text.clean(one))),
    _of_text("transforms.reports.text.as_description", lambda one: text.as_description(one, "Name of it.")),
    _of_text(
        "transforms.perturbations.speech.spoken.spoken_words",
        lambda one: (spoken_words(one, RULES), unspeakable(one, RULES, 300)),
    ),
    _of_text(
        "transforms.crowd.hits.markup.question_xml",
        lambda one: markup.question_xml(markup.carriable(markup.shown(one))),
    ),
    _of_text(
        "transforms.reports.markdown",
        lambda one: (markdown.text(one), markdown.code(one), markdown.prose(one, 2), markdown.link(one, one)),
    ),
    _of_text(
        "transforms.perturbations.entities.kinds",
        lambda one: (
            kinds.day_of(one),
            kinds.minutes_of(one),
            kinds.minutes_said(one),
            kinds.amount_of(one),
            kinds.is_relative(one),
            kinds.digits_of(one),
            kinds.code_of(one),
        ),
    ),
    _of_text("evaluation.dst.frames.fuzzy_score", lambda one: fuzzy_score(one[:2_000], "port alder at noon")),
    _of_text(
        "evaluation.generation.lexical",
        lambda one: (parse_claim(one), Lexical().entailment([(one, "The city is Oslo.")])),
    ),
    _of_text(
        "evaluation.response.knowledge", lambda one: (placeholders(one), is_said(one[:50], one), is_said("oslo", one))
    ),
]


def again(function: Function, _: Workshop, record: Any) -> list[Finding]:
    """Calls a function on a record."""
    finding = call(lambda: function.call(record), SECONDS)
    return [finding] if finding else []


def round_of(function: Function, workshop: Workshop, rng: Random, known: set[str]) -> tuple[int, list[Found]]:
    """Calls a function on some hundred mutated records: how many, and what is new of what was found."""
    seeds = function.seeds()
    of_texts = isinstance(seeds[0], str)
    calls = int((CALLS if of_texts else 20) * workshop.part)
    found = []
    for _ in range(calls):
        record = rng.choice(seeds)
        record = _hostile(record, rng) if of_texts else mutated(record, rng, seeds[:3])
        for finding in again(function, workshop, record):
            key = f"{function.name.split()[0]}: {finding.kind}"
            if key not in known:
                known.add(key)
                found.append(Found(function.name, finding, [json_text(record)]))
    return calls, found


def _hostile(record: str, rng: Random) -> str:
    """A text with some mutations; now and then one piece of it a thousand times."""
    for _ in range(rng.choice([1, 2, 4])):
        record = mutated_text(record, rng, TEXTS)
    if rng.random() < 0.1:
        record = rng.choice([*CHARACTERS, "a", "A", "aA", "1", "1.", "a ", "a@b.", "$1", "(", record[:9]]) * rng.choice(
            [400, 6_000]
        )
    return record[:20_000]
