"""Turns a suite's file into a graph: the commands that its tables stand for, and what each command needs.

The step that builds a release reads a ``release.toml``, which is generated here from ``[release]`` and the suite's
outputs.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import msgspec

from parapet.pipelines.perturb import TOOLKITS
from parapet.pipelines.sets import of_run
from parapet.pipelines.suite.steps import (
    COMPARISON,
    RESULTS,
    SAMPLE,
    TASKS,
    Graph,
    LeftOut,
    Options,
    ScoredSet,
    Step,
    Value,
    entry_of,
    owner,
    place_of,
    references,
    unknown_key,
    without,
)
from parapet.pipelines.suite.suite_file import HEADS, NAME, NO_NAME, PARTS, SEED, SuiteFile
from parapet.schemas.errors import InputError
from parapet.schemas.release import NO_LICENCE, parse_config
from parapet.transforms.storage.toml import toml_of

RELEASE_CONFIG = "release.toml"
_SOURCES = ("path", "responses", "pivots")  # keys of [variants], of which exactly one is used
_ABOUT = {
    "compose": "The crowd's answers, vetted, ranked and composed into variants of the schemas",
    "back_translate": "Variants of the schemas: translated into each pivot language and back",
    "rewrite": "The dialogues under the names of each variant",
    "statistics": "How far the variants are from the original (SGD-X, Table 1)",
    COMPARISON: "All scores in one table",
    "release": "Everything as one versioned dataset",
}

# Perturbations whose own command has more flags than 'parapet perturb', above all those of engines.
_COMMANDS: dict[str, tuple[tuple[str, ...], Options]] = {
    "speech_errors": (("speech_errors",), {}),
    "ood": (("ood",), {}),
    "unseen_entities": (("unseen_entities",), {}),
    "paraphrase": (("language_variations",), {"kinds": "paraphrase", "env": "none"}),
}

# The keys of a system behind an endpoint that 'parapet predict llm' also has; tables of its further tasks inherit them.
_SAME = (
    *("endpoint", "model", "max_calls", "parallel_calls", "timeout", "cache"),
    *("temperature", "max_tokens", "extra_body", "insecure_key", "max_bad"),
)
_OF_ENDPOINT = {**{name: name for name in _SAME}, "api_key_env": "key_variable"}
# The command that predicts each task with a language model, and its additional keys.
_ASKED = {
    "dst": ("llm", ("style", "as_answered", "prompt")),
    "ood": ("llm_ood", ("domains", "prompt")),
    "generation": ("llm_utterances", ("prompt",)),
    "ranking": ("llm_babi", ("examples", "shots", "candidates", "top", "prompt")),
    "tool_calls": ("llm_tools", ("style", "prompt")),
}
_WITH_MODEL = ("dst", "tool_calls")  # tasks that accept a user's class
_REDUCED = ("evaluate", "predict")  # these steps still run if sets, variants or a classifier are left out

# Maps (perturbation, options) to the names of the sets that it makes, and whether each set has a folder.
SetsOf = Callable[[str, Options], tuple[Sequence[str], bool]]


def make_graph(
    suite: SuiteFile, sets_of: SetsOf, lacks: Callable[[Step], str], skipped: Callable[[str], bool] = lambda _: False
) -> Graph:
    """Makes the steps of a suite.

    Args:
      suite: the suite's file.
      sets_of: returns the sets that a perturbation makes with its options.
      lacks: describes what a step needs that is not installed; empty if nothing is missing.
      skipped: whether a step is to be left out.

    Raises:
      InputError: keys contradict each other, a name is used twice, or references are unknown or circular.
    """
    builder = _Builder(suite, sets_of, lacks, skipped)
    builder.variants()
    for level, add in (("sets", builder.set), ("steps", builder.step), ("systems", builder.system)):
        for i, entry in enumerate(getattr(suite, level)):
            add(dict(entry), f"{level}[{i}]")
    # Leaves out the steps that need a step that is left out. Systems are scored on the remaining sets, and the
    # comparison has the remaining systems.
    while sum(map(builder.drop, list(builder.steps.values()))):
        pass
    builder.comparison()
    builder.release()
    return builder.graph()


class _Builder:
    def __init__(
        self, suite: SuiteFile, sets_of: SetsOf, lacks: Callable[[Step], str], skipped: Callable[[str], bool]
    ) -> None:
        self.suite, self.sets_of, self.lacks, self.skipped, self.error = suite, sets_of, lacks, skipped, suite.error
        self.steps: dict[str, Step] = {}
        self.sets: list[ScoredSet] = []
        self.set_names: set[str] = set()
        self.systems: dict[str, list[str]] = {}  # system to the steps that score it
        self.left_out: list[LeftOut] = []
        self.rewritten, self.variant_names = False, list[str]()
        self.sgd, self.tasks = suite.corpus.sgd, suite.corpus.tasks
        self.aliases = {**suite.inputs, "corpus": self.sgd}

    # Tables of the file.

    def variants(self) -> None:
        if self.suite.variants is None:
            return
        entry, place = dict(self.suite.variants), "variants"
        (needs,) = self._texts(entry, place, "needs")
        source = self._exactly_one(entry, _SOURCES, place)
        rewriting = self._table(entry, "rewrite", place)
        root = "@compose" if source == "responses" else "@back_translate"
        if source == "path":
            root = str(self._expanded(entry.pop("path")))
            rewriting = {**entry, **rewriting}
            folder = self.suite.folder / root
            names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        elif source == "pivots":
            pivots = entry["pivots"]
            names = list(map(str, pivots if isinstance(pivots, list) else str(pivots).split(",")))
        else:
            names = [f"v{i}" for i in range(1, 6)]
        self.aliases["variants"], self.variant_names = root, names
        schemas: Options = {"schemas": self.tasks or self.sgd}
        if source != "path" and not self._add(root[1:], root[1:], {**schemas, **entry}, place, needs):
            return
        options: Options = {**({"tasks": [self.tasks]} if self.tasks else {"sgd": self.sgd}), "variants": root}
        self.rewritten = self._add("rewrite", "rewrite", {**options, **rewriting}, place, needs)
        if not self.tasks and "statistics" not in map(_step_name, self.suite.steps):
            self._add("statistics", "statistics", options, place, needs)

    def set(self, entry: Options, place: str) -> None:
        name, needs = self._texts(entry, place, "name", "needs")
        source = self._exactly_one(entry, ("perturbation", "path"), place)
        (chosen,) = self._texts(entry, place, source)
        name = name or chosen.rstrip("/").rpartition("/")[2]
        if source == "path":
            if entry:
                raise self.error(unknown_key(next(iter(entry)), ("path", "name", "needs")), place)
            root = str(self._expanded(chosen))
            if not self._is_missing(name, {"path": root}, place, needs):
                self._add_set(ScoredSet(name, root), place)
            return
        command, defaults = _COMMANDS.get(chosen, (("perturb", chosen), {}))
        corpus: Options = {"sgd": self.sgd, "split": list(self.suite.corpus.splits)}
        if self.tasks:
            command, defaults, corpus = ("perturb", chosen), {}, {"tasks": [self.tasks]}
        step, about = f"sets/{name}", f"Perturbation: {chosen}"
        if reason := self._impossible(chosen):
            self.left_out.append(LeftOut(step, place, reason, "tasks with other tools"))
            return
        if self._add(step, command, {**corpus, **defaults, **entry}, place, needs, about):
            try:
                sets, in_folders = self.sets_of(chosen, {**entry, **({"tasks": True} if self.tasks else {})})
            except InputError as error:
                raise self.error(str(error), f"{place} ({name})") from None
            for folder in sets:
                own_name = folder
                if name != chosen:
                    own_name = name + folder.removeprefix(chosen) if folder.startswith(chosen) else f"{name}-{folder}"
                self._add_set(ScoredSet(own_name, f"@{step}/{folder}" if in_folders else f"@{step}"), place)

    def _impossible(self, perturbation: str) -> str:
        """Returns why a perturbation of toolkits changes nothing in the user's tasks; empty if it changes some."""
        if perturbation not in TOOLKITS or not self.tasks or self.tasks.startswith(SAMPLE):
            return ""
        from parapet.transforms.perturbation.toolkits import Toolkits

        counts = (1,) if perturbation == "distractors" else ()
        return Toolkits(perturbation, counts).impossible(str(self.suite.folder / self.tasks))

    def _add_set(self, scored: ScoredSet, place: str) -> None:
        if scored.name in ("original", "v1", "v2", "v3", "v4", "v5"):
            reason = f"{scored.name!r} is the name of the original or of a variant: give this set another name"
            raise self.error(reason, f"{place}.name")
        if scored.name in self.set_names:
            raise self.error(f"another set is called {scored.name!r}: give this one another name", f"{place}.name")
        self.sets.append(scored)
        self.set_names.add(scored.name)

    def step(self, entry: Options, place: str) -> None:
        name = _step_name(entry)
        _, needs, pipeline, about = self._texts(entry, place, "name", "needs", "pipeline", "about")
        command = tuple(word for word in pipeline.split() if word != "--task")
        if not command:
            reason = "must be the command of a pipeline, such as 'few_shot' or 'train tiny_dst'"
            raise self.error(reason, f"{place}.pipeline")
        if command[0] in _REDUCED and entry.get("reference") == "@corpus":
            entry.setdefault("split", self.suite.corpus.scored)
        self._add(name, command, entry, place, needs, about)

    def system(self, entry: Options, place: str) -> None:
        name, needs = self._texts(entry, place, "name", "needs")
        if not name:
            raise self.error("give the system a name", f"{place}.name")
        if name in self.systems:
            raise self.error(f"another system is called {name!r}: give this one another name", f"{place}.name")
        tasks: dict[str, Any] = {task: entry.pop(task) for task in TASKS if isinstance(entry.get(task), dict)}
        sources = ("model", "predictions", "train", "endpoint")
        if any(key in entry for key in sources):
            shared = {key: entry[key] for key in (*_OF_ENDPOINT, "price") if "endpoint" in entry and key in entry}
            bare = [task for task in tasks if task in _ASKED and not any(key in tasks[task] for key in sources)]
            tasks = {
                "tool_calls" if self.tasks else "dst": entry,
                **tasks,
                **{task: {**shared, **tasks[task]} for task in bare},
            }
        elif entry:
            raise self.error(unknown_key(next(iter(entry)), (*sources, "name", "needs", *TASKS)), place)
        if not tasks:
            reason = "give model, predictions, train or endpoint, or a table of a task: response = {...}"
            raise self.error(reason, place)
        self.systems[name] = []
        for task, options in tasks.items():
            where = place if options is entry else f"{place}.{task}"
            step, about = f"scores/{name}/{task}", f"{name}: {task} scores"
            scored = self._scored(name, task, dict(options), where, needs)
            if scored is not None and self._add(step, ("evaluate", task), scored, where, needs, about):
                self.systems[name].append(step)

    def _scored(self, name: str, task: str, options: Options, place: str, needs: str) -> Options | None:
        """Returns the options of ``evaluate``; None if the system is left out."""
        sources = ("model", "predictions", "train") if task in _WITH_MODEL else ("predictions", "train")
        questions = self._of_endpoint(options, task, place) if "endpoint" in options and task in _ASKED else {}
        source = "" if questions else self._exactly_one(options, sources, place)
        corpus: Options = {}
        if task != "ranking":  # the options name its files, since bAbI has no corpus
            corpus = {"reference": self.sgd, "split": self.suite.corpus.scored}
            if self.tasks:
                corpus = {"reference": [self.tasks]}
            corpus |= {"variants": "@rewrite"} if self.rewritten else {}
            corpus |= {"sets": {scored.name: scored.root for scored in self.sets}} if self.sets else {}
        keys = (*corpus, *(key for key in ("reference", "split", "variants", "sets") if key not in corpus))
        corpus |= {key: options.pop(key) for key in keys if key in options}
        if task == "dst":
            options.setdefault("system", name)
        if source == "predictions" and not self.tasks:
            corpus = self._predicted(f"scores/{name}/{task}", str(options["predictions"]), corpus, place)
        if questions:
            predicted = f"predictions/{name}/{task}"
            commands = ("predict", _ASKED[task][0])
            if not self._add(predicted, commands, {**corpus, **questions}, place, needs, f"{name}: predictions"):
                return None
            options |= {key: questions[key] for key in ("candidates", "top") if key in questions}
            options["predictions"] = f"@{predicted}/predictions"
        if source == "train":
            train = self._table(options, "train", place)
            place = f"{place}.train"
            if not isinstance(model := train.pop("model", None), str):
                raise self.error('expected a table such as { model = "t5dst" }', place)
            predict = self._table(train, "predict", place)
            trained, predicted = f"models/{name}/{task}", f"predictions/{name}/{task}"
            options_of_training: Options = {"train": [self.sgd], **train}
            options_of_predict = {**corpus, "model": f"@{trained}", **predict}
            if not (
                self._add(trained, ("train", model), options_of_training, place, needs, f"{name}: trained")
                and self._add(predicted, ("predict", model), options_of_predict, place, needs, f"{name}: predictions")
            ):
                return None
            # soloist writes both, each to its own folder
            written = "responses" if task == "response" else "predictions"
            options["predictions"] = f"@{predicted}/{written}"
        return {**corpus, **options}

    def _of_endpoint(self, options: Options, task: str, place: str) -> Options:
        """Removes the options of ``predict llm`` and its siblings from a system's options, and returns them."""
        price = self._table(options, "price", place)
        flags = {**_OF_ENDPOINT, **{name: name for name in _ASKED[task][1]}}
        answers = {flag: options.pop(key) for key, flag in flags.items() if key in options}
        if price.keys() - {"input", "output"}:
            raise self.error(
                "expected price = { input = DOLLARS, output = DOLLARS }, in US dollars for a million tokens",
                f"{place}.price",
            )
        return {**answers, **({"price": f"{price.get('input', 0)},{price.get('output', 0)}"} if price else {})}

    def _predicted(self, step: str, predictions: str, corpus: Options, place: str) -> Options:
        """Returns the options of the corpus, without the sets that a folder has no predictions for."""
        from parapet.evaluation.sets import prediction_files

        folder = self.suite.folder / str(self._expanded(predictions))
        if not predictions or not folder.is_dir():
            return corpus
        folder = Path(of_run(str(folder), step.rpartition("/")[2]))

        def is_there(name: str) -> bool:
            try:
                return bool(prediction_files(str(folder), str(corpus["split"]), name))
            except InputError:
                return False

        corpus, lacking = dict(corpus), []
        if isinstance(sets := corpus.get("sets"), dict):
            lacking = [name for name in sets if not is_there(name)]
            corpus["sets"] = {name: root for name, root in sets.items() if name not in lacking}
        if "variants" in corpus and self.variant_names:
            predicted = [name for name in self.variant_names if is_there(name)]
            lacking += [name for name in self.variant_names if name not in predicted]
            if predicted:
                corpus["variant"] = ",".join(predicted)
            else:
                del corpus["variants"]
        if lacking:
            needs = f"predictions for these dialogues, as {predictions}/{lacking[0]}/dialogues_001.json"
            reason = f"{predictions} has none of {', '.join(lacking)}"
            self.left_out.append(LeftOut(f"{step}: {', '.join(lacking)}", place, reason, needs))
        return {key: value for key, value in corpus.items() if value != {}}

    def drop(self, step: Step) -> bool:
        """Leaves out a step that needs missing steps, or its options that do. Returns whether something changed."""
        lost = {name: entry for name in references(step.options) if (entry := self._left_out_of(name))}
        if not lost:
            return False
        reduced = without(step, lost)
        systems = reduced.options.get("systems") if reduced else None
        names = {str(system).partition("=")[0] for system in systems} if isinstance(systems, list | dict) else set()
        compares = len(names) > 1 and {step.options.get("baseline")} <= {None, *names}
        if reduced and (compares or step.pipeline in _REDUCED):
            self.steps[step.name] = reduced
            return True
        first = next(iter(lost.values()))
        reason = f"{entry_of(first.name)} is left out"
        self.left_out.append(LeftOut(step.name, step.place, reason, first.needs or step.needs))
        del self.steps[step.name]
        self.rewritten = self.rewritten and step.name != "rewrite"
        self.sets = [scored for scored in self.sets if not any(map(self._left_out_of, references(scored.root)))]
        self.systems = {name: [score for score in steps if score != step.name] for name, steps in self.systems.items()}
        return True

    def comparison(self) -> None:
        self.systems = {name: steps for name, steps in self.systems.items() if steps}
        scores: list[Value] = [f"{name}=@{step}" for name, steps in self.systems.items() for step in steps]
        if scores:
            # Shows dashes for sets on which only some systems were scored.
            self._add(COMPARISON, "compare", {"all": True, **self.suite.compare, "systems": scores}, "compare")

    def release(self) -> None:
        if self.suite.release is None:
            return
        sets = [("variants", "@rewrite")] if self.rewritten else []
        sets += [(scored.name, scored.root) for scored in self.sets]
        files = release_files(self.suite, sets, self.steps)
        names = [*references(self.suite.release), *(root[1:] for _, root in sets if root.startswith("@"))]
        names += [name for name in ("compose", "statistics") if name in self.steps]
        names = [name for name in names if name.partition("/")[0] not in HEADS]
        after = tuple(dict.fromkeys(self._steps_of(names, "release")))
        options: Options = {"config": f"@{RELEASE_CONFIG}"}
        reads = (self.tasks or self.sgd, [root for _, root in sets], self.suite.release, [f"@{name}" for name in after])
        self._add("release", ("release", "build"), options, "release", after=after, files=files, reads=reads)

    # Helpers of all tables.

    def _texts(self, options: Options, place: str, *keys: str) -> list[str]:
        """Removes texts from an entry and returns them; missing ones are empty.

        Raises InputError if a value is not text.
        """
        texts = []
        for key in keys:
            value = options.pop(key, "")
            if not isinstance(value, str):
                raise self.error(f"expected a text, found {value!r}", f"{place}.{key}")
            if key == "name" and value and not NAME.fullmatch(value):
                raise self.error(f"{value!r} {NO_NAME}", f"{place}.name")
            texts.append(value)
        return texts

    def _table(self, options: Options, key: str, place: str) -> Options:
        """Removes a table of options from an entry and returns it."""
        table = options.pop(key, {})
        if not isinstance(table, dict):
            example = 'such as { model = "t5dst" }' if key == "train" else f"with options of 'parapet {key}'"
            raise self.error(f"expected a table {example}", f"{place}.{key}")
        return dict(table)

    def _exactly_one(self, options: Options, keys: Sequence[str], place: str) -> str:
        """Returns the key that is used out of several; removes the other keys, which must be empty."""
        present = [key for key in keys if key in options]
        nonempty = [key for key in present if not self._is_empty(options[key])] or present[:1]
        if len(nonempty) != 1:
            names = f"found {' and '.join(nonempty)}" if nonempty else "found none of them"
            raise self.error(f"give exactly one of {', '.join(keys)}: {names}", place)
        for key in present:
            if key not in nonempty:
                del options[key]
        return nonempty[0]

    def _is_empty(self, value: Value) -> bool:
        """Whether a value is still to be filled in: an empty text, an empty input, or a table that contains one."""
        if isinstance(value, dict):
            return any(map(self._is_empty, value.values()))
        return value == "" or (isinstance(value, str) and self.suite.inputs.get(value[1:]) == "" and value[0] == "@")

    def _expanded(self, value: Value) -> Value:
        """Expands ``@corpus``, ``@variants`` and ``@INPUT`` in a value, and lists the files of paths with ``*``."""
        if isinstance(value, dict):
            # Drops paths with * that match no file; the table is empty if none matches.
            table = {}
            for key, item in value.items():
                expanded = self._expanded(item)
                if isinstance(item, str) and isinstance(expanded, list) and len(expanded) == 1:
                    expanded = expanded[0]
                if expanded != "" or "*" not in str(item):
                    table[key] = expanded
            return table if table or not value else ""
        if isinstance(value, list):
            parts: list[Value] = []
            for item in value:
                expanded = self._expanded(item)
                parts += expanded if isinstance(item, str) and isinstance(expanded, list) else [expanded]
            return parts
        if not isinstance(value, str):
            return value
        before, at, reference = value.rpartition("@")
        head, slash, rest = reference.partition("/")
        if not at or (before and before[-1] != "=") or head not in self.aliases:
            return value
        place = self.aliases[head]
        if not place:
            return ""
        path = f"{place.rstrip('/')}{slash}{rest}"
        if "*" not in rest:
            return f"{before}{path}"
        files = sorted(glob.glob(str(self.suite.folder / path)))
        return [f"{before}{file}" for file in files] if files else ""

    def _add(
        self,
        name: str,
        command: str | tuple[str, ...],
        options: Mapping[str, Value],
        place: str,
        needs: str = "",
        about: str = "",
        **others: Any,
    ) -> bool:
        """Adds a step, or records that it is left out and returns False. ``others`` are fields of the step."""
        if part := next((part for part in name.split("/") if not NAME.fullmatch(part)), None):
            raise self.error(f"{part!r} {NO_NAME}", f"{place}.name")
        if name.partition("/")[0] in RESULTS:
            raise self.error(f"{name!r} is a file of the suite itself: give it another name", f"{place}.name")
        if name in self.steps:
            raise self.error(f"another step is called {name!r}: give this one another name", f"{place}.name")
        step = Step(
            name=name,
            command=(command,) if isinstance(command, str) else command,
            options={key: self._expanded(value) for key, value in options.items()},
            place=place,
            about=about or _ABOUT.get(name, ""),
            needs=needs,
            **others,
        )
        if self.skipped(name):
            self.left_out.append(LeftOut(name, place, "--skip names it", ""))
        elif not self._is_missing(name, step.options, place, needs):
            lacking = self.lacks(step)
            if lacking and not needs:
                raise self.error(lacking, f"{place} ({name})")
            if not lacking:
                self.steps[name] = step
                return True
            self.left_out.append(LeftOut(name, place, lacking, needs))
        return False

    def _is_missing(self, name: str, options: Options, place: str, needs: str) -> bool:
        """Whether an option is empty and must still be filled in.

        Raises InputError unless ``needs`` allows to leave it out.
        """
        empty = next((key for key, value in options.items() if value in ("", [], [""])), None)
        if empty is None:
            return False
        if not needs:
            raise self.error("is empty: give it here or with --set", f"{place}.{empty}")
        self.left_out.append(LeftOut(name, place, f"{empty} is not given", needs))
        return True

    def _left_out_of(self, reference: str) -> LeftOut | None:
        """Returns the left-out entry that would write what a reference names, if any."""
        if owner(reference, self.steps) is not None:
            return None
        return next((entry for entry in self.left_out if entry_of(entry.name) == entry_of(reference)), None)

    def _steps_of(self, names: Iterable[str], place: str) -> list[str]:
        """Returns the steps that write what references name, but for the sample. Raises InputError if there is none."""
        steps = []
        for name in names:
            step = owner(name, self.steps)
            if step is not None:
                steps.append(step)
            elif name.partition("/")[0] != SAMPLE[1:]:
                raise self.error(f"@{name}: {unknown_key(name.partition('/')[0], list(self.steps), 'step')}", place)
        return steps

    def graph(self) -> Graph:
        empty = [name for name, path in self.suite.inputs.items() if not path]
        if not self.steps and empty:
            reason = f"is empty: give it here, or --set inputs.{empty[0]}=PATH"
            raise self.error(reason, f"inputs.{empty[0]}")
        if not self.steps and self.left_out:
            first = self.left_out[0]
            raise self.error(f"everything is left out: {first.reason}. {first.needs}".rstrip(" ."), first.place)
        needs: dict[str, frozenset[str]] = {}
        for step in self.steps.values():
            names = [name for name in references(step.options) if name not in step.files]
            needs[step.name] = frozenset([*step.after, *self._steps_of(names, f"{step.place} ({step.name})")])
        for scored in self.sets:
            self._steps_of(references(scored.root), f"sets ({scored.name})")
        try:
            order = list(TopologicalSorter({name: sorted(names) for name, names in needs.items()}).static_order())
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            place = self.steps[error.args[1][0]].place
            raise self.error(f"these steps depend on each other in a circle: {circle}", place) from None
        self._check_tables()
        steps, systems = {name: self.steps[name] for name in order}, list(self.systems)
        return Graph(
            steps=steps,
            needs=needs,
            sets=self.sets,
            systems=systems,
            left_out=self.left_out,
            variants=self.variant_names,
        )

    def _check_tables(self) -> None:
        """Raises InputError if a table refers to a step that does not exist."""
        for i, table in enumerate(self.suite.tables):
            for j, row in enumerate(table.rows):
                for key in ("ours", "relative_to"):
                    for pointer in filter(None, getattr(row, key)):
                        for seed in self.suite.seeds if SEED in pointer else self.suite.seeds[:1]:
                            name = pointer.replace(SEED, seed)[1:].partition("#")[0]
                            if not row.needs and not self._left_out_of(name):
                                self._steps_of([name], f"tables[{i}].rows[{j}].{key}")


