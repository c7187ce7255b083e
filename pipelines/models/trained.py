"""The models that ``parapet train`` makes: trackers of states, generators, a classifier, whole systems, bAbI."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from parapet.evaluation.models import configs
from parapet.pipelines import command, corpora
from parapet.pipelines.app import Option, input_paths
from parapet.pipelines.models import family
from parapet.schemas import layout, limits
from parapet.schemas.errors import InputError
from parapet.transforms.core import options
from parapet.transforms.core.options import OUTPUT, REQUIRED, folder, option

if TYPE_CHECKING:
    from parapet.evaluation.models.babi import BabiFile, Card
    from parapet.evaluation.models.generation import Reranker


TRACKER_WARNINGS = {
    "too_long": ("input", "{n} longer than the model's --max_length: the oldest part of the dialogue was cut off")
}


class TrainTracker(family.TrainOnCorpora):
    """A training of a model of dialogue states."""

    def data(self, *checkpoint: Any) -> tuple[list[Any], family.Inputs]:
        """Reads the frames of the corpora."""
        from parapet.evaluation.models.dst import Openings, read_labels

        train, dev, inputs = self.read_sets(read_labels, Openings())
        return [*checkpoint, train, dev], inputs


class T5Dst(configs.T5DstConfig, TrainTracker):
    """A T5 that is prompted for one slot at a time."""

    learner_class = "t5dst:T5Learner"
    description = """\
Fine-tunes a T5 that is prompted for one slot of a service at a time (Lee, Cheng and Ostendorf 2021)."""
    example = family.FINE_TUNING
    packages = ("transformers", "sentencepiece")
    # Lee et al. 2022, Appendix A; what it does not specify follows the code of Lee, Cheng and Ostendorf.
    preset: str | None = family.preset(
        sgdx={
            "steps": 50_000,
            "batch_size": 16,
            "learning_rate": 1e-4,
            "schedule": "constant",
            "warmup": 0,
            "clip": 1,
            "keep": "last",
            "max_length": 512,
            "max_output": 256,
            "prompts": "slots",
            "answers": "raw",
            "equal_values": "random",
            "negatives": 1,
        }
    )


class SgpDst(configs.SgpDstConfig, TrainTracker):
    """Four BERT encoders and the rules that combine them."""

    learner_class = "sgp_dst:SgpLearner"
    description = "Fine-tunes four BERT encoders, which rules combine (Ruan et al. 2020)."
    example = family.FINE_TUNING
    # Appendix A of SGD-X, besides the defaults, which are the paper's, too. It does not specify how many inputs without
    # an answer are used; this follows the authors' code.
    preset: str | None = family.preset(
        sgdx={
            "epochs": 1,
            "module_epochs": "combine=3",
            "module_warmup": "copy_slot=0.7",
            "negatives": 0.3,
            "module_negatives": "copy_slot=0.1,cross_copy=0.01",
            "keep": "last",
        }
    )


class SgdBaseline(configs.SgdBaselineConfig, TrainTracker):
    """A BERT encoder with small heads that compare a turn with the schema."""

    learner_class = "sgd_baseline:BaselineLearner"
    description = """\
Fine-tunes a BERT encoder of the last two utterances, with small heads that compare them with fixed vectors of the
schema's elements (Rastogi et al. 2020)."""
    example = family.FINE_TUNING
    # The defaults are those of SGD-X (Appendix A of its earlier version), too: batches of 32, a learning rate of 1e-4,
    # five epochs. What it does not specify follows the authors' code.
    preset: str | None = family.preset(sgdx={"keep": "last"})


class PredictStates(corpora.SetOptions, family.PredictDialogues):
    """A prediction of dialogue states."""

    description = """\
Writes dialogues with predicted states: OUT/predictions/original, OUT/predictions/v1, ..., in the SGD format."""
    count_out, shown = "predicted", ("predicted", "frame")
    warnings = TRACKER_WARNINGS

    def check(self) -> family.Prediction:
        """Checks the model and the sets. Raises InputError if they cannot be used."""
        self.check_device()
        from parapet.evaluation.models.dst import Job
        from parapet.evaluation.models.saving import module_of

        module_of(self.model_name).check(self.model)
        return self.prediction(Job, self.sources())


