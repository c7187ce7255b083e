"""System utterances from acts: the input of a generator, and its predictions, which may be reranked by faithfulness.

The input has a template for each act (T2G2; Kale and Rastogi 2020). Users may write their own templates, see
:mod:`parapet.evaluation.generation.corpus`. Acts without one have a sentence made from the schema's words, like the
reference sentences of SGSAcc, so that unseen services and variants have sentences, too.
"""

import functools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from parapet.evaluation.generation import lexical, scoring
from parapet.evaluation.generation.corpus import (
    NONE,
    Act,
    Candidate,
    Kinds,
    Place,
    Prediction,
    ServiceWords,
    SystemTurn,
    Templates,
    act_name,
    filled,
    kinds_of,
    read,
    references,
    services_of,
    system_turns,
    template_of,
    varied_words,
    warn_without_template,
    words_of,
)
from parapet.evaluation.models import inference, saving
from parapet.evaluation.models.inference import Answers, Examples, Part
from parapet.evaluation.sets import ORIGINAL, Sources, find_sets, read_lines
from parapet.schemas.dialogue import DialogueFile, is_marker
from parapet.schemas.errors import InputError
from parapet.schemas.layout import SINGLE, read_root
from parapet.schemas.service import Service
from parapet.transforms.core import files
from parapet.transforms.perturb.corpora import dialogues_of, read_corpus

# As in T2G2: the order of the acts in a frame, and the beginning of a frame with a CONFIRM.
ORDER = ("SELECT", "INFORM_COUNT", "NOTIFY_SUCCESS", "NOTIFY_FAILURE", "INFORM", "REQUEST", "CONFIRM")


CONFIRM = "Please confirm the following details:"


# The text before a sentence that does not name its act; other acts have their name.
LEADS = {"INFORM": "", "OFFER": "How about this:", "CONFIRM": ""}


def text_of(acts: Iterable[Act], words: Mapping[str, ServiceWords], templates: Templates = NONE) -> str:
    """Joins the sentences of a turn's acts, frame by frame in T2G2's order.

    Args:
      acts: the acts of the turn.
      words: the words of each service, for acts without a template.
      templates: the user's templates.
    """
    texts: list[str] = []
    for service, acts_of_service in groupby(acts, lambda act: act.service):
        frame = sorted(acts_of_service, key=lambda act: ORDER.index(act.act) if act.act in ORDER else len(ORDER))
        texts += [CONFIRM] * any(act.act == "CONFIRM" for act in frame)
        texts += (sentence(act, words[service], template_of(act, templates)) for act in frame)
    return " ".join(texts)


def sentence(act: Act, words: ServiceWords, template: str | None = None) -> str:
    """Makes the sentence of an act: its filled template, or one like ``How about this:

    Name of the restaurant is Opa.``
    """
    if template is not None:
        return filled(template, act.values)
    text = " ".join(references(act, words)[0].split())
    if act.act == "REQUEST" and act.values:
        text = f"{text}: {' or '.join(act.values)}"
    lead = LEADS.get(act.act, f"{act_name(act)}:") if act.states and not is_marker(act.act, act.slot) else ""
    return f"{lead} {text}{'' if text[-1:] in '.?!' else '.'}".lstrip()


class Example(msgspec.Struct, frozen=True):
    """A system turn for training.

    Attributes:
      text: the templates of its acts.
      said: the utterance.
      opening: the utterance before the first system turn of the dialogue, which all versions by ``parapet augment``
        share, unlike their ids.
    """

    text: str
    said: str
    opening: str


