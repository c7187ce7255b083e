"""The models of the bAbI dialog tasks: rules, TF-IDF, nearest neighbour, embeddings, memory networks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from parapet.evaluation.models import configs
from parapet.pipelines.app import Option, input_paths
from parapet.pipelines.command import say
from parapet.pipelines.corpora import BabiOptions
from parapet.pipelines.models import family
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path
from parapet.schemas.limits import read_whole
from parapet.transforms.core.options import OUTPUT, REQUIRED, folder, option

if TYPE_CHECKING:
    from parapet.evaluation.models.babi.data import Card
    from parapet.evaluation.models.babi.inference import BabiFile

PREDICTIONS, ATTENTION = "predictions", "attention"
MOST_ATTENDED = 64  # dialogues: a chunk of a prediction
BUILT_IN = "task6"  # rules that come with Parapet
PUBLISHED = "babi"  # patterns of tasks 1 to 5 that come with Parapet

WARNINGS = {
    "too_long": ("turn", "{n} with more history than --memory allows: the oldest lines were cut off"),
    "empty": ("turn", "no rule applied at {n}: the answer is empty"),
    "not_understood": ("turn", "{n} with words that the rules do not know: answered by the values in them"),
}

_FILES = "babi/task1-trn.txt --dev babi/task1-dev.txt --candidates babi/candidates.txt"


Model = tuple[Mapping[str, Option], "Card"]  # the options that determine a model, and the model


class TrainAtOnce(family.Train[Model]):
    """A training without epochs, which is done when the inputs have been read."""

    def input_paths(self) -> family.Inputs:
        """Lists the files that determine the model."""
        return input_paths(self)

    def fit(self) -> Model:
        """Makes the model. Raises InputError if an input cannot be used."""
        raise NotImplementedError

    def check(self) -> Model:
        """Makes the model. Raises InputError if an input cannot be used."""
        from parapet.evaluation.models.saving import check_installed

        check_installed("torch")  # which the models' module imports
        return self.fit()

    def act(self, model: Model) -> None:
        """Publishes the model."""
        from parapet.evaluation.models.babi.baselines import files_of_rules
        from parapet.evaluation.models.babi.data import files_of
        from parapet.evaluation.task import publish

        recorded, card = model
        publish(self.output, files_of(card) | files_of_rules(card), self.header(recorded, self.input_paths()))
        say(f"{self.model_name}: the model is in {self.output}")


class TfIdf(TrainAtOnce):
    """The candidate closest to the dialogue by TF-IDF."""

    description = (
        "Takes the candidate closest to the last utterance, or to the dialogue so far, by TF-IDF (section 4.2)."
    )
    example = f"  parapet train tfidf --train {_FILES} --match babi/kb-all.txt --output my_model"
    train: list[str] = folder("dialogues in the bAbI format, which give words their weights", "FILE", REQUIRED)
    dev: list[str] = folder("dialogues that select the better --input", "FILE", [])
    candidates: str = configs.candidates()
    match: str | None = configs.knowledge()
    input: Literal["last", "history"] | None = option(None, "the last utterance, or all so far (default: by --dev)")

    def fit(self) -> Model:
        """Counts words, and chooses the input on dev."""
        from parapet.evaluation.models.babi import baselines, data

        texts = data.read_candidates(self.candidates)
        knowledge = data.read_knowledge(self.match, texts)
        train, dev = ([*chain(*map(data.read_dialogues, paths))] for paths in (self.train, self.dev))
        idf = baselines.idf_of(train, texts)
        history = self.input == "history"
        if dev and self.input is None:
            last, whole = (baselines.TfIdf(texts, knowledge, idf, which) for which in (False, True))
            history = baselines.share_right(whole, dev) > baselines.share_right(last, dev)
        card = data.Card(
            model=self.model_name,
            history=history,
            candidates=texts,
            knowledge=knowledge,
            idf=idf,
        )
        return {"input": "history" if history else "last"}, card


class Nearest(TrainAtOnce):
    """The answer to the most similar utterance in the training set."""

    description = "Answers as the most similar utterance of the training set is answered (section 4.2)."
    example = "  parapet train nearest --train babi/task1-trn.txt --output my_model"
    train: list[str] = folder("dialogues in the bAbI format to train on", "FILE", REQUIRED)
    similarity: Literal["exact", "overlap"] = option("exact", "the same utterance, or the one that shares most words")

    def fit(self) -> Model:
        """Reads the dialogues."""
        from parapet.evaluation.models.babi import baselines, data

        pairs, responses = baselines.Nearest.learn(chain(*map(data.read_dialogues, self.train)))
        task, similarity = data.task_of(self.train), self.similarity
        card = data.Card(model=self.model_name, task=task, pairs=pairs, candidates=responses, similarity=similarity)
        return {"similarity": similarity}, card


class Rules(TrainAtOnce):
    """Rules for tasks 1 to 5, from an ontology, or rules for task 6 from a file."""

    description = """\