# SGSAcc (Chen, Lin and Byrne 2023), Appendix E. The dev set neither chooses an epoch nor stops the training.
SGSACC: family.Preset = {
    "epochs": 3,
    "batch_size": 8,
    "learning_rate": 1e-4,
    "schedule": "constant",
    "warmup": 0.0,
    "keep": "last",
}
GENERATOR_WARNINGS = {
    "without_acts": ("turn", "{n} without an act: the utterance is empty"),
    "cut_templates": ("turn", "{n} with more than --max_input tokens of templates: the beginning was cut off"),
    "without_template": ("turn", "{n} with an act that has no template: it has a sentence in the schema's words"),
    "without_end": ("turn", "{n} with an utterance that did not end within --max_output tokens"),
}


class Generation(configs.GenerationConfig, family.TrainOnCorpora):
    """A T5 that is fine-tuned to generate system utterances."""

    learner_class = "generation_t5:GenerationLearner"
    description = """\
Fine-tunes a T5 to express the acts of a system turn. Its input is a short sentence for each act, built from the
schema's words, as in T2G2 (Kale and Rastogi 2020)."""
    example = family.FINE_TUNING
    preset: str | None = family.preset(sgsacc=SGSACC)

    def data(self, *checkpoint: Any) -> tuple[list[Any], family.Inputs]:
        """Reads system turns and templates. Raises InputError for files that cannot be used."""
        from parapet.evaluation.generation.corpus import read_templates
        from parapet.evaluation.models.generation import read_examples

        templates, files = read_templates(self.templates) if self.templates else ({}, [])
        read = partial(read_examples, templates=templates)
        train, dev, inputs = self.read_sets(read, lambda example: example.opening)
        inputs += [("templates", str(path)) for path in files]
        return [*checkpoint, train, dev, templates], inputs


class Prefixes(Generation):
    """Prefixes for a frozen T5."""

    description = """\
Prefix-tunes a frozen T5 (Li and Liang 2021) to express the acts of a system turn. Its input is that of ft_t5."""
    model: str = "pt_t5"
    epochs: int | None = 40
    patience: int | None = 5
    learning_rate: float = 0.001
    prefix_length: int = option(10, "positions of a prefix", ge=1)
    prefix_embedding: int = option(
        512, "size of the embedding of each position, which an MLP turns into keys and values", rare=True, ge=1
    )
    prefix_size: int = option(384, "size of the hidden layer of the MLPs", rare=True, ge=1)
    preset: str | None = family.preset(
        sgsacc={**SGSACC, "prefix_length": 10, "prefix_embedding": 512, "prefix_size": 384}
    )


