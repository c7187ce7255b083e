"""From a suite's file to its graph: which commands its tables stand for, and what each of them needs."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from parapet.pipelines.suite.published import SEED, Table
from parapet.pipelines.suite.release import release_files
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
    references,
    without,
)
from parapet.pipelines.suite.suite_file import HEADS, NAME, NO_NAME, SuiteFile, unknown_key
from parapet.schemas.errors import InputError

RELEASE_CONFIG = "release.toml"
SOURCES = ("path", "responses", "pivots")  # of [variants]: one of them
_ABOUT = {
    "compose": "The crowd's answers, vetted, ranked and composed into variants of the schemas",
    "back_translate": "Variants of the schemas: translated into each pivot language and back",
    "rewrite": "The dialogues under the names of each variant",
    "statistics": "How far the variants are from the original (SGD-X, Table 1)",
    COMPARISON: "All scores in one table",
    "release": "Everything as one versioned dataset",
}

# Perturbations whose own command has more flags than 'parapet perturb' gives them: engines, above all.
_COMMANDS: dict[str, tuple[tuple[str, ...], Options]] = {
    "speech_errors": (("speech_errors",), {}),
    "ood": (("ood",), {}),
    "unseen_entities": (("unseen_entities",), {}),
    "paraphrase": (("language_variations",), {"kinds": "paraphrase", "env": "none"}),
}

_REDUCED = ("evaluate", "predict")  # go on without sets, variants or a classifier that are left out

# (perturbation, options): the names of the sets that it makes, and whether each has a folder.
SetsOf = Callable[[str, Options], tuple[Sequence[str], bool]]


def make_graph(
    suite: SuiteFile, sets_of: SetsOf, lacks: Callable[[Step], str], skipped: Callable[[str], bool] = lambda _: False
) -> Graph:
    """The steps of a suite.

    Args:
      suite: the file.
      sets_of: the sets that a perturbation with its options makes.
      lacks: what a step needs that is not installed, in words; empty where nothing is.
      skipped: whether a step is to be left out.

    Raises:
      InputError: keys that contradict each other, two things of one name, references to nothing, or in a circle.
    """
    builder = _Builder(suite, sets_of, lacks, skipped)
    builder.variants()
    for i, entry in enumerate(suite.sets):
        builder.set(entry, f"sets[{i}]")
    for i, entry in enumerate(suite.steps):
        builder.step(entry, f"steps[{i}]")
    for i, entry in enumerate(suite.systems):
        builder.system(entry, f"systems[{i}]")
    builder.drop_followers()
    builder.comparison()
    builder.release()
    return builder.graph()


class _Builder:
    def __init__(
        self, suite: SuiteFile, sets_of: SetsOf, lacks: Callable[[Step], str], skipped: Callable[[str], bool]
    ) -> None:
        self.suite, self.sets_of, self.lacks, self.skipped = suite, sets_of, lacks, skipped
        self.steps: dict[str, Step] = {}
        self.sets: list[ScoredSet] = []
        self.set_names: set[str] = set()
        self.systems: dict[str, list[str]] = {}  # to the steps that score it
        self.system_places: dict[str, str] = {}
        self.left_out: list[LeftOut] = []
        self.rewritten, self.variant_names = False, list[str]()
        self.aliases = {**suite.inputs, "corpus": suite.corpus.sgd}
        self.own = {_step_name(entry) for entry in suite.steps}

    # Tables of the file.

    def variants(self) -> None:
        if self.suite.variants is None:
            return
        entry, place = dict(self.suite.variants), "variants"
        needs = str(entry.pop("needs", ""))
        source = self._exactly_one(entry, SOURCES, place)
        rewriting = entry.pop("rewrite", {})
        if not isinstance(rewriting, dict):
            raise self.suite.error("expected a table: options of 'parapet rewrite'", f"{place}.rewrite")
        root = "@compose" if source == "responses" else "@back_translate"
        if source == "path":
            root, rewriting = str(self._expanded(entry.pop("path"))), {**entry, **rewriting}
        self.aliases["variants"] = root
        self.variant_names = self._variant_names(source, entry, root)
        if source != "path" and not self._add(
            root[1:], (root[1:],), {"schemas": self.suite.corpus.sgd, **entry}, place, needs
        ):
            return
        options = {"sgd": self.suite.corpus.sgd, "variants": root, **rewriting}
        self.rewritten = self._add("rewrite", ("rewrite",), options, place, needs)
        if "statistics" not in self.own:
            self._add("statistics", ("statistics",), {"sgd": self.suite.corpus.sgd, "variants": root}, place, needs)

    def _variant_names(self, source: str, entry: Options, root: str) -> list[str]:
        """The names of the variants, as far as they are known before they are made."""
        if source == "responses":
            return [f"v{i}" for i in range(1, 6)]
        if source == "pivots":
            pivots = entry["pivots"]
            return [str(one) for one in (pivots if isinstance(pivots, list) else str(pivots).split(","))]
        folder = self.suite.folder / root
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def set(self, entry: Mapping[str, Any], place: str) -> None:
        options = dict(entry)
        needs = str(options.pop("needs", ""))
        source = self._exactly_one(options, ("perturbation", "path"), place)
        given = options.pop(source)
        if not isinstance(given, str):
            raise self.suite.error(f"expected a text, found {given!r}", f"{place}.{source}")
        name = str(options.pop("name", "")) or given.rstrip("/").rpartition("/")[2]
        if source == "path":
            if options:
                raise self.suite.error(unknown_key(next(iter(options)), ("path", "name", "needs")), place)
            given = str(self._expanded(given))
            if not self._is_missing(name, {"path": given}, place, needs):
                self._add_set(ScoredSet(name, given), place)
            return
        command, defaults = _COMMANDS.get(given, (("perturb", given), {}))
        corpus: Options = {"sgd": self.suite.corpus.sgd, "split": list(self.suite.corpus.splits)}
        step = f"sets/{name}"
        if self._add(step, command, {**corpus, **defaults, **options}, place, needs, f"Perturbation: {given}"):
            try:
                sets, in_folders = self.sets_of(given, options)
            except InputError as error:
                raise self.suite.error(str(error), f"{place} ({name})") from None
            for one in sets:
                root = f"@{step}/{one}" if in_folders else f"@{step}"
                self._add_set(ScoredSet(_set_name(one, given, name), root), place)

    def _add_set(self, scored: ScoredSet, place: str) -> None:
        if scored.name in ("original", "v1", "v2", "v3", "v4", "v5"):
            raise self.suite.error(f"{scored.name!r} is the name of the original or of a variant", f"{place}.name")
        if scored.name in self.set_names:
            raise self.suite.error(
                f"there is a set {scored.name!r} already: give this one another name", f"{place}.name"
            )
        self.sets.append(scored)
        self.set_names.add(scored.name)

    def step(self, entry: Mapping[str, Any], place: str) -> None:
        options = dict(entry)
        needs, pipeline = str(options.pop("needs", "")), options.pop("pipeline", "")
        about = str(options.pop("about", ""))
        if not isinstance(pipeline, str) or not pipeline.split():
            raise self.suite.error(
                "which pipeline? Give its command, such as 'few_shot' or 'train tiny_dst'", f"{place}.pipeline"
            )
        options.pop("name", "")
        command = tuple(word for word in pipeline.split() if word != "--task")
        if command[0] in ("evaluate", "predict") and options.get("reference") == "@corpus":
            options.setdefault("split", self.suite.corpus.scored)
        self._add(_step_name(entry), command, options, place, needs, about)

    def system(self, entry: Mapping[str, Any], place: str) -> None:
        options = dict(entry)
        needs = str(options.pop("needs", ""))
        name = options.pop("name", "")
        if not name:
            raise self.suite.error("give the system a name", f"{place}.name")
        if name in self.system_places:
            raise self.suite.error(f"there is a system {name!r} already", f"{place}.name")
        self.system_places[name] = place
        tasks = {task: options.pop(task) for task in TASKS if isinstance(options.get(task), dict)}
        if any(key in options for key in ("model", "predictions", "train")):
            tasks = {"dst": options, **tasks}
        elif options:
            keys = ("model", "predictions", "train", "name", "needs", *TASKS)
            raise self.suite.error(unknown_key(next(iter(options)), keys), place)
        if not tasks:
            raise self.suite.error("give model, predictions or train, or a table of a task: response = {...}", place)
        for task, given in tasks.items():
            where = place if given is options else f"{place}.{task}"
            step = f"scores/{name}/{task}"
            scored = self._scored(name, task, dict(given), where, needs)
            if scored is not None and self._add(
                step, ("evaluate", task), scored, where, needs, f"{name}: {task} scores"
            ):
                self.systems.setdefault(name, []).append(step)

    def _scored(self, name: str, task: str, options: Options, place: str, needs: str) -> Options | None:
        """The options of ``evaluate``; None where the system cannot be had."""
        sources = ("model", "predictions", "train") if task == "dst" else ("predictions", "train")
        source = self._exactly_one(options, sources, place)
        corpus: Options = {}
        if task != "ranking":  # its files are named by the options: bAbI's are no corpus
            corpus = {"reference": self.suite.corpus.sgd, "split": self.suite.corpus.scored, **self._sets()}
        over = ("reference", "split", "variants", "sets")
        corpus = {key: options.pop(key, value) for key, value in corpus.items()}
        corpus |= {key: options.pop(key) for key in over if key in options}
        if task == "dst":
            options.setdefault("system", name)
        if source == "train":
            train = options.pop("train")
            if not isinstance(train, dict) or not isinstance(train.get("model"), str):
                raise self.suite.error('expected a table such as { model = "t5dst" }', f"{place}.train")
            predictions = self._trained(name, task, dict(train), corpus, f"{place}.train", needs)
            if not predictions:
                return None
            options["predictions"] = predictions
        elif source == "predictions":
            corpus = self._predicted(f"scores/{name}/{task}", str(options["predictions"]), corpus, place)
        return {**corpus, **options}

    def _predicted(self, step: str, predictions: str, corpus: Options, place: str) -> Options:
        """The sets of a corpus for which a folder has predictions; the others are left out."""
        from parapet.evaluation.sets import prediction_files

        folder = self.suite.folder / str(self._expanded(predictions))
        if not predictions or not folder.is_dir():
            return corpus

        def is_there(name: str) -> bool:
            try:
                return bool(prediction_files(str(folder), str(corpus["split"]), name))
            except InputError:
                return False

        corpus, lacking = dict(corpus), []
        sets = corpus.get("sets")
        if isinstance(sets, dict):
            lacking = [name for name in sets if not is_there(name)]
            corpus["sets"] = {name: root for name, root in sets.items() if name not in lacking}
        if "variants" in corpus and self.variant_names:
            found = [name for name in self.variant_names if is_there(name)]
            lacking += [name for name in self.variant_names if name not in found]
            if found:
                corpus["variant"] = ",".join(found)
            else:
                del corpus["variants"]
        if lacking:
            needs = f"predictions of the dialogues in sets/ and rewrite/ as {predictions}/NAME/dialogues_001.json"
            self.left_out.append(
                LeftOut(f"{step}: {', '.join(lacking)}", place, f"{predictions} has none of them", needs)
            )
        return {key: value for key, value in corpus.items() if value != {}}

    def _trained(self, name: str, task: str, train: Options, corpus: Options, place: str, needs: str) -> str:
        """Adds the steps that train a system and predict with it; gives the place of its predictions."""
        model, predict = str(train.pop("model")), train.pop("predict", {})
        if not isinstance(predict, dict):
            raise self.suite.error("expected a table: options of 'parapet predict'", f"{place}.predict")
        folder, predicted = f"models/{name}/{task}", f"predictions/{name}/{task}"
        options: Options = {"train": [self.suite.corpus.sgd], **train}
        if not self._add(folder, ("train", model), options, place, needs, f"{name}: trained"):
            return ""
        options = {**corpus, "model": f"@{folder}", **predict}
        written = "responses" if task == "response" else "predictions"  # soloist has both, in a folder each
        return (
            f"@{predicted}/{written}"
            if self._add(predicted, ("predict", model), options, place, needs, f"{name}: predictions")
            else ""
        )

    def _sets(self) -> Options:
        """The variants and sets on which systems are scored."""
        options: Options = {"variants": "@rewrite"} if self.rewritten else {}
        return {**options, "sets": {one.name: one.root for one in self.sets}} if self.sets else options

    def drop_followers(self) -> None:
        """Leaves out the steps that need what is left out, and their sets.

        A system is scored on the sets that are there, and a comparison is of the systems that are there.
        """
        while sum(map(self._dropped, list(self.steps.values()))):
            pass

    def _dropped(self, step: Step) -> bool:
        lost = self._lost(step)
        if not lost:
            return False
        reduced = without(step, lost)
        systems = reduced.options.get("systems") if reduced else None
        names = {str(one).partition("=")[0] for one in systems} if isinstance(systems, list | dict) else set()
        compares = len(names) > 1 and {step.options.get("baseline")} <= {None, *names}
        if reduced and (compares or step.pipeline in _REDUCED):
            self.steps[step.name] = reduced
            return True
        first = next(iter(lost.values()))
        self.left_out.append(
            LeftOut(step.name, step.place, f"{entry_of(first.name)} is left out", first.needs or step.needs)
        )
        del self.steps[step.name]
        self.rewritten = self.rewritten and step.name != "rewrite"
        self.sets = [one for one in self.sets if not any(map(self._left_out_of, references(one.root)))]
        kept = {name: [one for one in steps if one != step.name] for name, steps in self.systems.items()}
        self.systems = {name: steps for name, steps in kept.items() if steps}
        return True

    def _lost(self, step: Step) -> dict[str, LeftOut]:
        """What a step names that was left out, by the reference."""
        return {one: out for one in references(step.options) if (out := self._left_out_of(one))}

    def comparison(self) -> None:
        scores: list[Value] = [f"{name}=@{step}" for name, steps in self.systems.items() for step in steps]
        if scores:
            # Dashes where a system was not scored on a set that another was.
            options: Options = {"all": True, **self.suite.compare, "systems": scores}
            self._add(COMPARISON, ("compare",), options, "compare")

    def release(self) -> None:
        if self.suite.release is None:
            return
        sets = [*([("variants", "@rewrite")] if self.rewritten else []), *((one.name, one.root) for one in self.sets)]
        files = release_files(self.suite, sets, self.steps)
        named = [*references(self.suite.release), *(one[1:] for _, one in sets if one.startswith("@"))]
        named += [name for name in ("compose", "statistics") if name in self.steps]
        for name in named:
            if owner(name, self.steps) is None and name.partition("/")[0] not in HEADS:
                raise self.suite.error(_no_step(name, self.steps), "release")
        after = tuple(dict.fromkeys(one for name in named if (one := owner(name, self.steps)) is not None))
        options: Options = {"config": f"@{RELEASE_CONFIG}"}
        reads = (self.suite.corpus.sgd, [root for _, root in sets], self.suite.release, [f"@{name}" for name in after])
        self._add("release", ("release", "build"), options, "release", after=after, files=files, reads=reads)

    # What all of them share.

    def _exactly_one(self, options: Options, keys: Sequence[str], place: str) -> str:
        """The one of some keys that is given; the others are removed where they are empty."""
        there = [key for key in keys if key in options]
        given = [key for key in there if not self._is_empty(options[key])] or there[:1]
        if len(given) != 1:
            found = f"found {' and '.join(given)}" if given else "found none of them"
            raise self.suite.error(f"give exactly one of {', '.join(keys)}: {found}", place)
        for key in there:
            if key not in given:
                del options[key]
        return given[0]

    def _expanded(self, value: Value) -> Value:
        """A value with what ``@corpus``, ``@variants`` and ``@INPUT`` stand for, and files for a path with ``*``."""
        if isinstance(value, dict):
            return self._expanded_table(value)
        if isinstance(value, list):
            items: list[Value] = []
            for item in value:
                expanded = self._expanded(item)
                items += expanded if isinstance(expanded, list) and not isinstance(item, list) else [expanded]
            return items
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
        found = sorted(glob.glob(str(self.suite.folder / path)))
        return [f"{before}{file}" for file in found] if found else ""

    def _expanded_table(self, table: Mapping[str, Value]) -> Value:
        """The same for a table, without the paths with ``*`` for which there is no file; empty where there is none."""
        expanded = {key: self._expanded(item) for key, item in table.items()}
        found = {key: item for key, item in expanded.items() if item != "" or "*" not in str(table[key])}
        given = {key: _single(item) if isinstance(table[key], str) else item for key, item in found.items()}
        return given if given or not table else ""

    def _left_out_of(self, reference: str) -> LeftOut | None:
        """What was left out and would write what a reference names."""
        if self._owner(reference) is not None:
            return None
        return next((one for one in self.left_out if entry_of(one.name) == entry_of(reference)), None)

    def _add(
        self,
        name: str,
        command: tuple[str, ...],
        options: Options,
        place: str,
        needs: str = "",
        about: str = "",
        after: tuple[str, ...] = (),
        files: dict[str, str] | None = None,
        reads: tuple[Value, ...] = (),
    ) -> bool:
        """Adds a step, unless it cannot be had: then it says so and gives False."""
        if part := next((part for part in name.split("/") if not NAME.fullmatch(part)), None):
            raise self.suite.error(f"{part!r} {NO_NAME}", f"{place}.name")
        if name.partition("/")[0] in RESULTS:
            raise self.suite.error(f"{name!r} is a file of the suite itself: give it another name", f"{place}.name")
        if name in self.steps:
            raise self.suite.error(f"there is a step {name!r} already: give this one another name", f"{place}.name")
        options = {key: self._expanded(value) for key, value in options.items()}
        step = Step(
            name=name,
            command=command,
            options=options,
            place=place,
            about=about or _ABOUT.get(name, ""),
            needs=needs,
            after=after,
            files=files or {},
            reads=reads,
        )
        if self.skipped(name):
            self.left_out.append(LeftOut(name, place, "--skip names it", ""))
            return False
        if self._is_missing(name, options, place, needs):
            return False
        if lacking := self.lacks(step):
            if not needs:
                raise self.suite.error(lacking, f"{place} ({name})")
            self.left_out.append(LeftOut(name, place, lacking, needs))
            return False
        self.steps[name] = step
        return True

    def _is_missing(self, name: str, options: Options, place: str, needs: str) -> bool:
        """Whether an option is the empty text: it must still be given. Raises InputError without ``needs``."""
        empty = next((key for key, value in options.items() if value in ("", [], [""])), None)
        if empty is None:
            return False
        if not needs:
            raise self.suite.error("is empty: give it here or with --set", f"{place}.{empty}")
        self.left_out.append(LeftOut(name, place, f"{empty} is not given", needs))
        return True

    def _owner(self, reference: str) -> str | None:
        """The step that writes what a reference names."""
        return owner(reference, self.steps)

    def graph(self) -> Graph:
        if not self.steps:
            self._refuse_nothing()
        needs: dict[str, frozenset[str]] = {}
        for step in self.steps.values():
            named = [self._step_of(one, step) for one in references(step.options) if one not in step.files]
            needs[step.name] = frozenset(filter(None, [*step.after, *named]))
        for one in self.sets:
            for reference in references(one.root):
                if self._owner(reference) is None and reference != SAMPLE[1:]:
                    raise self.suite.error(_no_step(reference, self.steps), f"sets ({one.name})")
        try:
            order = list(TopologicalSorter({name: sorted(of) for name, of in needs.items()}).static_order())
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            raise self.suite.error(
                f"steps need each other in a circle: {circle}", self.steps[error.args[1][0]].place
            ) from None
        for i, table in enumerate(self.suite.tables):
            self._check_pointers(table, f"tables[{i}]")
        return Graph(
            steps={name: self.steps[name] for name in order},
            needs=needs,
            sets=self.sets,
            systems=list(self.systems),
            left_out=self.left_out,
        )

    def _refuse_nothing(self) -> None:
        """Raises InputError where everything is left out."""
        for name, path in self.suite.inputs.items():
            if not path:
                raise self.suite.error(f"is empty: give it here, or --set inputs.{name}=PATH", f"inputs.{name}")
        for one in self.left_out:
            raise self.suite.error(f"everything is left out: {one.reason}. {one.needs}".rstrip(" ."), one.place)

    def _is_empty(self, value: Value) -> bool:
        """Whether a value is still to be given: the empty text, an empty input, or a table with one of these."""
        if isinstance(value, dict):
            return any(map(self._is_empty, value.values()))
        return value == "" or (isinstance(value, str) and self.suite.inputs.get(value[1:]) == "" and value[0] == "@")

    def _step_of(self, reference: str, step: Step) -> str:
        if reference.split("/")[0] == SAMPLE[1:]:
            return ""
        found = self._owner(reference)
        if found is None:
            raise self.suite.error(_no_step(reference, self.steps), f"{step.place} ({step.name})")
        return found

    def _check_pointers(self, table: Table, place: str) -> None:
        for i, row in enumerate(table.rows):
            for key in ("ours", "relative_to"):
                for pointer in filter(None, getattr(row, key)):
                    for seed in self.suite.seeds if SEED in pointer else self.suite.seeds[:1]:
                        reference = pointer.replace(SEED, seed)[1:].partition("#")[0]
                        if self._owner(reference) is None and not (row.needs or self._left_out_of(reference)):
                            raise self.suite.error(_no_step(reference, self.steps), f"{place}.rows[{i}].{key}")


def _single(value: Value) -> Value:
    """A value; of a list with one item, as of a path with ``*`` that one file has, that item."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _set_name(one: str, perturbation: str, name: str) -> str:
    """What a set of a perturbation is called where the perturbation's entry has a name of its own."""
    if name == perturbation:
        return one
    return f"{name}{one.removeprefix(perturbation)}" if one.startswith(perturbation) else f"{name}-{one}"


def _step_name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("name") or str(entry.get("pipeline", "")).partition(" ")[0])


def _no_step(reference: str, steps: Iterable[str]) -> str:
    return f"@{reference}: " + unknown_key(reference.split("/")[0], list(steps), "step")