def _step_name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or str(entry.get("pipeline", "")).partition(" ")[0])


LICENCE_FILE = "release_licence.txt"
# The licence text of a release without a licence, so that nobody takes its absence for a permission.
_NO_LICENCE_TEXT = (
    "No licence was given for this dataset. It is made from another corpus, whose terms apply: do not publish it\n"
    'before you have named a licence in the file of the suite ([release] licence = "...") and built it again.\n'
)


def release_files(suite: SuiteFile, sets: Iterable[tuple[str, str]], steps: Collection[str]) -> dict[str, str]:
    """Makes ``release.toml``, and the licence's text if no licence is given, as path to content.

    Args:
      suite: the suite's file.
      sets: name to folder of the released sets other than the original; ``@STEP/path`` is relative to ``release.toml``.
      steps: the suite's steps; the audit of compose and the statistics are released, too.

    Raises:
      InputError: ``[release]`` has no name or version, or a value that ``release.toml`` does not allow.
    """
    keys, tasks = dict(suite.release or {}), suite.corpus.tasks
    for key in ("name", "version"):
        if not keys.get(key):
            raise suite.error(f"give the release a {key}", f"release.{key}")
    files = {}
    if not keys.get("licence") and (tasks or suite.corpus.sgd).startswith(SAMPLE):
        keys["licence"] = "CC0-1.0"
    if not keys.get("licence"):
        keys |= {"licence": NO_LICENCE, "licence_file": LICENCE_FILE}
        files[LICENCE_FILE] = _NO_LICENCE_TEXT
    elif text := keys.get("licence_file"):
        keys["licence_file"] = _from_release(suite, str(text), "licence_file")
    keys.setdefault("description", suite.description or f"Robustness sets of the suite {suite.title}.")
    keys.setdefault("authors", [{"name": "Unnamed"}])
    corpora = [{"path": tasks or suite.corpus.sgd, "name": "original", "kind": "original"}]
    for name, root in sets:
        named = {"name": re.sub(r"[^A-Za-z0-9_\-]", "_", name), "kind": "robustness set"}
        corpora.append({"path": root, **({"kind": "variants"} if name == "variants" else named)})
    own = {"tasks" if tasks else "corpora": corpora}
    if "compose" in steps:
        own["audits"] = [{"path": "@compose"}]
    if "statistics" in steps:
        own["statistics"] = [{"path": "@statistics", "name": "table_1"}]
    for key in PARTS:
        entries = [*own.get(key, []), *keys.get(key, [])]
        if not all(isinstance(entry, dict) and isinstance(entry.get("path"), str) for entry in entries):
            raise suite.error("expected tables with a path", f"release.{key}")
        if entries:
            places = [_from_release(suite, entry["path"], f"{key}[{i}].path") for i, entry in enumerate(entries)]
            keys[key] = [{**entry, "path": place} for entry, place in zip(entries, places, strict=True)]
    text = toml_of(msgspec.to_builtins(keys))
    try:
        parse_config(text, suite.path)
    except InputError as error:
        raise suite.error(error.reason, f"release.{error.where}") from None
    return {"release.toml": text, **files}


def _from_release(suite: SuiteFile, path: str, where: str) -> str:
    """Returns a path relative to ``release.toml``, which lies in the output folder.

    Raises InputError if it is missing.
    """
    if path.startswith("@"):
        return place_of(path[1:], Path())
    if "://" in path:
        return path
    place = (suite.folder / path).absolute()
    if not place.exists():
        raise suite.error(f"{path}: there is no such file or folder", f"release.{where}")
    return str(place)