Rule-based systems. For tasks 1 to 5, a bot with the patterns of an ontology, by default the simulator's, or with those
of the published files (--rules babi); --match adds the values of a knowledge base, for turns that no pattern matches.
For task 6, rules from a file, with patterns from the training set, in the order that is best on dev."""
    example = """\
  parapet train rules --rules babi --match babi/kb-all.txt --output my_model
  parapet train rules --rules task6 --train task6-trn.txt --dev task6-dev.txt --match task6-kb.txt --output my_model"""
    ontology: str | None = folder("domain in TOML (default: the simulator's)", "FILE", None)
    match: str | None = folder("knowledge base of the dialogues", "FILE", None)
    rules: str | None = option(None, "rules in TOML, or babi or task6 for those of Parapet", metavar="FILE|NAME")
    train: list[str] = folder("with --rules: dialogues in the bAbI format to extract patterns from", "FILE", [])
    dev: list[str] = folder("with --rules: dialogues that choose the rules and their order", "FILE", [])
    candidates: str | None = folder("with --rules: all possible answers, '1 text' a line", "FILE", None)

    def input_paths(self) -> family.Inputs:
        """Lists the files that determine the model."""
        of_file = self.rules if self.rules not in (BUILT_IN, PUBLISHED) else None
        return super().input_paths() + ([("rules", of_file)] if of_file else [])

    def fit(self) -> Model:
        """Reads an ontology, or rules for which it extracts patterns."""
        from parapet.evaluation.models.babi import baselines, data
        from parapet.transforms.simulators.restaurants.ontology import babi_ontology, read_ontology

        if self.ontology and self.rules:
            raise InputError("give either --ontology or --rules", "--ontology")
        if rules := self.rules if self.rules != PUBLISHED else None:
            if not self.train or not self.match:
                reason = "requires --train and --match: patterns are extracted from the training set"
                raise InputError(reason, "--rules")
            script = baselines.built_in_rules() if rules == BUILT_IN else read_whole(as_path(rules))
            card = baselines.scripted_card(script, rules, self.train, self.dev, self.match, self.candidates)
            return {"rules": rules if rules == BUILT_IN else "a file"}, card
        for flag in ("train", "dev", "candidates"):
            if getattr(self, flag):
                raise InputError("requires --rules FILE or task6", f"--{flag}")
        ontology = babi_ontology() if self.rules else b""
        if self.ontology:
            ontology = read_whole(as_path(self.ontology))
            read_ontology(ontology, self.ontology)
        knowledge = baselines.values_in(data.read_facts(self.match)) if self.match else {}
        card = data.Card(model=self.model_name, ontology=ontology.decode("utf-8-sig"), knowledge=knowledge)
        return {"rules": PUBLISHED} if self.rules else {}, card


class Net(configs.BabiConfig, family.TrainNet):
    """Supervised embeddings or a memory network.

    Attributes:
      table: Bordes et al. 2017, appendix C: the options of each column, and the row of each task.
    """

    learner_class = "babi.nets:BabiLearner"
    table: ClassVar[tuple[tuple[str, ...], dict[str, tuple[str | int | float, ...]]]]

    @classmethod
    def preset_row(cls, given: Mapping[str, Any]) -> family.Preset:
        """Returns the table's row of the task. Raises InputError if neither option nor file names tell the task."""
        from parapet.evaluation.models.babi.data import task_of

        columns, rows = cls.table
        task = given.get("task") or task_of([*given.get("train", ()), *given.get("dev", ())])
        if task not in rows:
            raise InputError(f"has settings for the tasks {', '.join(rows)}: give --task", "--preset")
        return {"task": task, **dict(zip(columns, rows[task], strict=True))}

    def data(self, *_: Any) -> tuple[list[Any], family.Inputs]:
        """Reads the training data. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.babi.data import read_corpus

        return [read_corpus(self.train, self.dev, self.candidates, self.match)], input_paths(self)


_SGD: family.Preset = {"optimiser": "sgd", "batch_size": 1, "epochs": 50, "patience": 10}


class Embeddings(configs.EmbeddingsConfig, Net):
    """Supervised embeddings."""

    description = "Supervised embeddings of the dialogue and of each candidate (section 4.3)."
    example = f"  parapet train embeddings --train {_FILES} --output my_model"
    preset: str | None = family.preset(table8={**_SGD, "initial": 0.01, "share": "auto"})
    table = (
        ("learning_rate", "margin", "size", "negatives", "input"),
        {
            "1": (0.01, 0.01, 32, 100, "history"),
            "2": (0.01, 0.01, 128, 100, "last"),
            "3": (0.01, 0.1, 128, 1000, "last"),
            "4": (0.001, 0.1, 128, 1000, "last"),
            "5": (0.01, 0.01, 32, 100, "history"),
            "6": (0.001, 0.01, 128, 100, "last"),
            "concierge": (0.001, 0.1, 64, 100, "last"),
        },
    )


class MemN2N(configs.MemN2NConfig, Net):
    """A memory network."""

    description = "A memory network over the dialogue, a softmax over all candidates (section 4.4)."
    example = f"  parapet train memn2n --train {_FILES} \\\n    --match babi/kb-all.txt --output my_model"
    preset: str | None = family.preset(table9={**_SGD, "initial": 0.1, "time": "index", "memory": 1000})
    table = (
        ("learning_rate", "margin", "size", "negatives", "hops"),
        {
            "1": (0.01, 0.1, 128, 100, 1),
            "2": (0.01, 0.1, 32, 100, 1),
            "3": (0.01, 0.1, 32, 100, 3),
            "4": (0.01, 0.1, 128, 100, 2),
            "5": (0.01, 0.1, 32, 100, 3),
            "6": (0.01, 0.1, 128, 100, 4),
            "concierge": (0.001, 0.1, 128, 100, 2),
        },
    )


class AnswerOptions(BabiOptions):
    """Dialogues to answer, and how many answers are written."""

    top: int = option(1, "write the K best answers at each turn", ge=1, metavar="K", group=OUTPUT)

    def files(self) -> tuple[BabiFile, ...]:
        """Lists the files of all sets. Raises InputError if one is missing."""
        from parapet.evaluation.models.babi.inference import BabiFile
        from parapet.evaluation.ranking import list_tests, stem_of
        from parapet.evaluation.sets import parse_sets

        return tuple(
            BabiFile(path, f"{PREDICTIONS}/{name}/{stem_of(path)}.jsonl", f"{ATTENTION}/{name}/{stem_of(path)}")
            for name, paths in list_tests(self.reference, parse_sets(self.sets)).items()
            for path in sorted(paths, key=stem_of)
        )


class PredictAnswers(AnswerOptions, family.PredictTrained):
    """A prediction of answers."""

    description = """\