class PredictUtterances(corpora.SetOptions, family.PredictTrained):
    """A prediction of utterances."""

    description = """\
Writes an utterance for the acts of each system turn: OUT/predictions/original/SPLIT/utterances.jsonl."""
    variants_text = options.SCHEMA_VARIANTS
    sets_text = "other corpora: entities=unseen"
    count_in, count_out, shown = "turns", "said", ("said", "turn")
    warnings = GENERATOR_WARNINGS
    unit = "turns"
    batch_size: int = 32
    checkpoint: str | None = None
    templates: str | None = folder(
        f"{configs.TEMPLATES} (default: those that the model was trained with)", default=None
    )
    beams: int | None = option(
        None, "beams of the search (default: as many as candidates)", rare=True, ge=1, group="search"
    )
    candidates: int = option(0, "also write the N best, with their scores", ge=0, group="search")
    rerank: Literal["lexical", "nli"] | None = option(
        None, "choose the candidate that expresses the most acts", group="search"
    )
    nli_model: str | None = option(
        None, "model of --rerank nli, such as roberta-large-mnli", metavar="DIR", group="search", path=True
    )
    also: list[str] = folder(
        "with --rerank: predictions of other models, whose candidates are added", default=[], group="search", rare=True
    )

    def check(self) -> family.Prediction:
        """Checks the model, the sets and the scorer. Raises InputError if they cannot be used."""
        sources = self.sources()
        if self.beams is not None and self.beams < self.candidates:
            raise InputError(f"must be at least as many as --candidates, {self.candidates}", "--beams")
        self.check_device("transformers")
        from parapet.evaluation.generation.corpus import read_templates
        from parapet.evaluation.models import generation
        from parapet.evaluation.models.generation_t5 import check

        card, _ = check(self.model, self.model_name, self.checkpoint)
        templates, files = read_templates(self.templates) if self.templates else (card.templates, [])
        sets, split = tuple(generation.sources(sources, templates)), sources.split
        paths = {generation.relative_of(source.name, split): source.name for source in sets}
        reranker = self.reranker(paths) if self.rerank else None
        candidates = max(1, self.candidates) if reranker else self.candidates
        search = generation.Search(self.batch_size, self.beams or max(1, candidates), candidates)
        scorer = reranker and generation.scorer_of(reranker.scorer, reranker.folder, reranker.batch_size).model
        recorded = {"split": split, "sets": list(paths.values()), "beams": search.beams, "candidates": candidates}
        others = [(name, f"{place}/{path}") for place in self.also * bool(reranker) for path, name in paths.items()]
        header = self.header(
            {**recorded, "rerank": scorer},
            also=[{"set": name, "sha256": family.named_digest(path)["sha256"]} for name, path in others],
            templates=[family.named_digest(str(path)) for path in files],
            inputs=[
                {"set": source.name, **family.named_digest(file.path), "name": file.relative}
                for source in sets
                for file in source.files
            ],
        )
        job = self.job(generation.Job, search=search, sets=sets, split=split, reranker=reranker)
        return family.Prediction(job, header, paths)

    def reranker(self, files: Iterable[str]) -> Reranker:
        """Returns what chooses among candidates. Raises InputError if it cannot."""
        from parapet.evaluation.models.generation import Reranker

        if self.rerank == "nli" and self.nli_model is None:
            raise InputError("is required: give a folder with a model", "--nli_model")
        if self.candidates < 2 and not self.also:
            raise InputError("has nothing to choose from: give --candidates 2 or more, or --also", "--rerank")
        for path in (layout.as_path(place) / file for place in self.also for file in files):
            if not layout.is_there(path):
                raise InputError("there is no such file: a set has no predictions", path, "--also")
        return Reranker(self.rerank or "", self.nli_model or "", self.batch_size, tuple(self.also))


class PredictByPrefixes(PredictUtterances):
    """A prediction by prefixes, which need the T5 that they were trained with."""

    checkpoint: str = configs.checkpoint("T5 that the model was trained with")


FROM_SCRATCH = {"learning_rate": 0.01, "schedule": "constant", "warmup": 0.0, "clip": 0.0}
FINE_TUNED = {"learning_rate": 5e-5, "schedule": "linear", "warmup": 0.06, "clip": 1.0}
CLASSIFIER_WARNINGS = {
    "too_long": ("utterance", "{n} longer than the model's --max_length: the beginnings were cut off")
}


