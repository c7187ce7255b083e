"""What must hold of a perturbation, checked on a corpus: for the tests of those who write one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from parapet.schemas.dialogue import typed
from parapet.schemas.errors import InputError, UserCodeError
from parapet.schemas.service import parse_service
from parapet.transforms.corpora import Corpus, Item, checked_items
from parapet.transforms.perturbation.base import CHANGED_TURNS, Perturbation, Perturbed, changed_turn
from parapet.transforms.perturbation.corpus import fitted
from parapet.transforms.perturbation.registry import perturbation_of
from parapet.transforms.perturbation.results import Guard, Services, checked

Frame = Mapping[str, Any]


def check_perturbation(
    perturbation: str | type[Perturbation] | Perturbation,
    corpus: Corpus | str | Path | None = None,
    *,
    keeps_meaning: bool = True,
    **options: Any,
) -> list[str]:
    """Applies a perturbation to a corpus and lists what is wrong with it. For the tests of a perturbation of your own.

    Of every dialogue and every set:

    - the result is the same each time, in whatever order dialogues come, and the dialogue itself is not modified;
    - it is of SGD's form, has the id that it had, and names services, intents and slots of the schema;
    - turns, speakers and services are as before, unless the class sets ``keeps_turns = False``;
    - rows follow ``row_schema``; by default there is one for each turn whose utterance has changed, and no other;
    - where it keeps the meaning: states are as before, and spans have the text that they had.

    A run of ``parapet perturb`` leaves out dialogues of a plug-in that fail the first three, but for the repetition.

    Args:
      perturbation: the name of one that is installed, a class, or an object of one.
      corpus: the dialogues to try it on, or their place; None: the bundled sample.
      keeps_meaning: whether it changes how things are said, and nothing of what is said.
      options: of the perturbation.

    Returns:
      A line for each problem: set, dialogue, place and what is wrong. None of them: all of the above holds.

    Raises:
      InputError: there is no such perturbation or option, ``perturb`` returns something else than it should, or the
        corpus cannot be perturbed so.

    Example:
      >>> import parapet
      >>> parapet.check_perturbation("typos", seed=1)
      []
      >>> class Forgetful(parapet.Perturbation):
      ...     name = "forgetful"
      ...
      ...     def perturb(self, dialogue, set_name, state):
      ...         dialogue["turns"].pop()
      ...         return parapet.Perturbed(dialogue)
      >>> parapet.check_perturbation(Forgetful)[0]
      'forgetful: 1_00000: the dialogue is modified in place: build new dicts and lists'
    """
    from parapet.schemas.layout import sample_root
    from parapet.transforms.corpora import read_corpus

    its = perturbation_of(perturbation, options)
    corpus = corpus if isinstance(corpus, Corpus) else read_corpus(corpus or sample_root(), None)
    analyzed = fitted(its, corpus)
    services = {service.service_name: service for service in map(parse_service, corpus.services())}
    places = [(file.relative, item) for file in corpus.files_of() for item in checked_items(corpus, file)]
    problems = []
    for set_name in its.sets:
        states = {(path, item.position): analyzed.of((path, item.position)) for path, item in places}
        first = [_applied(its, item, set_name, states[path, item.position], services) for path, item in places]
        again = [_applied(its, item, set_name, states[path, item.position], services) for path, item in places[::-1]]
        for (_, item), (result, broken), (second, _) in zip(places, first, reversed(again), strict=True):
            every = [*broken, *_problems(its, item, result, second, keeps_meaning)]
            problems += [f"{set_name}: {item.raw['dialogue_id']}: {problem}" for problem in every]
    return problems


def _applied(
    perturbation: Perturbation, item: Item, set_name: str, state: Any, services: Services
) -> tuple[Item, list[str]]:
    """The item after the perturbation, and what the drivers would leave it out for."""
    item = item._replace(raw=copy.deepcopy(item.raw))
    guard = Guard(perturbation, item, services)
    try:
        dialogue, rows = checked(perturbation, perturbation.perturb(item.raw, set_name, copy.deepcopy(state)))
    except UserCodeError:
        raise
    except InputError as error:
        return item._replace(error=error), []
    problems = [f"{where}: {reason}" if where else reason for where, reason in guard.problems(dialogue)]
    return item._replace(raw=copy.deepcopy(dialogue), rows=rows), problems


def _problems(perturbation: Perturbation, item: Item, result: Item, second: Item, keeps_meaning: bool) -> Iterator[str]:
    if (result.raw, result.rows) != (second.raw, second.rows):
        yield "the result is another one the second time: draw from self.random(dialogue id, turn)"
    if result.error is not None:
        return  # a perturbation may leave a dialogue out
    try:
        typed(result.raw)
    except InputError:
        return  # the guard has reported it
    yield from _rows_that_differ(perturbation, item.raw, Perturbed(result.raw, result.rows))
    if keeps_meaning and len(item.raw["turns"]) == len(result.raw["turns"]):
        yield from _changes_of_meaning(item.raw, result.raw)


def _rows_that_differ(perturbation: Perturbation, dialogue: Any, perturbed: Perturbed) -> Iterator[str]:
    """Where rows of the usual schema are not the turns that have changed."""
    if perturbation.row_schema is not CHANGED_TURNS:
        return
    turns = zip(dialogue["turns"], perturbed.dialogue["turns"], strict=False)
    expected = {
        i: changed_turn(dialogue, i, after)
        for i, (before, after) in enumerate(turns)
        if before["utterance"] != after["utterance"]
    }
    rows = {row.get("turn"): row for row in perturbed.rows}
    for turn in sorted({*expected, *(turn for turn in rows if isinstance(turn, int))}):
        if turn not in rows:
            yield f"turns[{turn}] has changed and has no row"
        elif turn not in expected:
            yield f"turns[{turn}] has a row and has not changed"
        elif rows[turn] != expected[turn]:
            yield f"turns[{turn}]: its row is {rows[turn]}, expected {expected[turn]}"
    if len(rows) != len(perturbed.rows):
        yield "a turn has two rows"


def _changes_of_meaning(dialogue: Any, perturbed: Any) -> Iterator[str]:
    for i, (before, after) in enumerate(zip(dialogue["turns"], perturbed["turns"], strict=True)):
        frames: Iterator[tuple[Frame, Frame]] = zip_longest(before["frames"], after["frames"], fillvalue={})
        for f, (old, new) in enumerate(frames):
            where = f"turns[{i}].frames[{f}]"
            if (old.get("service"), old.get("state")) != (new.get("service"), new.get("state")):
                yield f"{where}: the service or its state has changed"
            texts = _span_texts(before["utterance"], old), _span_texts(after["utterance"], new)
            if texts[0] != texts[1]:
                yield f"{where}: spans had {texts[0]} and have {texts[1]}"


def _span_texts(utterance: str, frame: Frame) -> list[tuple[str, str]]:
    """(slot, text) of the spans of a frame."""
    spans = [span for span in frame.get("slots", ()) if "start" in span]
    return [(span["slot"], utterance[span["start"] : span["exclusive_end"]]) for span in spans]
