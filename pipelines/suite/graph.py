"""Turns a suite's file into a graph: the commands that its tables stand for, and what each command needs.

An entry of the file is made into steps, or left out with a reason. What refers to something left out is left out, too,
or does without it. The step that builds a release reads a ``release.toml``, which is generated here.
"""

import glob
import re
from collections.abc import Callable, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from parapet.evaluation.sets import prediction_files, run_folders
from parapet.pipelines import app, endpoint_flags, main, perturb
from parapet.pipelines.corpora import of_run
from parapet.pipelines.suite import suite_file
from parapet.pipelines.suite.suite_file import SAMPLE, SEED, Options, Step, SuiteFile, references
from parapet.schemas.errors import InputError, no_such
from parapet.schemas.release import NO_LICENCE, parse_config
from parapet.transforms.core.inputs import toml_of
from parapet.transforms.report.text import counted

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
_INHERITED = {*endpoint_flags.FLAGS, "model", "api_key_env", "parallel_calls", "timeout", "cache", "max_bad", "repeats"}
_OF_SCORES_TOO = ("candidates", "top", "variant")  # options of 'predict' that 'evaluate' also needs
_OF_CORPUS = ("reference", "split", "variants", "sets")  # options that say what a system is scored on
# ``@corpus/path`` or ``NAME=@corpus/path``, where the head is a name of the suite's.
_ALIAS = re.compile(r"(?P<name>(?:.*=)?)@(?P<head>[^/@]*)(?P<rest>(?:/.*)?)", re.DOTALL)

_PARTS = ("corpora", "tasks", "audits", "statistics", "tables")  # of a release
_LICENCE_FILE = "release_licence.txt"
# The licence text of a release without a licence, so that nobody takes its absence for a permission.
_NO_LICENCE_TEXT = (
    "No licence was given for this dataset. It is made from another corpus, whose terms apply: do not publish it\n"
    'before you have named a licence in the file of the suite ([release] licence = "...") and built it again.\n'
)


class LeftOut(NamedTuple):
    """A step that is left out, and what it would need."""

    name: str
    reason: str
    needs: str


