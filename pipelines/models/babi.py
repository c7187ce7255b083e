"""The models of the bAbI dialog tasks: rules, TF-IDF, nearest neighbour, embeddings, memory networks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from parapet.evaluation.models import configs
from parapet.pipelines.app import Option, input_paths, read_config
from parapet.pipelines.models import family
from parapet.schemas.errors import InputError, parapet_version
from parapet.schemas.layout import as_path, is_there
from parapet.schemas.limits import read_whole

if TYPE_CHECKING:
    from parapet.evaluation.models.babi.data import Card
    from parapet.evaluation.models.training import Learner
    from parapet.pipelines.models.presets import Preset

PREDICTIONS, ATTENTION = "predictions", "attention"
BUILT_IN = "task6"  # rules that come with Parapet
PUBLISHED = "babi"  # patterns of tasks 1 to 5 that come with Parapet

WARNINGS = {
    "too_long": ("turn", "{n} with more history than --memory allows: the oldest lines were cut off"),
    "empty": ("turn", "no rule applied at {n}: the answer is empty"),
    "not_understood": ("turn", "{n} with words that the rules do not know: answered by the values in them"),
}

_FILES = "babi/task1-trn.txt --dev babi/task1-dev.txt --candidates babi/candidates.txt"


class Babi(family.Family):
    """A model of the bAbI dialog tasks."""

    prediction_config: type[configs.BabiPrediction] = configs.BabiPrediction
    sets = None
    predict_description = """\
Answers dialogues in the bAbI format, each turn from the reference's history: OUT/predictions/original/NAME.jsonl for
each NAME.txt, and so on for other sets, for 'parapet evaluate --task ranking'."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.predict_example = (
            f"  parapet predict {model} --model my_model --reference babi/task1-tst*.txt --output my_answers"
        )

    def without_epochs(
        self,
        args: argparse.Namespace,
        inputs: family.Inputs,
        card: Card,
        options: Mapping[str, Option],
        more: Mapping[str, bytes] = MappingProxyType({}),
    ) -> family.Training:
        """Makes the training of a model without epochs: its card, and perhaps further files."""
        from parapet.evaluation.models.babi.data import files_of

        files = {**files_of(card), **more}
        return family.Training(model=self.model, output=args.output, options=dict(options), inputs=inputs, files=files)

    def prediction(self, args: argparse.Namespace) -> family.Prediction:
        """Checks the model and the files. Raises InputError if they cannot be used."""
        from parapet.evaluation.ranking import list_tests, stem_of
        from parapet.evaluation.sets import parse_sets

        config = read_config(self.prediction_config, args)
        tests = list_tests(config.reference, parse_sets(config.sets))
        family.check_device(config.device)
        from parapet.evaluation.models.babi.data import task_of
        from parapet.evaluation.models.babi.inference import BabiFile, Job, load
        from parapet.evaluation.models.saving import MODEL, WEIGHTS

        card, _ = load(config.model, self.model, config.device, config.batch_size)
        for path in (path for paths in tests.values() for path in paths):
            task = task_of([path])
            if card.task and task and task != card.task and not config.any_task:
                reason = (
                    f"is for task {task}, but the model was trained for task {card.task}: add --any_task to "
                    "predict nevertheless"
                )
                raise InputError(reason, path)
        files = tuple(
            BabiFile(path, f"{PREDICTIONS}/{name}/{stem_of(path)}.jsonl", f"{ATTENTION}/{name}/{stem_of(path)}")
            for name, paths in tests.items()
            for path in sorted(paths, key=stem_of)
        )
        model = [as_path(config.model) / name for name in (MODEL, WEIGHTS)]
        options = {"attention": config.attention} if config.attention else {}
        options |= {"top": config.top} if config.top > 1 else {}
        header = {
            "pipeline": f"predict_{self.model}",
            "version": parapet_version(),
            "model": {path.name: family.named_digest(str(path))["sha256"] for path in model if path.is_file()},
            "inputs": [family.named_digest(file.path) for file in files],
            **({"options": options} if options else {}),
        }
        return family.Prediction(
            job=family.make_job(Job, config, self.model, memory=card.settings.get("memory"), inputs=files, **options),
            header=header,
            inputs=[("--model", config.model), *(("--reference", file.path) for file in files)],
            asked="turns",
            answered="answers",
            outputs=tuple(family.Output(file.answers, f"answers/{file.answers}", "answer") for file in files),
            warnings=WARNINGS,
            notes=(f"{args.output}/{ATTENTION}: a page and JSON lines a file",) if config.attention else (),
        )