def read_examples(root: str, split: str, templates: Templates = NONE) -> Examples[Example]:
    """Reads the system turns of a split, in the order of dialogue ids.

    Args:
      root: a corpus.
      split: the split, such as ``train``.
      templates: the user's templates; a warning counts acts without one.

    Raises:
      InputError: a file cannot be read, or there is no such split, no act, or no utterance.
    """
    corpus = read(root, split)
    openings: dict[str, str] = {}
    for turn in corpus.turns:
        openings.setdefault(turn.dialogue_id, turn.previous)
    words = corpus.words[ORIGINAL]
    rows = [
        Example(text_of(turn.acts, words, templates), " ".join(turn.utterance.split()), openings[turn.dialogue_id])
        for turn in corpus.turns
        if turn.acts and turn.utterance.strip()
    ]
    if not rows:
        reason = f"no system turn of {split!r} has both acts and an utterance, so there is nothing to learn"
        raise InputError(reason, root)
    if len(rows) < len(corpus.turns):
        left = len(corpus.turns) - len(rows)
        logging.warning("%s: %s system turns without an act or an utterance are left out", root, f"{left:,}")
    acts = [act for turn in corpus.turns for act in turn.acts]
    warn_without_template(acts, templates, "get a sentence in the schema's words", f"{root}: ")
    schemas = {schemas.split: schemas.path for schemas in read_root(root, leave_out_bad=True)}
    files = read_corpus(root, [split]).paths()
    return Examples(rows, [schemas[SINGLE] if SINGLE in schemas else schemas[split], *files])


class Source(msgspec.Struct, frozen=True):
    """A set.

    Attributes:
      name: ``original``, ``v1``, or a name of ``--sets``.
      files: the files of its dialogues, by name.
      kinds: the kinds of its slots.
      words: the words of its services, by the names in the dialogues.
      templates: the user's templates.
    """

    name: str
    files: tuple[DialogueFile, ...]
    kinds: Kinds
    words: dict[str, ServiceWords]
    templates: Templates = NONE


class TurnTemplate(msgspec.Struct, frozen=True):
    """A system turn with its input.

    Attributes:
      text: the sentences of its acts; empty without acts.
      whole: whether each act has a template of the user's.
    """

    turn: SystemTurn
    text: str
    whole: bool


def sources(flags: Sources, templates: Templates = NONE) -> list[Source]:
    """Lists the sets, the original first.

    A variant has the dialogues and acts of the original, expressed in the variant's words.

    Args:
      flags: the flags that name the sets.
      templates: the user's templates.

    Raises:
      InputError: something is missing, two sets have the same name, or templates are combined with variants.
    """
    (name, path, _), *roots = find_sets(flags)
    services, original = _source(name, path, flags.split, templates)
    sources = [original]
    for name, path, kind in roots:
        if kind == "variant":
            if templates:
                reason = "the model was trained with --templates, which do not depend on the schema"
                raise InputError(f"{reason}, so its utterances would be the same as for the original", "--variants")
            words = varied_words(services, read_root(path, leave_out_bad=True), name)
            sources.append(Source(name, original.files, original.kinds, words))
        else:
            sources.append(_source(name, path, flags.split, templates)[1])
    return sources


def _source(name: str, root: Path, split: str, templates: Templates) -> tuple[list[Service], Source]:
    schemas = {schemas.split: schemas for schemas in read_root(root, leave_out_bad=True)}
    files = tuple(sorted(read_corpus(root, [split]).files, key=lambda file: file.relative))
    services = services_of(schemas, split)
    words = {service.service_name: words_of(service) for service in services}
    return services, Source(name, files, kinds_of(services), words, templates)


def turns_of(source: Source, file: int) -> Iterator[list[TurnTemplate]]:
    """Yields the system turns of each dialogue of a file. Raises InputError if a dialogue cannot be read."""
    dialogue_file = source.files[file]
    for position, _, dialogue in dialogues_of(dialogue_file):
        if isinstance(dialogue, InputError):
            raise InputError(dialogue.reason, dialogue_file.path, f"[{position}].{dialogue.where}".rstrip("."))
        try:
            yield [_with_text(turn, source) for turn in system_turns(dialogue, source.kinds)]
        except InputError as error:
            raise InputError(error.reason, dialogue_file.path, error.where) from None