class Classifier(configs.ClassifierConfig, family.TrainNet):
    """A net trained from scratch, or a fine-tuned checkpoint."""

    learner_class = "classifier:ClassifierLearner"
    description = """\
Trains a classifier of user turns, by intent or by whether they are out of domain: a fine-tuned BERT
or RoBERTa, or from scratch on hashed words and character n-grams, in seconds."""
    # These defaults depend on --checkpoint, so the help shows none.
    schedule: configs.Schedule = None  # type: ignore[assignment]
    warmup: float = None  # type: ignore[assignment]
    clip: float = None  # type: ignore[assignment]

    @classmethod
    def defaults(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Adds defaults for a checkpoint, or for a net from scratch."""
        return super().defaults(given) | (FINE_TUNED if given.get("checkpoint") else FROM_SCRATCH)

    def data(self, *checkpoint: Any) -> tuple[list[Any], family.Inputs]:
        """Reads labelled turns. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.classifier import read_training

        corpus = read_training(self, self.train or [str(layout.sample_root())])
        return [corpus, *checkpoint], corpus.files


class PredictTurns(corpora.SetOptions, family.PredictTrained):
    """A prediction of intents or out-of-domain scores."""

    reference_text = "corpus, output of 'ood', or JSON lines with utterance (default: the bundled sample)"
    description = """\
Predicts intents or out-of-domain scores of user turns: OUT/predictions/original/SPLIT/intent.jsonl or ood.jsonl."""
    shown = ("answered", "turn")
    warnings = CLASSIFIER_WARNINGS
    unit = "utterances"
    batch_size: int = 256
    task: configs.Task | None = option(None, "what is predicted (default: what the model was trained for)")

    def check(self) -> family.Prediction:
        """Checks the model and the files. Raises InputError if they cannot be used."""
        sources = self.sources()
        self.check_device()
        from parapet.evaluation.models.classifier import load
        from parapet.evaluation.models.turns import Job, find

        card, _ = load(self.model, "cpu", self.batch_size)
        task = self.task or card.task
        if task not in ("ood", card.task):
            raise InputError(f"the model was trained for {card.task}, not for {task}", self.model, "--task")
        reference = find(sources, task)
        for remark in reference.remarks:
            logging.warning("%s", remark)
        job = self.job(Job, task=task, threshold=card.threshold, reference=reference)
        header = self.header({"task": task, "split": sources.split, "threshold": card.threshold})
        if task == "ood" and card.threshold is None:
            logging.info("scores without decisions: the model was trained without --foreign, and has no threshold")
        return family.Prediction(job, header, {job.place: ""})


SYSTEM_WARNINGS = {
    "too_long": ("turn", "{n} with more history than the model reads: the oldest part was cut off"),
    "unknown_slots": ("slot", "the model named {n} that the schema does not have; they were left out"),
}


class TrainSystem(configs.SystemTraining, family.TrainOnCorpora):
    """A training of a whole system."""

    def data(self, *checkpoint: Any) -> tuple[list[Any], family.Inputs]:
        """Reads the user turns of the corpora."""
        from parapet.evaluation.models.systems import read_steps

        read = partial(read_steps, knowledge_base=self.knowledge_base)
        train, dev, inputs = self.read_sets(read, lambda step: step.dialogue_id)
        return [*checkpoint, train, dev], inputs


# The settings of SOLOIST's training scripts.
SCRIPTS: family.Preset = {
    "learning_rate": 5e-5,
    "schedule": "linear",
    "warmup": 0,
    "weight_decay": 0,
    "keep": "last",
    "consistency": 0.33,
}


class Soloist(configs.SoloistConfig, TrainSystem):
    """SOLOIST, a fine-tuned language model."""

    learner_class = "soloist:SoloistLearner"
    description = """\
Fine-tunes a GPT-2 to write a dialogue's belief state and, after the database's result, the delexicalised response
(Peng et al. 2021, SOLOIST)."""
    example = family.FINE_TUNING
    # RADDLE (Peng et al. 2021), section 5, trains GPT-2 and SOLOIST alike: Adam from 5e-5, batches of one, 20 epochs.
    # What it does not specify follows SOLOIST's scripts, and so does the pre-training.
    preset: str | None = family.preset(
        raddle={"epochs": 20, "batch_size": 1, **SCRIPTS}, soloist={"steps": 500_000, "batch_size": 20, **SCRIPTS}
    )


# config.py of the authors' code, without data augmentation, as in its README.
AUTHORS: family.Preset = {
    "epochs": 100,
    "patience": 5,
    "batch_size": 128,
    "learning_rate": 0.005,
    "schedule": "plateau",
    "clip": 5,
    "vocabulary": 3000,
    "embedding": 50,
    "hidden": 100,
}


class Damd(configs.DamdConfig, TrainSystem):
    """DAMD: GRUs trained from scratch."""

    learner_class = "damd:DamdLearner"
    description = """\
Trains DAMD (Zhang, Ou and Yu 2020) from scratch: GRUs that write belief states, acts and delexicalised responses, and
can copy unknown words."""
    # RADDLE's settings are for pre-trained models, so "raddle" uses the settings of DAMD's authors.
    preset: str | None = family.preset(raddle=AUTHORS, damd=AUTHORS)


class PredictSystem(corpora.SetOptions, family.PredictDialogues):
    """A prediction of belief states and responses."""

    description = """\
Predicts the belief state and the response after each user turn, from the reference's history: OUT/predictions, for
'parapet evaluate --task dst', and OUT/responses, delexicalised, for 'parapet evaluate --task response'."""
    shown = ("frames", "frame")
    warnings = SYSTEM_WARNINGS
    unit = "turns"
    batch_size: int = 16
    knowledge_base: str | None = configs.knowledge_base()

    def check(self) -> family.Prediction:
        """Checks the model and the sets. Raises InputError if they cannot be used."""
        self.check_device(*(("transformers",) if self.model_name == "soloist" else ()))
        from parapet.evaluation.models.saving import module_of
        from parapet.evaluation.models.systems import Job, read_source
        from parapet.evaluation.sets import open_reference

        module_of(self.model_name).check(self.model)
        sources = self.sources()
        corpus = str(open_reference(sources.reference)[0])
        read_source(corpus, sources.split, self.knowledge_base)
        return self.prediction(Job, sources, reference=corpus, split=sources.split)


PREDICTIONS, ATTENTION = "predictions", "attention"
MOST_ATTENDED = 64  # dialogues: a chunk of a prediction
BUILT_IN = "task6"  # rules that come with Parapet
PUBLISHED = "babi"  # patterns of tasks 1 to 5 that come with Parapet

ANSWER_WARNINGS = {
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
        from parapet.evaluation.models.babi import files_of
        from parapet.evaluation.models.babi_models import files_of_rules
        from parapet.evaluation.task import publish

        recorded, card = model
        publish(self.output, files_of(card) | files_of_rules(card), self.header(recorded, self.input_paths()))
        command.say(f"{self.model_name}: the model is in {self.output}")


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
        from parapet.evaluation.models import babi, babi_models

        texts = babi.read_candidates(self.candidates)
        knowledge = babi.read_knowledge(self.match, texts)
        train, dev = ([*chain(*map(babi.read_dialogues, paths))] for paths in (self.train, self.dev))
        idf = babi_models.idf_of(train, texts)
        history = self.input == "history"
        if dev and self.input is None:
            last, whole = (babi_models.TfIdf(texts, knowledge, idf, which) for which in (False, True))
            history = babi_models.share_right(whole, dev) > babi_models.share_right(last, dev)
        card = babi.Card(model=self.model_name, history=history, candidates=texts, knowledge=knowledge, idf=idf)
        return {"input": "history" if history else "last"}, card


class Nearest(TrainAtOnce):
    """The answer to the most similar utterance in the training set."""

    description = "Answers as the most similar utterance of the training set is answered (section 4.2)."
    example = "  parapet train nearest --train babi/task1-trn.txt --output my_model"
    train: list[str] = folder("dialogues in the bAbI format to train on", "FILE", REQUIRED)
    similarity: Literal["exact", "overlap"] = option("exact", "the same utterance, or the one that shares most words")

    def fit(self) -> Model:
        """Reads the dialogues."""
        from parapet.evaluation.models import babi, babi_models

        pairs, responses = babi_models.Nearest.learn(chain(*map(babi.read_dialogues, self.train)))
        task, similarity = babi.task_of(self.train), self.similarity
        card = babi.Card(model=self.model_name, task=task, pairs=pairs, candidates=responses, similarity=similarity)
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
        from parapet.evaluation.models import babi, babi_models
        from parapet.transforms.simulators.restaurants_simulation import babi_ontology, read_ontology

        if self.ontology and self.rules:
            raise InputError("give either --ontology or --rules", "--ontology")
        if rules := self.rules if self.rules != PUBLISHED else None:
            if not self.train or not self.match:
                reason = "requires --train and --match: patterns are extracted from the training set"
                raise InputError(reason, "--rules")
            script = babi_models.built_in_rules() if rules == BUILT_IN else limits.read_whole(layout.as_path(rules))
            card = babi_models.scripted_card(script, rules, self.train, self.dev, self.match, self.candidates)
            return {"rules": rules if rules == BUILT_IN else "a file"}, card
        for flag in ("train", "dev", "candidates"):
            if getattr(self, flag):
                raise InputError("requires --rules FILE or task6", f"--{flag}")
        ontology = babi_ontology() if self.rules else b""
        if self.ontology:
            ontology = limits.read_whole(layout.as_path(self.ontology))
            read_ontology(ontology, self.ontology)
        knowledge = babi_models.values_in(babi.read_facts(self.match)) if self.match else {}
        card = babi.Card(model=self.model_name, ontology=ontology.decode("utf-8-sig"), knowledge=knowledge)
        return {"rules": PUBLISHED} if self.rules else {}, card


class Net(configs.BabiConfig, family.TrainNet):
    """Supervised embeddings or a memory network.

    Attributes:
      table: Bordes et al. 2017, appendix C: the options of each column, and the row of each task.
    """

    learner_class = "babi_models:BabiLearner"
    table: ClassVar[tuple[tuple[str, ...], dict[str, tuple[str | int | float, ...]]]]

    @classmethod
    def preset_row(cls, given: Mapping[str, Any]) -> family.Preset:
        """Returns the table's row of the task. Raises InputError if neither option nor file names tell the task."""
        from parapet.evaluation.models.babi import task_of

        columns, rows = cls.table
        task = given.get("task") or task_of([*given.get("train", ()), *given.get("dev", ())])
        if task not in rows:
            raise InputError(f"has settings for the tasks {', '.join(rows)}: give --task", "--preset")
        return {"task": task, **dict(zip(columns, rows[task], strict=True))}

    def data(self, *_: Any) -> tuple[list[Any], family.Inputs]:
        """Reads the training data. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.babi import read_corpus

        return [read_corpus(self.train, self.dev, self.candidates, self.match)], input_paths(self)


_SGD: family.Preset = {"optimiser": "sgd", "batch_size": 1, "epochs": 50, "patience": 10}


class Embeddings(Net):
    """Supervised embeddings."""

    description = "Supervised embeddings of the dialogue and of each candidate (section 4.3)."
    example = f"  parapet train embeddings --train {_FILES} --output my_model"
    model: str = "embeddings"
    learning_rate: float = 0.001
    input: Literal["history", "last"] = option("history", "whole dialogue, or last utterance")
    negatives: int = 1000
    share: Literal["off", "on", "auto"] = option(
        "off", "same embeddings in dialogues and candidates (A = B); auto: what is better on dev", rare=True
    )
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


class MemN2N(Net):
    """A memory network."""

    description = "A memory network over the dialogue, a softmax over all candidates (section 4.4)."
    example = f"  parapet train memn2n --train {_FILES} \\\n    --match babi/kb-all.txt --output my_model"
    model: str = "memn2n"
    learning_rate: float = 0.003
    hops: int = option(1, "hops over the memory", ge=1)
    memory: int | None = option(256, "maximum number of lines of history", ge=1)
    time: Literal["back", "index"] = option(
        "back", "time features: lines back from the input, or the index of the line, as in the paper", rare=True
    )
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


class AnswerOptions(corpora.BabiOptions):
    """Dialogues to answer, and how many answers are written."""

    top: int = option(1, "write the K best answers at each turn", ge=1, metavar="K", group=OUTPUT)

    def files(self) -> tuple[BabiFile, ...]:
        """Lists the files of all sets. Raises InputError if one is missing."""
        from parapet.evaluation.models.babi import BabiFile
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
    warnings = ANSWER_WARNINGS
    batch_size: int = 256
    attention: int = 0

    def check(self) -> family.Prediction:
        """Checks the model and the files. Raises InputError if they cannot be used."""
        files = self.files()
        self.check_device()
        from parapet.evaluation.models.babi import Job, load, task_of

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
