"""Turns a suite's file into a graph: the commands that its tables stand for, and what each command needs.

The step that builds a release reads a ``release.toml``, which is generated here from ``[release]`` and the suite's
outputs.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import msgspec

from parapet.evaluation.sets import prediction_files
from parapet.pipelines import dispatch, endpoint_flags
from parapet.pipelines.app import flags_of
from parapet.pipelines.perturb import TOOLKITS
from parapet.pipelines.sets import of_run
from parapet.pipelines.suite import steps as suite_steps
from parapet.pipelines.suite.steps import SAMPLE, Graph, LeftOut, Options, Step, references, unknown_key
from parapet.pipelines.suite.suite_file import NAME, NO_NAME, PARTS, SEED, SuiteFile
from parapet.schemas.errors import InputError
from parapet.schemas.release import NO_LICENCE, parse_config
from parapet.transforms.storage.toml import toml_of

# Perturbations of corpora with a command of their own, and the options that it needs.
_COMMANDS: dict[str, tuple[tuple[str, ...], Options]] = {
    **{name: ((name,), {}) for name in ("speech_errors", "ood", "unseen_entities")},
    "paraphrase": (("language_variations",), {"kinds": "paraphrase", "env": "none"}),
}
_SOURCES = ("model", "predictions", "train", "endpoint")  # keys of a system, of which exactly one is used
_WITH_MODEL = ("dst", "tool_calls")  # tasks that accept a user's class
# The models of 'parapet predict' that stand for a language model, by task.
_ASKED = {
    "dst": "llm", "ood": "llm_ood", "generation": "llm_utterances", "ranking": "llm_babi", "tool_calls": "llm_tools"
}  # fmt: skip
# The keys of a language model that its tables of further tasks inherit.
_INHERITED = {*endpoint_flags.FLAGS, "model", "api_key_env", "parallel_calls", "timeout", "cache", "max_bad"}
_OF_SCORES_TOO = ("candidates", "top", "variant")  # options of 'predict' that 'evaluate' also needs
# ``@corpus/path`` or ``NAME=@corpus/path``, where the head is a name of the suite's.
_ALIAS = re.compile(r"(?P<name>(?:.*=)?)@(?P<head>[^/@]*)(?P<rest>(?:/.*)?)", re.DOTALL)
_REDUCED = ("evaluate", "predict")  # these steps still run if sets, variants or a classifier are left out

_LICENCE_FILE = "release_licence.txt"
# The licence text of a release without a licence, so that nobody takes its absence for a permission.
_NO_LICENCE_TEXT = (
    "No licence was given for this dataset. It is made from another corpus, whose terms apply: do not publish it\n"
    'before you have named a licence in the file of the suite ([release] licence = "...") and built it again.\n'
)


def make_graph(suite: SuiteFile, skipped: Callable[[str], bool] = lambda _: False) -> Graph:
    """Makes the steps of a suite.

    Args:
      suite: the suite's file.
      skipped: whether a step is to be left out.

    Raises:
      InputError: keys contradict each other, a name is used twice, or references are unknown or circular.
    """
    builder = _Builder(suite, skipped)
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
    def __init__(self, suite: SuiteFile, skipped: Callable[[str], bool]) -> None:
        self.suite, self.skipped, self.error = suite, skipped, suite.error
        self.steps: dict[str, Step] = {}
        self.sets: dict[str, str] = {}  # name to folder
        self.scores: dict[str, str] = {}  # the steps that score systems, with the names of these
        self.left_out: list[LeftOut] = []
        self.variant_names: list[str] = []
        self.sgd, self.tasks = suite.corpus.sgd, suite.corpus.tasks
        self.corpus: Options = {"tasks": [self.tasks]} if self.tasks else {"sgd": self.sgd}
        self.aliases = {**suite.inputs, "corpus": self.sgd}

    # Tables of the file.

    def variants(self) -> None:
        if self.suite.variants is None:
            return
        entry, place = dict(self.suite.variants), "variants"
        (needs,) = self._texts(entry, place, "needs")
        source = self._exactly_one(entry, ("path", "responses", "pivots"), place)
        rewriting = self._table(entry, "rewrite", place)
        if source == "path":
            root = str(self._expanded(entry.pop("path")))
            rewriting = {**entry, **rewriting}
            self.variant_names = sorted(path.name for path in (self.suite.folder / root).glob("*") if path.is_dir())
        else:
            making = "compose" if source == "responses" else "back_translate"
            root, pivots = f"@{making}", entry.get("pivots", "v1,v2,v3,v4,v5")
            self.variant_names = list(map(str, pivots if isinstance(pivots, list) else str(pivots).split(",")))
        self.aliases["variants"] = root
        schemas = {"schemas": self.tasks or self.sgd, **entry}
        if source != "path" and not self._add(making, (making,), schemas, place, needs):
            return
        options = {**self.corpus, "variants": root}
        self._add("rewrite", ("rewrite",), {**options, **rewriting}, place, needs)
        if not self.tasks and "statistics" not in map(_step_name, self.suite.steps):
            self._add("statistics", ("statistics",), options, place, needs)

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
                self._add_set(name, root, place)
            return
        command, defaults = _COMMANDS.get(chosen, (("perturb", chosen), {}))
        if self.tasks:
            command, defaults = ("perturb", chosen), {}
        else:
            defaults = {"split": list(self.suite.corpus.splits), **defaults}
        step = f"sets/{name}"
        if reason := self._impossible(chosen):
            self.left_out.append(LeftOut(step, reason, "tasks with other tools"))
        elif self._add(step, command, {**self.corpus, **defaults, **entry}, place, needs):
            try:
                folders, in_folders = suite_steps.sets_of(self.steps[step], chosen)
            except InputError as error:
                raise self.error(str(error), f"{place} ({name})") from None
            for folder in folders:
                own_name = folder
                if name != chosen:
                    own_name = name + folder.removeprefix(chosen) if folder.startswith(chosen) else f"{name}-{folder}"
                self._add_set(own_name, f"@{step}/{folder}" if in_folders else f"@{step}", place)

    def _impossible(self, perturbation: str) -> str:
        """Returns why a perturbation of toolkits changes nothing in the user's tasks; empty if it changes some."""
        if perturbation not in TOOLKITS or not self.tasks or self.tasks.startswith(SAMPLE):
            return ""
        from parapet.transforms.perturbation.toolkits import Toolkits

        counts = (1,) if perturbation == "distractors" else ()
        return Toolkits(perturbation, counts).impossible(str(self.suite.folder / self.tasks))

    def _add_set(self, name: str, root: str, place: str) -> None:
        if name in ("original", "v1", "v2", "v3", "v4", "v5"):
            reason = f"{name!r} is the name of the original or of a variant: give this set another name"
            raise self.error(reason, f"{place}.name")
        if name in self.sets:
            raise self.error(f"another set is called {name!r}: give this one another name", f"{place}.name")
        self.sets[name] = root

    def step(self, entry: Options, place: str) -> None:
        name = _step_name(entry)
        _, needs, pipeline, about = self._texts(entry, place, "name", "needs", "pipeline", "about")
        command = tuple(word for word in pipeline.split() if word != "--task")
        if not command:
            reason = "must be the command of a pipeline, such as 'few_shot' or 'train tiny_dst'"
            raise self.error(reason, f"{place}.pipeline")
        if command[0] in _REDUCED and entry.get("reference") == "@corpus":
            entry.setdefault("split", self.suite.corpus.scored)
        self._add(name, command, entry, place, needs, about=about)

    def system(self, entry: Options, place: str) -> None:
        name, needs = self._texts(entry, place, "name", "needs")
        if not name:
            raise self.error("give the system a name", f"{place}.name")
        tasks: dict[str, Any] = {
            task: dict(entry.pop(task)) for task in suite_steps.TASKS if isinstance(entry.get(task), dict)
        }
        if not entry.keys().isdisjoint(_SOURCES):
            shared = {key: entry[key] for key in entry if "endpoint" in entry and key in _INHERITED}
            for task in tasks.keys() & _ASKED.keys():
                if tasks[task].keys().isdisjoint(_SOURCES):
                    tasks[task] = shared | tasks[task]
            tasks = {"tool_calls" if self.tasks else "dst": entry, **tasks}
        elif entry:
            raise self.error(unknown_key(next(iter(entry)), (*_SOURCES, "name", "needs", *suite_steps.TASKS)), place)
        if not tasks:
            reason = "give model, predictions, train or endpoint, or a table of a task: response = {...}"
            raise self.error(reason, place)
        for task, options in tasks.items():
            where = place if options is entry else f"{place}.{task}"
            step = f"scores/{name}/{task}"
            scored = self._scored(name, task, options, where, needs)
            if scored and self._add(step, ("evaluate", task), scored, where, needs):
                self.scores[step] = name

    def _scored(self, name: str, task: str, options: Options, place: str, needs: str) -> Options | None:
        """Returns the options of ``evaluate``, and adds the steps that predict; None if they are left out."""
        source = "endpoint"
        if "endpoint" not in options or task not in _ASKED:
            source = self._exactly_one(options, _SOURCES[task not in _WITH_MODEL : 3], place)
        corpus: Options = {}
        if task != "ranking":  # the options name its files, since bAbI has no corpus
            split = {} if self.tasks else {"split": self.suite.corpus.scored}
            corpus = {"reference": self.corpus.get("tasks", self.sgd), **split}
            corpus |= {"variants": "@rewrite"} if self.is_rewritten else {}
            corpus |= {"sets": dict(self.sets)} if self.sets else {}
        corpus |= {key: options.pop(key) for key in ("reference", "split", "variants", "sets") if key in options}
        if task == "dst":
            options.setdefault("system", name)
        predicted, trained = f"predictions/{name}/{task}", f"models/{name}/{task}"
        steps: dict[str, tuple[str, str, Options]] = {}
        if source == "predictions" and not self.tasks:
            corpus = self._predicted(f"scores/{name}/{task}", task, str(options["predictions"]), corpus)
        if source == "endpoint":
            known = {"api_key_env", *(flag.name for flag in flags_of(dispatch.command_of("predict", _ASKED[task])))}
            asked = {key: value for key, value in options.items() if key in known}
            options = {key: options[key] for key in options if key not in known or key in _OF_SCORES_TOO}
            if "api_key_env" in asked:
                asked["key_variable"] = asked.pop("api_key_env")
            if price := self._table(asked, "price", place):
                if price.keys() - {"input", "output"}:
                    reason = (
                        "expected price = { input = DOLLARS, output = DOLLARS }, in US dollars for a million tokens"
                    )
                    raise self.error(reason, f"{place}.price")
                asked["price"] = f"{price.get('input', 0)},{price.get('output', 0)}"
            steps[predicted] = "predict", _ASKED[task], {**corpus, **asked}
        if source == "train":
            train = self._table(options, "train", place)
            place = f"{place}.train"
            if not isinstance(model := train.pop("model", None), str):
                raise self.error('expected a table such as { model = "t5dst" }', place)
            predict = {**corpus, "model": f"@{trained}", **self._table(train, "predict", place)}
            steps[trained] = "train", model, {"train": [self.sgd], **train}
            steps[predicted] = "predict", model, predict
        for step, (action, model, of_step) in steps.items():
            if not self._add(step, (action, model), of_step, place, needs):
                return None
        if steps:  # soloist writes both, each to its own folder
            options["predictions"] = f"@{predicted}/{'responses' if task == 'response' else 'predictions'}"
        return {**corpus, **options}

    def _predicted(self, step: str, task: str, predictions: str, corpus: Options) -> Options:
        """Returns the options of the corpus, without the sets that a folder has no predictions for."""
        folder = self.suite.folder / str(self._expanded(predictions))
        if not predictions or not folder.is_dir() or not isinstance(corpus.get("sets", {}), dict):
            return corpus
        sets = corpus.get("sets", {})
        variants = self.variant_names if "variants" in corpus else []
        lacking = []
        for name in (*sets, *variants):
            try:
                prediction_files(of_run(str(folder), task), str(corpus["split"]), name)
            except InputError:
                lacking.append(name)
        if not lacking:
            return corpus
        needs = f"predictions for these dialogues, as {predictions}/{lacking[0]}/dialogues_001.json"
        reason = f"{predictions} has none of {', '.join(lacking)}"
        self.left_out.append(LeftOut(f"{step}: {', '.join(lacking)}", reason, needs))
        chosen = [name for name in variants if name not in lacking]
        kept = {name: root for name, root in sets.items() if name not in lacking}
        corpus = {**corpus, "sets": kept, "variant": ",".join(chosen)}
        if variants and not chosen:
            del corpus["variants"]
        return {key: value for key, value in corpus.items() if value not in ("", {})}

    def drop(self, step: Step) -> bool:
        """Leaves out a step that needs missing steps, or its options that do. Returns whether something changed."""
        lost = {name: entry for name in references(step.options) if (entry := self._left_out_of(name))}
        if not lost:
            return False
        reduced = suite_steps.without(step, lost)
        systems = reduced.options.get("systems") if reduced else None
        names = {str(system).partition("=")[0] for system in systems} if isinstance(systems, list | dict) else set()
        compares = len(names) > 1 and {step.options.get("baseline")} <= {None, *names}
        if reduced and (compares or step.pipeline in _REDUCED):
            self.steps[step.name] = reduced
            return True
        first = next(iter(lost.values()))
        reason = f"{suite_steps.entry_of(first.name)} is left out"
        self.left_out.append(LeftOut(step.name, reason, first.needs or step.needs))
        del self.steps[step.name]
        self.sets = {
            name: root for name, root in self.sets.items() if not any(map(self._left_out_of, references(root)))
        }
        return True

    def comparison(self) -> None:
        self.scores = {step: name for step, name in self.scores.items() if step in self.steps}
        if self.scores:
            scores = [f"{name}=@{step}" for step, name in self.scores.items()]
            options = {**self.suite.compare, "systems": scores}
            self._add(suite_steps.COMPARISON, ("compare",), options, "compare")

    @property
    def is_rewritten(self) -> bool:
        """Whether there are dialogues under the variants' names."""
        return self.suite.variants is not None and "rewrite" in self.steps

    def release(self) -> None:
        if self.suite.release is None:
            return
        keys: Options = dict(self._expanded(self.suite.release))
        own, files = self.tasks or self.sgd, {}
        keys.setdefault("description", self.suite.description or f"Robustness sets of the suite {self.suite.title}.")
        keys.setdefault("authors", [{"name": "Unnamed"}])
        if not keys.get("licence") and own.startswith(SAMPLE):
            keys["licence"] = "CC0-1.0"
        corpora = [{"path": own, "name": "original", "kind": "original"}]
        if self.is_rewritten:
            corpora.append({"path": "@rewrite", "kind": "variants"})
        for name, root in self.sets.items():
            corpora.append({"path": root, "name": re.sub(r"[^A-Za-z0-9_\-]", "_", name), "kind": "robustness set"})
        parts: dict[str, list[Options]] = {
            "tasks" if self.tasks else "corpora": corpora,
            "audits": [{"path": "@compose"}] if "compose" in self.steps else [],
            "statistics": [{"path": "@statistics", "name": "table_1"}] if "statistics" in self.steps else [],
        }
        keys |= {part: entries for part in PARTS if (entries := [*parts.get(part, []), *keys.get(part, [])])}
        config = {**keys}
        if not keys.get("licence"):
            config |= {"licence": NO_LICENCE, "licence_file": _LICENCE_FILE}
            files[_LICENCE_FILE] = _NO_LICENCE_TEXT
        elif "licence_file" in keys:
            config["licence_file"] = self._released(str(keys["licence_file"]), "licence_file")
        for part in PARTS & keys.keys():
            if not all(isinstance(entry, dict) and isinstance(entry.get("path"), str) for entry in keys[part]):
                raise self.error("expected tables with a path", f"release.{part}")
            places = [self._released(entry["path"], f"{part}[{i}].path") for i, entry in enumerate(keys[part])]
            config[part] = [{**entry, "path": place} for entry, place in zip(keys[part], places, strict=True)]
        files["release.toml"] = toml_of(msgspec.to_builtins(config))
        try:
            parse_config(files["release.toml"], self.suite.path)
        except InputError as error:
            raise self.error(error.reason, f"release.{error.where}".rstrip(".")) from None
        self._add("release", ("release", "build"), {"config": "@release.toml"}, "release", files=files, reads=keys)

    def _released(self, path: str, where: str) -> str:
        """Returns a path for ``release.toml``, which lies in the output folder. Raises InputError if it is missing."""
        if path.startswith("@"):
            return suite_steps.place_of(path[1:], Path())
        place = (self.suite.folder / path).absolute()
        if not place.exists() and "://" not in path:
            raise self.error(f"{path}: there is no such file or folder", f"release.{where}")
        return path if "://" in path else str(place)

    # Helpers of all tables.

    def _texts(self, options: Options, place: str, *keys: str) -> list[str]:
        """Removes texts from an entry and returns them; missing ones are empty.

        Raises InputError if a value is not text.
        """
        texts = [options.pop(key, "") for key in keys]
        for key, value in zip(keys, texts, strict=True):
            if not isinstance(value, str):
                raise self.error(f"expected a text, found {value!r}", f"{place}.{key}")
            if key == "name" and value and not NAME.fullmatch(value):
                raise self.error(f"{value!r} {NO_NAME}", f"{place}.name")
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
        used = [key for key in present if not any(map(self._is_empty, suite_steps.texts(options[key])))] or present[:1]
        if len(used) != 1:
            names = f"found {' and '.join(used)}" if used else "found none of them"
            raise self.error(f"give exactly one of {', '.join(keys)}: {names}", place)
        for key in {*present} - {*used}:
            del options[key]
        return used[0]

    def _is_empty(self, text: str) -> bool:
        """Whether a text, or the input that it names, is still to be filled in."""
        return not text or (text[0] == "@" and self.suite.inputs.get(text[1:]) == "")

    def _expanded(self, value: Any) -> Any:
        """Expands ``@corpus``, ``@variants`` and ``@INPUT`` in a value, and lists the files of paths with ``*``.

        A table has no entries for paths with ``*`` that match no file; it is empty if none matches.
        """
        if isinstance(value, dict):
            table = {key: self._expanded(item) for key, item in value.items()}
            table = {key: item for key, item in table.items() if item != "" or "*" not in str(value[key])}
            return table if table or not value else ""
        if isinstance(value, list):
            parts = map(self._expanded, value)
            return [item for part in parts for item in (part if isinstance(part, list) else [part])]
        match = _ALIAS.fullmatch(value) if isinstance(value, str) else None
        if match is None or match["head"] not in self.aliases:
            return value
        place = self.aliases[match["head"]]
        path = f"{place.rstrip('/')}{match['rest']}" if place else ""
        if not place or "*" not in match["rest"]:
            return path and f"{match['name']}{path}"
        files = [f"{match['name']}{file}" for file in sorted(glob.glob(str(self.suite.folder / path)))]
        return files if len(files) > 1 else "".join(files)

    def _add(
        self,
        name: str,
        command: tuple[str, ...],
        options: Mapping[str, Any],
        place: str,
        needs: str = "",
        **others: Any,
    ) -> bool:
        """Adds a step, or records that it is left out and returns False. ``others`` are fields of the step."""
        if part := next((part for part in name.split("/") if not NAME.fullmatch(part)), None):
            raise self.error(f"{part!r} {NO_NAME}", f"{place}.name")
        if name.partition("/")[0] in suite_steps.RESULTS:
            raise self.error(f"{name!r} is a file of the suite itself: give it another name", f"{place}.name")
        if name in self.steps:
            raise self.error(f"another step is called {name!r}: give this one another name", f"{place}.name")
        options = {key: self._expanded(value) for key, value in options.items()}
        step = Step(name=name, command=command, options=options, place=place, needs=needs, **others)
        if self.skipped(name):
            self.left_out.append(LeftOut(name, "--skip names it", ""))
        elif not self._is_missing(name, options, place, needs):
            if not (lacking := suite_steps.lacks(step)):
                self.steps[name] = step
                return True
            if not needs:
                raise self.error(lacking, f"{place} ({name})")
            self.left_out.append(LeftOut(name, lacking, needs))
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
        self.left_out.append(LeftOut(name, f"{empty} is not given", needs))
        return True

    def _left_out_of(self, reference: str) -> LeftOut | None:
        """Returns the left-out entry that would write what a reference names, if any."""
        if suite_steps.owner(reference, self.steps) is not None:
            return None
        name = suite_steps.entry_of(reference)
        return next((entry for entry in self.left_out if suite_steps.entry_of(entry.name) == name), None)

    def _steps_of(self, names: Iterable[str], place: str) -> frozenset[str]:
        """Returns the steps that write what references name, but for the sample. Raises InputError if there is none."""
        steps = {name: suite_steps.owner(name, self.steps) for name in names if name.partition("/")[0] != SAMPLE[1:]}
        for name in (name for name, step in steps.items() if step is None):
            raise self.error(f"@{name}: {unknown_key(name.partition('/')[0], self.steps, 'step')}", place)
        return frozenset(filter(None, steps.values()))

    def graph(self) -> Graph:
        if not self.steps and self.left_out:
            first = self.left_out[0]
            raise self.error(f"everything is left out: {first.reason}. {first.needs}".rstrip(" ."), first.name)
        needs: dict[str, frozenset[str]] = {}
        for step in self.steps.values():
            names = [name for name in references([step.options, step.reads]) if name not in step.files]
            needs[step.name] = self._steps_of(names, f"{step.place} ({step.name})")
        try:
            order = list(TopologicalSorter({name: sorted(names) for name, names in needs.items()}).static_order())
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            place = self.steps[error.args[1][0]].place
            raise self.error(f"these steps depend on each other in a circle: {circle}", place) from None
        self._check_tables()
        return Graph(
            steps={name: self.steps[name] for name in order},
            needs=needs,
            systems=[*dict.fromkeys(self.scores.values())],
            left_out=self.left_out,
            variants=self.variant_names,
        )

    def _check_tables(self) -> None:
        """Raises InputError if a pointer of a table does not lead to a step."""
        for i, table in enumerate(self.suite.tables):
            for j, row in enumerate(table.rows):
                for cell in table.cells(row):
                    for key, pointer in (("ours", cell.ours), ("relative_to", cell.relative_to)):
                        place = f"tables[{i}].rows[{j}].{key}"
                        name, found, _ = pointer.partition("#/")
                        if pointer and not (found and name.startswith("@")):
                            reason = (
                                f"{pointer!r}: expected @STEP/FILE.json#/KEY/KEY, a JSON pointer into a step's output"
                            )
                            raise self.error(reason, place)
                        for seed in self.suite.seeds if SEED in name else ("",) * bool(name):
                            reference = name[1:].replace(SEED, seed)
                            if not row.needs and not self._left_out_of(reference):
                                self._steps_of([reference], place)


def _step_name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or str(entry.get("pipeline", "")).partition(" ")[0])