def _with_text(turn: SystemTurn, source: Source) -> TurnTemplate:
    whole = all(template_of(act, source.templates) is not None for act in turn.acts)
    return TurnTemplate(turn, text_of(turn.acts, source.words, source.templates), whole)


class Search(msgspec.Struct, frozen=True):
    """The settings of the search for utterances.

    Attributes:
      batch_size: templates at a time.
      beams: the number of beams; 1 is greedy search.
      candidates: the number of best utterances to return; 0 for the best only, without a score.
    """

    batch_size: int
    beams: int
    candidates: int


class Generated(msgspec.Struct, frozen=True):
    """The output of a model for a template.

    Attributes:
      candidates: distinct utterances, the most likely first; at least one.
      cut: whether the beginning of the template was cut off.
      unfinished: whether the first candidate did not end within the maximum number of tokens.
      refused: whether there is no answer, because a request was refused.
    """

    candidates: tuple[Candidate, ...]
    cut: bool
    unfinished: bool
    refused: bool = False


@functools.cache
def scorer_of(name: str, folder: str, batch: int) -> scoring.Scorer:
    """Makes the scorer, ``lexical`` or ``nli`` with a model in a folder; cached in each process."""
    return lexical.Lexical() if name == "lexical" else scoring.Nli(folder, batch)


@functools.lru_cache(maxsize=8)
def read_candidates(path: str) -> dict[Place, tuple[Candidate, ...]]:
    """Reads the candidates in a file of predictions, by turn. Raises InputError if it cannot be read or has none."""
    candidates = {}
    for number, prediction in read_lines(path, Prediction):
        if prediction.candidates is None:
            reason = "has no candidates: 'parapet predict' writes them with --candidates"
            raise InputError(reason, path, f"line {number}")
        candidates[prediction.dialogue_id, prediction.turn] = prediction.candidates
    return candidates