Answers dialogues in the bAbI format, each turn from the reference's history: OUT/predictions/original/NAME.jsonl."""
    count_in, count_out, shown = "turns", "answers", ("answers", "answer")
    unit = "turns"
    warnings = WARNINGS
    batch_size: int = 256
    attention: int = 0

    def check(self) -> family.Prediction:
        """Checks the model and the files. Raises InputError if they cannot be used."""
        files = self.files()
        self.check_device()
        from parapet.evaluation.models.babi.data import task_of
        from parapet.evaluation.models.babi.inference import Job, load

        card, _ = load(self.model, self.model_name, self.device, self.batch_size)
        for file in files:
            task = task_of([file.path])
            if card.task and task and task != card.task:
                logging.warning("%s is for task %s, but the model was trained for task %s", file.path, task, card.task)
        return family.Prediction(
            self.job(Job, memory=card.settings.memory, inputs=files),
            self.header(
                {"attention": self.attention, "top": self.top},
                inputs=[family.named_digest(file.path) for file in files],
            ),
            {file.answers: file.answers for file in files},
        )


class PredictByMemory(PredictAnswers):
    """A prediction by a memory network, which can write what it attends to."""

    attention: int = option(
        0, "write attention in the first N dialogues of each file, with a page", ge=0, le=MOST_ATTENDED, group=OUTPUT
    )