class Graph:
    """The steps of a suite.

    Args:
      suite: the suite's file.
      skipped: whether a step is to be left out.

    Attributes:
      steps: by name, each after those that it needs.
      needs: the steps that each step needs.
      left_out: what is left out.
      systems: the names of the scored systems.
      variant_names: the names of the variants, as far as they are known.

    Raises:
      InputError: keys contradict each other, a name is used twice, or references are unknown or circular.
    """

    def __init__(self, suite: SuiteFile, skipped: Callable[[str], bool] = lambda _: False) -> None:
        self.suite, self.skipped, self.error = suite, skipped, suite.error
        self.steps: dict[str, Step] = {}
        self.sets: dict[str, str] = {}  # name to folder
        self.scores: dict[str, str] = {}  # the steps that score systems, with the names of these
        self.systems: list[str] = []
        self.left_out: list[LeftOut] = []
        self.variant_names: list[str] = []
        self.sgd, self.tasks = suite.corpus.sgd, suite.corpus.tasks
        self.corpus: Options = {"tasks": [self.tasks]} if self.tasks else {"sgd": self.sgd}
        self.aliases = {"corpus": self.sgd, **suite.inputs}
        # Of the entry that is being made into steps: where it is, and what it says that it needs.
        self.place, self.entry_needs = "", ""
        entries = [("variants", suite.variants, self._variants)] if suite.variants is not None else []
        for level, make in {"sets": self._set, "steps": self._step, "systems": self._system}.items():
            entries += [(f"{level}[{i}]", entry, make) for i, entry in enumerate(getattr(suite, level))]
        for self.place, entry, make in entries:
            options = dict(entry)
            self.entry_needs = self._take(options, "needs")
            make(options)
        while any(self._lose(step) for step in list(self.steps.values())):
            pass
        self.entry_needs = ""
        self._comparison()
        self._release()
        self._check_tables()
        self.needs = self._needs()
        self.steps = {name: self.steps[name] for name in self._order()}

    def lacking(self) -> list[tuple[str, LeftOut]]:
        """Groups what is left out by what it needs: the formatted names, and the first of each group."""
        groups: dict[str, list[LeftOut]] = {}
        for entry in self.left_out:
            groups.setdefault(entry.needs or entry.reason, []).append(entry)
        return [
            (first.name + (f" and {counted(len(others), 'other')}" if others else ""), first)
            for first, *others in groups.values()
        ]

    def with_needs(self, names: Iterable[str]) -> set[str]:
        """Returns the steps and all steps that they need."""
        result = set(names)
        for name in reversed(self.steps):
            if name in result:
                result |= self.needs[name]
        return result

    # Tables of the file.

    def _variants(self, entry: Options) -> None:
        rewriting = self._take(entry, "rewrite", dict)
        source = self._source(entry, ("path", "responses", "pivots"))
        if source == "path":
            root = str(self._expanded(entry.pop("path")))
            rewriting = {**entry, **rewriting}
            self.variant_names = sorted(path.name for path in (self.suite.folder / root).glob("*") if path.is_dir())
        else:
            making = "compose" if source == "responses" else "back_translate"
            root, pivots = f"@{making}", entry.get("pivots", "v1,v2,v3,v4,v5")
            self.variant_names = list(map(str, pivots if isinstance(pivots, list) else str(pivots).split(",")))
        self.aliases.setdefault("variants", root)
        if source == "path" or self._add(making, (making,), {"schemas": self.tasks or self.sgd, **entry}):
            options = {**self.corpus, "variants": root}
            self._add("rewrite", ("rewrite",), {**options, **rewriting})
            if not self.tasks:
                self._add("statistics", ("statistics",), options)

    def _set(self, entry: Options) -> None:
        source = self._source(entry, ("perturbation", "path"))
        chosen = self._take(entry, source)
        name = entry.pop("name", "") or chosen.rstrip("/").rpartition("/")[2]
        step = f"sets/{name}"
        if source == "path":
            if entry:
                raise self.error(no_such("key", min(entry), ("path", "name", "needs")), self.place)
            root = str(self._expanded(chosen))
            if root or self._lacks(name, "path is not given"):
                self._add_set(name, root)
            return
        command, defaults = ("perturb", chosen), Options()
        if not self.tasks:
            command, defaults = _COMMANDS.get(chosen, (command, defaults))
            defaults = {"split": list(self.suite.corpus.splits), **defaults}
        if reason := self._impossible(chosen):
            self.left_out.append(LeftOut(step, reason, "tasks with other tools"))
        elif self._add(step, command, {**self.corpus, **defaults, **entry}):
            try:
                folders, in_folders = suite_file.sets_of(self.steps[step], chosen)
            except InputError as error:
                raise self.error(str(error), f"{self.place} ({name})") from None
            for folder in folders:
                own_name = name + folder.removeprefix(chosen) if folder.startswith(chosen) else f"{name}-{folder}"
                root = f"@{step}/{folder}" if in_folders else f"@{step}"
                self._add_set(folder if name == chosen else own_name, root)

    def _impossible(self, perturbation: str) -> str:
        """Returns why a perturbation of toolkits changes nothing in the user's tasks; empty if it changes some."""
        if perturbation not in perturb.TOOLKITS or not self.tasks or self.tasks.startswith(SAMPLE):
            return ""
        from parapet.transforms.perturb.toolkits import Toolkits

        counts = (1,) if perturbation == "distractors" else ()
        return Toolkits(perturbation, counts).impossible(str(self.suite.folder / self.tasks))

    def _add_set(self, name: str, root: str) -> None:
        if name in ("original", "v1", "v2", "v3", "v4", "v5", *self.sets):
            raise self.error(f"there is a set called {name!r} already: give this one another name", self.place)
        self.sets[name] = root

    def _step(self, entry: Options) -> None:
        pipeline, about = self._take(entry, "pipeline"), self._take(entry, "about")
        command = tuple(word for word in pipeline.split() if word != "--task")
        if not command:
            reason = "must be the command of a pipeline, such as 'few_shot' or 'train t5dst'"
            raise self.error(reason, f"{self.place}.pipeline")
        name = entry.pop("name", command[0])
        if name in suite_file.RESULTS:
            raise self.error(f"{name!r} is a file of the suite itself: give it another name", f"{self.place}.name")
        if command[0] in ("evaluate", "predict") and entry.get("reference") == "@corpus":
            entry.setdefault("split", self.suite.corpus.scored)
        self._add(name, command, entry, about=about)

    def _system(self, entry: Options) -> None:
        place, name = self.place, entry.pop("name", "")
        tasks = {task: dict(entry.pop(task)) for task in suite_file.TASKS if isinstance(entry.get(task), dict)}
        has_source = not entry.keys().isdisjoint(_SOURCES)
        if not name or (not has_source and (entry or not tasks)):
            reason = "give name, and model, predictions, train or endpoint, or a table of a task: response = {...}"
            raise self.error(reason, place)
        if has_source:
            shared = {key: entry[key] for key in entry if "endpoint" in entry and key in _INHERITED}
            for task in tasks.keys() & _ASKED.keys():
                if tasks[task].keys().isdisjoint(_SOURCES):
                    tasks[task] = shared | tasks[task]
            tasks = {"tool_calls" if self.tasks else "dst": entry, **tasks}
        for task, options in tasks.items():
            self.place = place if options is entry else f"{place}.{task}"
            self._score(name, task, options)

    def _score(self, name: str, task: str, options: Options) -> None:
        """Adds the step that scores a system, and before it those that train it and predict; or leaves them out."""
        source = "endpoint"
        if "endpoint" not in options or task not in _ASKED:
            source = self._source(options, _SOURCES[task not in _WITH_MODEL : 3])
        corpus: Options = {}
        if task != "ranking":  # the options name its files, since bAbI has no corpus
            split = {} if self.tasks else {"split": self.suite.corpus.scored}
            corpus = {"reference": self.corpus.get("tasks", self.sgd), **split}
            corpus |= {"variants": "@rewrite"} if "rewrite" in self.steps else {}
            corpus |= {"sets": dict(self.sets)} if self.sets else {}
        corpus |= {key: options.pop(key) for key in _OF_CORPUS if key in options}
        if task == "dst":
            options.setdefault("system", name)
        scored, predicted, trained = (f"{kind}/{name}/{task}" for kind in ("scores", "predictions", "models"))
        is_there = True
        if source == "predictions" and not self.tasks:
            corpus = self._predicted(scored, task, str(options["predictions"]), corpus)
        elif source == "endpoint":
            known = {"api_key_env", *(flag.name for flag in app.flags_of(main.command_of("predict", _ASKED[task])))}
            asked = {key: value for key, value in options.items() if key in known}
            options = {key: options[key] for key in options if key not in known or key in _OF_SCORES_TOO}
            if "api_key_env" in asked:
                asked["key_variable"] = asked.pop("api_key_env")
            if price := self._take(asked, "price", dict):
                asked["price"] = f"{price.pop('input', 0)},{price.pop('output', 0)}"
            if price:
                raise self.error(no_such("price", min(price), ("input", "output")), f"{self.place}.price")
            is_there = self._add(predicted, ("predict", _ASKED[task]), {**corpus, **asked})
        elif source == "train":
            train, self.place = self._take(options, "train", dict), f"{self.place}.train"
            predict, model = self._take(train, "predict", dict), self._take(train, "model")
            predict = {**corpus, "model": f"@{trained}", **predict}
            is_there = self._add(trained, ("train", model), {"train": [self.sgd], **train})
            is_there = is_there and self._add(predicted, ("predict", model), predict)
        if source in ("endpoint", "train"):  # soloist writes both, each to its own folder
            options["predictions"] = f"@{predicted}/{'responses' if task == 'response' else 'predictions'}"
        if is_there and self._add(scored, ("evaluate", task), {**corpus, **options}):
            self.scores[scored] = name

    def _predicted(self, step: str, task: str, predictions: str, corpus: Options) -> Options:
        """Returns the options of the corpus, without the sets that a folder has no predictions for."""
        folder, sets = self.suite.folder / str(self._expanded(predictions)), corpus.get("sets", {})
        if not predictions or not folder.is_dir() or not isinstance(sets, dict):
            return corpus
        variants = self.variant_names if "variants" in corpus else []
        root = of_run(str(folder), task)
        lacking = []
        for name in (*sets, *variants):
            try:
                prediction_files((run_folders(root) or [root])[0], str(corpus["split"]), name)
            except InputError:
                lacking.append(name)
        if not lacking:
            return corpus
        needs = f"predictions for these dialogues, as {predictions}/{lacking[0]}/dialogues_001.json"
        reason = f"{predictions} has none of {', '.join(lacking)}"
        self.left_out.append(LeftOut(f"{step}: {', '.join(lacking)}", reason, needs))
        chosen = ",".join(name for name in variants if name not in lacking)
        less = {
            "sets": {name: root for name, root in sets.items() if name not in lacking},
            "variants": corpus.get("variants") if chosen else None,
            "variant": chosen,
        }
        return {key: value for key, value in (corpus | less).items() if value}

    def _comparison(self) -> None:
        scores = {step: name for step, name in self.scores.items() if step in self.steps}
        self.place, self.systems = "compare", list(dict.fromkeys(scores.values()))
        if scores:
            systems = [f"{name}=@{step}" for step, name in scores.items()]
            self._add(suite_file.COMPARISON, ("compare",), {**self.suite.compare, "systems": systems})

    def _release(self) -> None:
        if self.suite.release is None:
            return
        self.place, keys = "release", dict(self._expanded(self.suite.release))
        own, files = self.tasks or self.sgd, {}
        keys.setdefault("description", self.suite.description or f"Robustness sets of the suite {self.suite.title}.")
        keys.setdefault("authors", [{"name": "Unnamed"}])
        if not keys.get("licence") and own.startswith(SAMPLE):
            keys["licence"] = "CC0-1.0"
        corpora = [{"path": own, "name": "original", "kind": "original"}]
        if "rewrite" in self.steps:
            corpora.append({"path": "@rewrite", "kind": "variants"})
        for name, root in self.sets.items():
            if not any(map(self._left_out_of, references(root))):
                corpora.append({"path": root, "name": re.sub(r"[^A-Za-z0-9_\-]", "_", name), "kind": "robustness set"})
        own_parts: dict[str, list[Options]] = {
            "tasks" if self.tasks else "corpora": corpora,
            "audits": [{"path": "@compose"}] if "compose" in self.steps else [],
            "statistics": [{"path": "@statistics", "name": "table_1"}] if "statistics" in self.steps else [],
        }
        config = {**keys}
        if not keys.get("licence"):
            config |= {"licence": NO_LICENCE, "licence_file": _LICENCE_FILE}
            files[_LICENCE_FILE] = _NO_LICENCE_TEXT
        elif "licence_file" in keys:
            config["licence_file"] = self._released(keys["licence_file"], "licence_file")
        for part in _PARTS:
            entries = keys.get(part, [])
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise self.error("expected tables with a path", f"release.{part}")
            if entries := [*own_parts.get(part, []), *entries]:
                keys[part] = entries
                config[part] = [
                    {**entry, "path": self._released(entry.get("path"), f"{part}[{i}].path")}
                    for i, entry in enumerate(entries)
                ]
        files["release.toml"] = toml_of(msgspec.to_builtins(config))
        try:
            parse_config(files["release.toml"], self.suite.path)
        except InputError as error:
            raise self.error(error.reason, f"release.{error.where}".rstrip(".")) from None
        self._add("release", ("release", "build"), {"config": "@release.toml"}, files=files, reads=keys)

    def _released(self, path: object, where: str) -> str:
        """Returns a path for ``release.toml``, which lies in the output folder. Raises InputError if it is missing."""
        if isinstance(path, str) and (path.startswith("@") or "://" in path):
            return suite_file.place_of(path[1:], Path()) if path.startswith("@") else path
        if not isinstance(path, str) or not (place := (self.suite.folder / path).absolute()).exists():
            raise self.error(f"{path}: there is no such file or folder", f"release.{where}")
        return str(place)

    # Helpers of all tables.

    def _take(self, options: Options, key: str, kind: type[Any] = str) -> Any:
        """Removes a value from the entry and returns it; an empty one if it is not there."""
        value = options.pop(key, kind())
        if not isinstance(value, kind):
            raise self.error(f"expected a {'text' if kind is str else 'table'}, found {value!r}", f"{self.place}.{key}")
        return kind(value)

    def _source(self, options: Options, keys: Sequence[str]) -> str:
        """Returns the key that is used out of several; removes the other keys, which must be empty."""
        present = [key for key in keys if key in options]
        used = [key for key in present if "" not in suite_file.texts(self._expanded(options[key]))] or present[:1]
        if len(used) != 1:
            raise self.error(f"give exactly one of {', '.join(keys)}", self.place)
        for key in {*present} - {*used}:
            del options[key]
        return used[0]

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

    def _add(self, name: str, command: tuple[str, ...], options: Options, **others: Any) -> bool:
        """Adds a step, or leaves it out and returns False. ``others`` are fields of the step."""
        if name in self.steps:
            raise self.error(f"another step is called {name!r}: give this one another name", f"{self.place}.name")
        options = {key: self._expanded(value) for key, value in options.items()}
        step = Step(name=name, command=command, options=options, place=self.place, **others)
        if self.skipped(name):
            self.left_out.append(LeftOut(name, "--skip names it", ""))
            return False
        empty = next((key for key, value in options.items() if value in ("", [], [""])), "")
        if reason := f"{empty} is not given" if empty else suite_file.lacks(step):
            return self._lacks(name, reason)
        self.steps[name] = step
        return True

    def _lacks(self, name: str, reason: str) -> bool:
        """Leaves out a step; returns False. Raises InputError if its entry does not say what it needs."""
        if not self.entry_needs:
            raise self.error(reason, f"{self.place} ({name})")
        self.left_out.append(LeftOut(name, reason, self.entry_needs))
        return False

    def _lose(self, step: Step) -> bool:
        """Leaves out a step that needs what is left out, or its options that do. Returns whether it has changed."""
        lost = {name: entry for name in references(step.options) if (entry := self._left_out_of(name))}
        if not lost:
            return False
        if reduced := suite_file.without(step, lost):
            self.steps[step.name] = reduced
        else:
            first = next(iter(lost.values()))
            self.left_out.append(LeftOut(step.name, f"{suite_file.entry_of(first.name)} is left out", first.needs))
            del self.steps[step.name]
        return True

    def _left_out_of(self, reference: str) -> LeftOut | None:
        """Returns what is left out and would write what a reference names, if any."""
        if suite_file.owner(reference, self.steps) is not None:
            return None
        name = suite_file.entry_of(reference)
        return next((entry for entry in self.left_out if suite_file.entry_of(entry.name) == name), None)

    def _steps_of(self, names: Iterable[str], place: str) -> frozenset[str]:
        """Returns the steps that write what references name, but for the sample. Raises InputError if there is none."""
        steps = {name: suite_file.owner(name, self.steps) for name in names if name.partition("/")[0] != SAMPLE[1:]}
        for name in (name for name, step in steps.items() if step is None):
            raise self.error(f"@{name}: {no_such('step', name.partition('/')[0], self.steps)}", place)
        return frozenset(filter(None, steps.values()))

    def _needs(self) -> dict[str, frozenset[str]]:
        if not self.steps and self.left_out:
            first = self.left_out[0]
            raise self.error(f"everything is left out: {first.reason}. {first.needs}".rstrip(" ."), first.name)
        needs: dict[str, frozenset[str]] = {}
        for step in self.steps.values():
            names = [name for name in references([step.options, step.reads]) if name not in step.files]
            needs[step.name] = self._steps_of(names, f"{step.place} ({step.name})")
        return needs

    def _order(self) -> list[str]:
        try:
            return list(TopologicalSorter({name: sorted(needs) for name, needs in self.needs.items()}).static_order())
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            place = self.steps[error.args[1][0]].place
            raise self.error(f"these steps depend on each other in a circle: {circle}", place) from None

    def _check_tables(self) -> None:
        """Raises InputError if a pointer of a table does not lead to a step."""
        for i, table in enumerate(self.suite.tables):
            for row in (row for row in table.rows if not row.needs):
                pointers = [pointer for _, *pointers, _ in table.cells(row) for pointer in pointers]
                names = references([pointer.replace(SEED, self.suite.seeds[0]) for pointer in pointers])
                self._steps_of((name for name in names if not self._left_out_of(name)), f"tables[{i}] ({row.name})")