def merged(*systems: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Merges candidates of several systems, the most likely first; of equal utterances, the most likely is kept."""
    best: dict[str, Candidate] = {}
    for candidate in (candidate for system in systems for candidate in system):
        if candidate.utterance not in best or candidate.score > best[candidate.utterance].score:
            best[candidate.utterance] = candidate
    return tuple(sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.utterance)))


CHUNK = 64  # dialogues


PREDICTIONS = "predictions"


class Reranker(msgspec.Struct, frozen=True):
    """The settings of the choice among candidates.

    Attributes:
      scorer: ``lexical`` or ``nli``.
      folder, batch_size: for ``nli``: its model, and pairs of texts at a time.
      others: outputs of ``parapet predict`` whose candidates are added.
    """

    scorer: str
    folder: str = ""
    batch_size: int = 32
    others: tuple[str, ...] = ()


class SourceFile(NamedTuple):
    """A file of a set, both by number."""

    set: int
    file: int


class Turns(NamedTuple):
    """Some system turns of a file; ``number`` is that of the chunk."""

    source: SourceFile
    number: int
    turns: tuple[TurnTemplate, ...]


class Generating(Protocol):
    """The interface of a generator: a T5, or a language model."""

    def generate(self, texts: Sequence[str]) -> list[Generated]:
        """Generates utterances for each text of acts."""
        ...


class Job(inference.Job[SourceFile, Turns, Generating], frozen=True, kw_only=True):
    """A prediction of utterances.

    Attributes:
      checkpoint: the T5 that the model's prefixes belong to.
      search: the settings of the search.
      sets: the sets whose system turns are predicted; ``split`` is their split.
      reranker: chooses among candidates; None for the most likely.
    """

    unit: ClassVar[str] = "turns"

    checkpoint: str | None = None
    search: Search
    sets: tuple[Source, ...]
    split: str
    reranker: Reranker | None = None

    def sources(self) -> Sequence[SourceFile]:
        """Lists the files of all sets."""
        return [SourceFile(i, file) for i, source in enumerate(self.sets) for file in range(len(source.files))]

    def chunks(self, file: SourceFile) -> Iterator[Turns]:
        """Yields chunks of the system turns of a file. Raises InputError if it cannot be read."""
        dialogues = list(turns_of(self.sets[file.set], file.file))
        # An empty file has a chunk, too, so that its set gets a file of predictions.
        for first in range(0, max(len(dialogues), 1), CHUNK):
            turns = tuple(turn for dialogue in dialogues[first : first + CHUNK] for turn in dialogue)
            yield Turns(file, first // CHUNK, turns)

    def asked(self, chunk: Turns) -> dict[str, int]:
        """Counts the system turns."""
        return {f"turns/{self.sets[chunk.source.set].name}": len(chunk.turns)}

    def load(self) -> Generating:
        """Loads the model."""
        from parapet.evaluation.models.generation_t5 import load

        return load(self.folder, self.model, self.checkpoint, saving.device_of(self.device), self.search)

    def answer(self, model: Generating, chunk: Turns) -> Answers:
        """Encodes an utterance for each turn as JSON lines; with a reranker, the most faithful candidate."""
        source = self.sets[chunk.source.set]
        with saving.enough_memory(self.batch_size):
            outputs = iter(model.generate([turn.text for turn in chunk.turns if turn.text]))
        generated = {turn.turn.place: next(outputs) if turn.text else None for turn in chunk.turns}
        turns = [turn.turn for turn in chunk.turns]
        candidates = {turn.place: self._candidates(turn, generated[turn.place], source) for turn in turns}
        first = {place: some[0].utterance for place, some in candidates.items()}
        best = first
        if self.reranker is not None:
            scorer = scorer_of(self.reranker.scorer, self.reranker.folder, self.reranker.batch_size)
            best = scoring.choose(turns, candidates, source.words, scoring.Cached(scorer))
        refused = {place for place, act in generated.items() if act is not None and act.refused}
        data = b"".join(
            self._line(turn, best[turn.place], candidates[turn.place], turn.place in refused) for turn in turns
        )
        with_acts = [turn_result for turn in turns if (turn_result := generated[turn.place]) is not None]
        counts = {
            "without_acts": len(turns) - len(with_acts),
            "cut_templates": sum(act.cut for act in with_acts),
            "without_template": sum(not turn.whole for turn in chunk.turns) if source.templates else 0,
            "without_end": sum(act.unfinished for act in with_acts),
            "reranked": sum(best[place] != first[place] for place in first),
        }
        named = {f"{kind}/{source.name}": n for kind, n in counts.items() if n}
        part = Part(relative_of(source.name, self.split), (*chunk.source, chunk.number), data)
        return Answers([part], {f"said/{source.name}": len(turns), **named})

    def _candidates(self, turn: SystemTurn, generated: Generated | None, source: Source) -> tuple[Candidate, ...]:
        """Returns the candidates of the model and of other systems; an empty utterance for a turn without acts."""
        if generated is None:
            return (Candidate("", 0.0),)
        others = self.reranker.others if self.reranker is not None else ()
        paths = (files.join(folder, relative_of(source.name, self.split)) for folder in others)
        return merged(generated.candidates, *(_others(path, turn) for path in paths))

    def _line(self, turn: SystemTurn, utterance: str, candidates: Sequence[Candidate], refused: bool) -> bytes:
        row: dict[str, Any] = {"dialogue_id": turn.dialogue_id, "turn": turn.turn, "utterance": utterance}
        row |= {"refused": True} if refused else {}
        if self.search.candidates:
            row["candidates"] = list(candidates)
        return msgspec.json.encode(row) + b"\n"


def _others(path: str, turn: SystemTurn) -> tuple[Candidate, ...]:
    candidates = read_candidates(path).get(turn.place)
    if candidates is None:
        raise InputError(f"there is no prediction for dialogue {turn.dialogue_id!r} turn {turn.turn}", path, "--also")
    return candidates


def relative_of(name: str, split: str) -> str:
    """Returns the file of a set's predictions, below the output folder."""
    return f"{PREDICTIONS}/{name}/{split}/utterances.jsonl"
