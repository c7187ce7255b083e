"""Functions of one text or one dialogue, called on hostile ones as long as a record may be.

Of a text these are all that search it with patterns, look for words in it or compare ranges of characters:
``test_long_texts.py`` shows that twice the text takes them twice the time.
"""

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from kit import json_of, sample_dialogues

import parapet
from fuzzing.mutations import CHARACTERS, TEXTS, mutated, mutated_text
from fuzzing.watching import Finding, call
from parapet.evaluation.dst.frames import fuzzy_score
from parapet.evaluation.generation.lexical import Lexical, parse_claim
from parapet.evaluation.response.goals import is_said, placeholders
from parapet.schemas import layout
from parapet.schemas.decisions import neutralise
from parapet.transforms.anonymise import mentions
from parapet.transforms.anonymise.chats import Chat, ChatTurn
from parapet.transforms.anonymise.replacing import Anonymiser, Rules, suspects_in
from parapet.transforms.crowd import answer_files, lexicon, rules, times, vet, worker_ids
from parapet.transforms.crowd.hits import markup
from parapet.transforms.crowd.rewritten_turns import rules as wording
from parapet.transforms.crowd.rewritten_turns.tasks import SourceTurn
from parapet.transforms.perturb import edits, english, typos
from parapet.transforms.perturb.entities import kinds
from parapet.transforms.perturb.speech.spoken import spoken_words
from parapet.transforms.report import markdown, text

SECONDS = 10.0
WORKER = "A2ZX81QWERT3KV"


def _schema() -> list[Any]:
    return json_of(layout.sample_root() / "test/schema.json")


def _perturbed(name: str, dialogue: Any) -> None:
    for perturbed in parapet.perturb(parapet.corpus_of({"test": [dialogue]}, {"test": _schema()}), name).dialogues():
        json.dumps(perturbed)


def _vetted(task: str, record: str) -> None:
    words = text.name_words.__wrapped__(record) if task == "names" else text.words(record)
    answer = rules.AnswerText(text.clean(record), words, task, "gym_name", "Name of the gym")
    rules.vet_answer.__wrapped__(answer)
    rules.BUILT_IN.flags(answer)


def _reworded(record: str) -> None:
    turn = SourceTurn("1_00000", 0, "Trips_1", "", "Yes, I want 2 seats.", (), ("port alder",))
    answer = wording.RewriteText("paraphrase", wording.canonical_text(record, turn.utterance), turn)
    wording.vet_answer(answer)
    wording.flags(answer)


def _canonical(task: str, record: str) -> str | None:
    return vet.canonical_form.__wrapped__(record, task, text.Convention.SNAKE, "Name of the alarm")


def _anonymised(record: str) -> None:
    turns = (ChatTurn("user", record, "Ann Lee"), ChatTurn("agent", "Hi Ann"))
    done = Anonymiser(Rules()).of(Chat(turns))
    for i, anonymous in enumerate(done.texts):
        list(suspects_in(i, anonymous, done.parts, done.names))


def _typed(record: str) -> None:
    values = edits.sayable([record[:9], "a"])
    edits.edited(record, typos.typo_operations(record, [(0, len(record) // 2)], values, typos.Rates(), b"key"))


def _answer_xml(record: str) -> object:
    answer = f"<Q><Answer><QuestionIdentifier>a</QuestionIdentifier><FreeText>{record}</FreeText></Answer></Q>"
    try:
        return answer_files.parse_answer_xml(answer)
    except answer_files.Unusable as reason:
        return worker_ids.redact(str(reason))


KINDS = ("day_of", "minutes_of", "minutes_said", "amount_of", "is_relative", "code_of")
OF_TEXTS: dict[str, Callable[[str], Any]] = {
    "rank": lambda one: parapet.rank("gym_name", [one, "name of gym"]),
    "rank jaccard": lambda one: parapet.rank("Name of the gym", [one[:5_000], "a b"], by="jaccard"),
    "vet names": partial(_vetted, "names"),
    "vet descriptions": partial(_vetted, "descriptions"),
    "canonical names": partial(_canonical, "names"),
    "canonical descriptions": partial(_canonical, "descriptions"),
    "redact": lambda one: (worker_ids.redact(one, WORKER), worker_ids.redact(one, WORKER, is_answer=True)),
    "payload": answer_files.payload,
    "answer XML": _answer_xml,
    "time": times.read_time,
    "spelling": lambda one: lexicon.spelling_rank(one, text.words(one), one),
    "escape cells": neutralise,
    "vet rewritings": _reworded,
    "clauses": lambda one: [english.clauses(sentence) for sentence, *_ in english.sentences(one)],
    "numbers": lambda one: (list(mentions.numbers_in(one, ["US"])), list(mentions.all_numbers_in(one))),
    "names of people": lambda one: list(mentions.names_in(one)),
    "second look": lambda one: list(suspects_in(0, one, frozenset(), frozenset())),
    "anonymise": _anonymised,
    "typo_operations": _typed,
    "find_convention": lambda one: text.find_convention([one, "a_b"]),
    "clean": lambda one: text.words(text.clean(one)),
    "spoken_words": lambda one: spoken_words(one),
    "question_xml": lambda one: markup.question_xml(markup.carriable(markup.shown(one))),
    "markdown": lambda one: (markdown.text(one), markdown.code(one)),
    "kinds": lambda one: [getattr(kinds, name)(one) for name in KINDS],
    "fuzzy_score": lambda one: fuzzy_score(one[:2_000], "port alder at noon"),
    "lexical": lambda one: (parse_claim(one), Lexical().entailment([(one, "The city is Oslo.")])),
    "knowledge": lambda one: (placeholders(one), is_said(one[:50], one), is_said("oslo", one)),
}
OF_DIALOGUES: dict[str, Callable[[Any], Any]] = {
    **{name: partial(_perturbed, name) for name in ("typos", "verbose", "simple", "paraphrase", "unseen_entities")},
    "score_states": lambda one: parapet.score_states(sample_dialogues()[:1], [one], schemas=_schema()),
}
FUNCTIONS = {**OF_TEXTS, **OF_DIALOGUES}


def round_of(name: str, rng: Random, known: set[str], calls: int = 300) -> list[tuple[Any, Finding]]:
    """Calls a function on hostile records: those with a new kind of finding."""
    dialogues = sample_dialogues()
    texts = [turn["utterance"] for dialogue in dialogues for turn in dialogue["turns"]] + TEXTS
    new = []
    for _ in range(calls if name in OF_TEXTS else calls // 15):
        record = (
            _hostile(rng.choice(texts), rng) if name in OF_TEXTS else mutated(rng.choice(dialogues), rng, dialogues)
        )
        finding = call(partial(FUNCTIONS[name], record), SECONDS)
        if finding and (key := f"{name}: {finding.kind}") not in known:
            known.add(key)
            new.append((record, finding))
    return new


def _hostile(record: str, rng: Random) -> str:
    """A text with some mutations; now and then one piece of it a thousand times."""
    for _ in range(rng.choice([1, 2, 4])):
        record = mutated_text(record, rng, TEXTS)
    if rng.random() < 0.1:
        pieces = [*CHARACTERS, "a", "A", "aA", "1", "1.", "a ", "a@b.", "$1", "(", record[:9]]
        record = rng.choice(pieces) * rng.choice([400, 6_000])
    return record[:20_000]