class TfIdf(Babi):
    """The candidate closest to the dialogue by TF-IDF."""

    config = configs.TfIdfConfig
    description = (
        "Takes the candidate closest to the last utterance, or to the dialogue so far, by TF-IDF (section 4.2)."
    )
    example = f"  parapet train tfidf --train {_FILES} --match babi/kb-all.txt --output my_model"

    def training(self, args: argparse.Namespace) -> family.Training:
        """Reads the training files. Raises InputError if they cannot be used."""
        from parapet.evaluation.models.babi import data
        from parapet.evaluation.models.babi.data import Card
        from parapet.evaluation.models.saving import check_installed

        config = read_config(configs.TfIdfConfig, args)
        if config.dev and config.input:
            reason = "cannot be combined with --dev, which selects the input: leave one of them out"
            raise InputError(reason, "--dev")
        check_installed("torch")
        from parapet.evaluation.models.babi.baselines import Frequencies, share_right
        from parapet.evaluation.models.babi.baselines import TfIdf as Model

        texts = data.read_candidates(config.candidates)
        knowledge = data.read_knowledge(config.match, texts)
        train, dev = (
            [dialogue for path in paths for dialogue in data.read_dialogues(path)]
            for paths in (config.train, config.dev)
        )
        frequencies = Frequencies.of(train)
        history = config.input == "history"
        if dev:
            share = {which: share_right(Model(texts, knowledge, frequencies, which), dev) for which in (False, True)}
            history = share[True] > share[False]
        card = Card(
            model=self.model,
            history=history,
            candidates=texts,
            knowledge=knowledge,
            utterances=frequencies.utterances,
            having=frequencies.having,
        )
        return self.without_epochs(args, input_paths(config), card, {"input": "history" if history else "last"})


class Nearest(Babi):
    """The answer to the most similar utterance in the training set."""

    config = configs.NearestConfig
    description = "Answers as the most similar utterance of the training set is answered (section 4.2)."
    example = "  parapet train nearest --train babi/task1-trn.txt --output my_model"

    def training(self, args: argparse.Namespace) -> family.Training:
        """Reads the dialogues. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.babi import data
        from parapet.evaluation.models.babi.data import Card
        from parapet.evaluation.models.saving import check_installed

        config = read_config(configs.NearestConfig, args)
        check_installed("torch")  # the module of the baselines imports it
        from parapet.evaluation.models.babi.baselines import Nearest as Model

        pairs, responses = Model.learn(dialogue for path in config.train for dialogue in data.read_dialogues(path))
        task, similarity = data.task_of(config.train), config.similarity
        card = Card(model=self.model, task=task, pairs=pairs, candidates=responses, similarity=similarity)
        return self.without_epochs(args, input_paths(config), card, {"similarity": similarity})


class Rules(Babi):
    """Rules for tasks 1 to 5, from an ontology, or rules for task 6 from a file."""

    config = configs.RulesConfig
    description = """\
Rule-based systems. For tasks 1 to 5, a bot with the patterns of an ontology, by default the simulator's, or with those
of the published files (--rules babi); --match adds the values of a knowledge base, for turns that no pattern matches.
For task 6, rules from a file, with patterns from the training set, in the order that is best on dev."""
    example = """\
  parapet train rules --rules babi --match babi/kb-all.txt --output my_model
  parapet train rules --ontology hotels.toml --output my_model
  parapet train rules --rules task6 --train task6-trn.txt --dev task6-dev.txt --match task6-kb.txt --output my_model"""

    def training(self, args: argparse.Namespace) -> family.Training:
        """Reads an ontology or rules. Raises InputError if they cannot be used."""
        config = read_config(configs.RulesConfig, args)
        is_published = config.rules == PUBLISHED
        if (config.rules is None or is_published) and (config.train or config.dev or config.candidates):
            flag = "--train" if config.train else "--dev" if config.dev else "--candidates"
            raise InputError("requires --rules FILE or task6", flag)
        if config.ontology and config.rules:
            raise InputError("give either --ontology or --rules", "--ontology")
        inputs = input_paths(config)
        if config.rules is not None and not is_published:
            return self._scripted(args, config, inputs)
        from parapet.evaluation.models.babi.baselines import files_of_rules, values_in
        from parapet.evaluation.models.babi.data import Card, read_facts
        from parapet.transforms.simulators.restaurants.ontology import babi_ontology, read_ontology

        ontology = babi_ontology() if is_published else b""
        if config.ontology:
            ontology = _bytes(config.ontology)
            read_ontology(ontology, config.ontology)
        knowledge = values_in(read_facts(config.match)) if config.match else {}
        card = Card(model=self.model, ontology=ontology.decode("utf-8-sig"), knowledge=knowledge)
        options = {"rules": PUBLISHED} if is_published else {}
        return self.without_epochs(args, inputs, card, options, files_of_rules(card))

    def _scripted(
        self, args: argparse.Namespace, config: configs.RulesConfig, inputs: family.Inputs
    ) -> family.Training:
        """Makes the training with rules from a file."""
        from parapet.evaluation.models.babi.baselines import built_in_rules, files_of_script, scripted_card

        assert config.rules is not None
        is_built_in = config.rules == BUILT_IN
        if not is_built_in:
            inputs = [*inputs, ("rules", config.rules)]
        if not config.train or not config.match:
            raise InputError("requires --train and --match: patterns are extracted from the training set", "--rules")
        data = built_in_rules() if is_built_in else _bytes(config.rules)
        card = scripted_card(data, config.rules, config.train, config.dev, config.match, config.candidates)
        options = {"rules": config.rules if is_built_in else "a file"}
        return self.without_epochs(args, inputs, card, options, files_of_script(card))


def _bytes(path: str) -> bytes:
    if not is_there(path) or not as_path(path).is_file():
        raise InputError("there is no such file", path)
    return read_whole(as_path(path))


class Net(Babi):
    """Supervised embeddings or a memory network.

    Attributes:
      table: Bordes et al. 2017, appendix C: the flags of each column, and the row of each task.
    """

    config: type[configs.BabiConfig]
    learner_class = "babi.nets:BabiLearner"
    table: tuple[tuple[str, ...], dict[str, tuple[str | int | float, ...]]]

    def preset_row(self, args: argparse.Namespace) -> Preset:
        """Returns the table's row of the task. Raises InputError if neither flag nor file names tell the task."""
        from parapet.evaluation.models.babi.data import task_of

        columns, rows = self.table
        task = args.task or task_of([*args.train, *args.dev])
        if task not in rows:
            problem = (
                f"has no row for task {task}" if task else "requires a task, and the file names do not contain one"
            )
            raise InputError(f"{args.preset} {problem}: give --task", "--preset")
        return {"task": task, **dict(zip(columns, rows[task], strict=True))}

    def learner(self, config: configs.BabiConfig, *_: Any) -> tuple[Callable[[], Learner], family.Inputs]:
        """Reads the training data. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.babi.data import read_corpus

        corpus = read_corpus(config.train, config.dev, config.candidates, config.match)
        return partial(family.load_class(self.learner_class), config, corpus), input_paths(config)


_SGD: Preset = {"optimiser": "sgd", "batch_size": 1, "epochs": 50, "patience": 10}


class Embeddings(Net):
    """Supervised embeddings."""

    config = configs.EmbeddingsConfig
    description = "Supervised embeddings of the dialogue and of each candidate (section 4.3)."
    example = f"  parapet train embeddings --train {_FILES} --output my_model"
    presets: Mapping[str, Preset] = {"table8": {**_SGD, "initial": 0.01, "share": "auto"}}
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

    config = configs.MemN2NConfig
    prediction_config = configs.MemN2NPrediction
    description = "A memory network over the dialogue, a softmax over all candidates (section 4.4)."
    example = f"  parapet train memn2n --train {_FILES} \\\n    --match babi/kb-all.txt --output my_model"
    presets: Mapping[str, Preset] = {"table9": {**_SGD, "initial": 0.1, "time": "index", "memory": 1000}}
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
