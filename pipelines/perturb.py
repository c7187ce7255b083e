"""``parapet perturb NAME`` and the commands named after a perturbation: runs it on a corpus, chats or agents' tasks."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from parapet.pipelines import app, corpora, main
from parapet.pipelines.command import configure_logging, counted, import_beam, say
from parapet.pipelines.command import run as run_command
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import MANIFEST
from parapet.transforms.core import options, plugins
from parapet.transforms.core.options import INPUT, REQUIRED, option
from parapet.transforms.perturb import options as own_options
from parapet.transforms.perturb.options import PerturbationOptions

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.perturb.base import Perturbation
    from parapet.transforms.perturb.files import PerturbCorpus, Reworded
    from parapet.transforms.perturb.toolkits import Toolkits

EXAMPLE = """\
  parapet perturb typos --output typos           # the sample's test dialogues
  parapet perturb my_perturbation --sgd sgd --split dev,test --output perturbed
  parapet perturb typos --help                   # the options of one"""

USAGE = """usage: parapet perturb PERTURBATION [flags]

Perturbs a corpus, and writes OUT/SET/test/dialogues_001.json, a row for every
change in OUT/SET/turns, statistics, and a page with examples.
"""

# Parapet's own perturbations: where their options are declared, and summaries. Help imports none of the modules.
REWRITE, TRANSLATING = "rewrite", "language_variations"
_OWN = "parapet.transforms.perturb"
DECLARED = {
    REWRITE: ("parapet.transforms.variants:VariantOptions", ""),
    TRANSLATING: ("parapet.pipelines.language_variations:LanguageVariation", ""),
    "speech_errors": (f"{_OWN}.speech:SpeechErrorOptions", "users are misheard by a speech recogniser"),
    "unseen_entities": (f"{_OWN}.entities:UnseenEntityOptions", "users name values that training does not have"),
    "ood": (f"{_OWN}.ood:OutOfDomainOptions", "users also say things that are out of domain"),
    "typos": (f"{_OWN}.options:TypoOptions", "users mistype words, but no values"),
    "verbose": (f"{_OWN}.options:VerboseOptions", "users say the same in more words"),
    "simple": (f"{_OWN}.options:SimpleOptions", "users say the same in fewer words"),
    "paraphrase": (f"{_OWN}.options:ParaphraseOptions", "users say the same in other words"),
}
TOOLKITS = {  # that only tasks of agents have
    "distractors": "Adds similar tools of the other tasks: OUT/distractors-10/FILE.",
    "corrupted": "Replaces and reorders words of names and descriptions: OUT/corrupted-replace/, -order/, -both/.",
    "missing_tool": "Takes the right tools away: nothing is to be called. OUT/missing_tool/FILE.",
}


class Perturb(PerturbationOptions, corpora.CorpusPipeline["PerturbCorpus"]):
    """A perturbation on a corpus or on chats."""

    name = "perturb PERTURBATION"
    description = "Perturbs a corpus."
    example = EXAMPLE

    def check(self) -> PerturbCorpus:
        """Reads the corpus, and makes and fits the perturbation. Raises InputError if they cannot work."""
        from parapet.transforms.core.runs import RunInfo
        from parapet.transforms.perturb.apply import check_needs_none, complete
        from parapet.transforms.perturb.corpora import check_languages, listed, messages_corpus, read_corpus
        from parapet.transforms.perturb.files import PerturbCorpus

        if self.messages and self.sgd:
            raise InputError("give either --sgd or --messages", "--messages")
        perturbation = complete(self.make())
        splits = None if "split" in self.without else [*dict.fromkeys(listed(self.split))]
        if self.messages:
            check_needs_none(perturbation, "chat messages", "--messages")
            corpus = messages_corpus(self.messages)
        else:
            corpus = read_corpus(self.root, splits)
        perturbation.splits = tuple(corpus.folders)
        check_languages(perturbation.name, perturbation.languages, corpus, "--messages" if self.messages else "--sgd")
        needs_whole = perturbation.needs_corpus() or perturbation.analyzes_all_splits
        whole = read_corpus(self.root, None) if needs_whole and splits and not self.messages else corpus
        perturbation.prepare(whole)
        analyzed = whole if perturbation.analyzes_all_splits else corpus
        for line in analyzed.problems:
            logging.warning("%s", line)
        hidden = (*self.without, "split") if self.messages else self.without
        shared = {name: getattr(self, name) for name in ("split", "seed") if name not in hidden}
        options = {**shared, "max_bad": float(self.max_bad), **self.recorded(), **perturbation.recorded_options()}
        options = {name: value for name, value in options.items() if value not in ("", None, (), [])}
        own = [] if perturbation.name in DECLARED else [plugins.choose(plugins.PERTURBATIONS, perturbation.name, "")]
        header = plugins.recorded(*own, *perturbation.engines.values())
        info = RunInfo(self.name, self.output, options, self.max_bad, self.done, header)
        return PerturbCorpus(perturbation, corpus, info, analyzed.files)

    def recorded(self) -> dict[str, object]:
        """Lists its own options for ``run.json``: of files and folders the names, as paths differ between machines."""
        shared = {item.name for item in fields(Perturb)}
        values = [(flag, getattr(self, flag.name)) for flag in app.flags_of(type(self)) if flag.name not in shared]
        return {
            flag.name: value.rpartition("/")[2] if flag.facts["path"] and isinstance(value, str) else value
            for flag, value in values
            if value is not None and value is not False
        }

    def inputs(self, perturb: PerturbCorpus) -> list[tuple[str, str]]:
        """Lists the dialogues, and what the perturbation reads besides."""
        read = [("--messages", path) for path in self.messages] or [("--sgd", self.root)]
        return [*read, *perturb.perturbation.worker_inputs()]

    def wire(self, pipeline: beam.Pipeline, perturb: PerturbCorpus) -> None:
        """Perturbs the dialogue files, and writes each set with rows, statistics, a card and a page."""
        _ = pipeline | "Perturb" >> perturb

    def report(self, perturb: PerturbCorpus, counters: dict[str, int]) -> int | None:
        """Prints the metrics of each set; for a dry run, what it would cost."""
        from parapet.transforms.perturb.corpora import in_languages

        if not self.dry_run:
            return super().report(perturb, counters)
        files = [in_languages(file, perturb.perturbation.languages) for file in perturb.corpus.files]
        for line in perturb.perturbation.plan_lines(files):
            print(line)
        return None

    def lines(self, perturb: PerturbCorpus, statistics: Any) -> Iterator[str]:
        """Yields the metrics of each set, and warns about what is remarkable."""
        from parapet.transforms.perturb.page import lines_of, notes_of

        yield from lines_of(perturb.perturbation, statistics)
        for note in notes_of(perturb.perturbation, statistics):
            logging.warning("%s", note)


COMMAND = Perturb  # for completion, before the name of a perturbation is known


def command(name: str, has_tasks: bool = False, program: str = "") -> type[app.Pipeline[Any]]:
    """Returns the command of a perturbation.

    Args:
      name: the perturbation, or a change of toolkits.
      has_tasks: whether it perturbs tasks of agents instead of a corpus.
      program: the words after ``parapet``, if they are not ``perturb NAME``.

    Raises:
      InputError: the perturbation is not installed, cannot be imported, or does not perturb tasks.
    """
    program = program or f"perturb {name}"
    if has_tasks or name in TOOLKITS:
        from parapet.pipelines import rewrite_tasks

        return rewrite_tasks.RewriteTasks if name == REWRITE else tasks_command(name)
    return combined(options_of(name), Perturb, name=program)


def combined(*bases: type[Any], **attributes: object) -> type[Any]:
    """Makes the class of a command: of a perturbation's options, and of what is perturbed."""
    distinct = [base for base in bases if base is bases[0] or not issubclass(bases[0], base)]
    return type(bases[0].__name__, (*distinct,), attributes)


def options_of(name: str) -> type[PerturbationOptions]:
    """Returns the options of a perturbation. Raises InputError if it is not installed or cannot be imported."""
    if name in DECLARED:
        module, _, attribute = DECLARED[name][0].partition(":")
        declared: type[PerturbationOptions] = getattr(importlib.import_module(module), attribute)
        return declared
    from parapet.transforms.perturb.apply import installed

    return declared_options(installed(name))


def declared_options(perturbation: type[Perturbation]) -> type[PerturbationOptions]:
    """Declares the keyword arguments of a plug-in as options.

    The default determines how a flag is parsed: False as a switch, a number as a number, anything else as text. An
    option without a value keeps the default.
    """
    name = perturbation.name
    types: dict[str, type] = {}
    declared: dict[str, Any] = {}
    for parameter in inspect.signature(perturbation).parameters.values():
        default, flag = parameter.default, parameter.name
        if flag in ("seed", "max_bad") or parameter.kind.name not in ("KEYWORD_ONLY", "POSITIONAL_OR_KEYWORD"):
            continue
        if hasattr(Perturb, flag) or flag in Perturb.__dataclass_fields__:
            raise InputError(f"the perturbation {name} has an option {flag!r}, a name that Parapet uses")
        text = "a keyword argument of the plug-in"
        if default is not False and default not in ("", None, parameter.empty):
            text += f" (default: {','.join(map(str, default)) if isinstance(default, tuple) else default})"
        types[flag] = type(default) if isinstance(default, int | float) else str
        without = REQUIRED if default is parameter.empty else False if default is False else None
        declared[flag] = option(without, text, metavar="LIST" if isinstance(default, tuple) else "")
    has_messages = perturbation.keeps_turns and not perturbation.needs_annotation
    summary = (inspect.getdoc(perturbation) or "").partition("\n")[0]
    attributes = {
        "__annotations__": types,
        "description": f"{summary} {own_options.FILES}",
        "example": own_options.EXAMPLE.format(name),
        "group": f"options of {name}",
        "without": ("dry_run",) if has_messages else ("messages", "dry_run"),
        "perturbation": staticmethod(lambda: perturbation),
    }
    return type(perturbation.__name__, (PerturbationOptions,), declared | attributes)


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0].startswith("-"):
        print(usage(), end="")
        return 0 if argv and main.canonical(argv[0]) in ("_h", "__help", "__help_all") else 2
    name = main.spelling(argv[0], [*DECLARED, *plugins.names(plugins.PERTURBATIONS)]) or argv[0]
    return run_named(name, argv[1:], f"perturb {name}")


def run_named(name: str, argv: Sequence[str], program: str = "") -> int:
    """Runs the command of a perturbation under the name ``parapet PROGRAM``. Returns the exit status."""
    program = program or name
    flags = {main.canonical(argument.partition("=")[0]) for argument in argv}
    try:
        if name not in DECLARED and name not in TOOLKITS:
            configure_logging(quiet=True)  # Beam warns about what is not installed
            import_beam(argv)
        kind = command(name, "__tasks" in flags, program)
        if issubclass(kind, Perturb) and "messages" in kind.without and "__messages" in flags:
            raise InputError(f"{name} needs schemas and states, which chat messages do not have", "--messages")
    except InputError as error:
        print(f"parapet {program.partition(' ')[0]}: {error}", file=sys.stderr)
        return 2
    return run_command(kind, argv)


def usage() -> str:
    """The help: the perturbations that are installed. None of them is imported, so that help is quick."""
    installed = plugins.installed(plugins.PERTURBATIONS)
    summaries = {plugin.name: f"plug-in of {plugin.distribution} {plugin.version}" for plugin in installed}
    summaries |= {plugin.name: DECLARED[plugin.name][1] for plugin in installed if plugin.built_in}
    toolkits = {name: text.partition(":")[0].rstrip(".") for name, text in TOOLKITS.items()}
    own, of_tasks = ("\n".join(f"  {name:20}{text}" for name, text in table.items()) for table in (summaries, toolkits))
    return f"{USAGE}\nperturbations:\n{own}\n\nonly for agents' tasks (--tasks):\n{of_tasks}\n\nexample:\n{EXAMPLE}\n"


@dataclass(frozen=True)
class TaskSets:
    """The files of tasks, what is done to them, and the head of ``run.json``."""

    files: list[str]
    sets: Reworded | Toolkits
    header: dict[str, Any]


class TasksPipeline(app.Pipeline[TaskSets]):
    """Writes each file of tasks in every set."""

    tasks: list[str] = option(REQUIRED, corpora.TASKS, group=INPUT, metavar="PATH", reads=True)

    def files(self) -> list[str]:
        """Lists the files of ``--tasks``. Raises InputError if one cannot be read."""
        from parapet.evaluation.tools.tasks import list_files, read_tasks

        (files,) = list_files(self.tasks, {}).values()
        for path in files:
            read_tasks(path)
        return files

    def inputs(self, tasks: TaskSets) -> list[tuple[str, str]]:
        """Lists the files that workers read: the tasks."""
        return [("--tasks", path) for path in tasks.files]

    def build(self, pipeline: beam.Pipeline, tasks: TaskSets) -> None:
        """Wires the pipeline."""
        import apache_beam as beam

        from parapet.transforms.core import files
        from parapet.transforms.core.counts import CountKey
        from parapet.transforms.core.runs import WriteEach
        from parapet.transforms.perturb.toolkits import Toolkits, catalogue_of

        files.prepare(self.output, tasks.header["pipeline"])
        paths = pipeline | "Files" >> beam.Create(tasks.files)
        side = []
        if isinstance(tasks.sets, Toolkits) and tasks.sets.name != "corrupted":
            once = pipeline | "Once" >> beam.Create([tasks.files], reshuffle=False)
            side = [beam.pvalue.AsSingleton(once | "Catalogue" >> beam.Map(catalogue_of))]
        write = partial(tasks.sets.write, output=self.output)
        outputs = paths | "Tasks" >> WriteEach(write, *side, shown=0, progress=())
        counts = outputs.counts | "By name" >> beam.MapTuple(lambda key, n: (str(CountKey(*key)), n))
        _ = outputs.written | "Publish" >> files.Publish(self.output, tasks.header, counts, tasks.sets.check)

    def report(self, tasks: TaskSets, counters: dict[str, int]) -> None:
        """Prints the number of tasks, or of changed messages, in each set."""
        from parapet.transforms.perturb.corpora import OTHER_LANGUAGES
        from parapet.transforms.perturb.files import Reworded

        counts = self.written(MANIFEST)["counts"]
        if isinstance(tasks.sets, Reworded):
            if n := counts[OTHER_LANGUAGES]:
                known = ", ".join(tasks.sets.perturbation.languages)
                logging.warning("%s in other languages than %s: they stay as they are", counted(n, "message"), known)
            for name in tasks.sets.sets:
                messages = counted(counts["messages"], "message")
                say(f"{self.output}/{name}: {counts[f'changed/{name}']:,} of {messages} changed")
            return
        for name in tasks.sets.sets:
            fewer = counters.get(f"fewer_tools/{name}")
            lacking = f", {fewer:,} of them with fewer tools than asked for" if fewer else ""
            say(f"{self.output}/{name}: {counted(counts[name], 'task')}{lacking}")


class PerturbTasks(PerturbationOptions, TasksPipeline):
    """A perturbation of what users say in tasks."""

    def check(self) -> TaskSets:
        """Makes the perturbation. Raises InputError if it needs dialogues."""
        from parapet.transforms.perturb.apply import complete
        from parapet.transforms.perturb.files import Reworded

        files, perturbation = self.files(), complete(self.make())
        if not perturbation.keeps_turns or perturbation.needs_corpus():
            reason = f"{perturbation.name} requires dialogues, but the request of a task is a single turn"
            raise InputError(reason, "--tasks")
        recorded = {"perturbation": perturbation.name, **perturbation.recorded_options()}
        return TaskSets(files, Reworded(perturbation), run_header("perturb_tasks", recorded))


class ChangeToolkits(TasksPipeline):
    """A change of the tools that tasks offer."""

    change: ClassVar[str]
    without: ClassVar[tuple[str, ...]] = ()
    count: list[int] = option([5, 10, 20], "added tools: a set for each number", group="distractors", ge=1)
    seed: str = options.seed("what is drawn")

    def make(self) -> Toolkits:
        """Makes the change."""
        from parapet.transforms.perturb.toolkits import Toolkits

        return Toolkits(self.change, () if "count" in self.without else self.count, self.seed)

    def check(self) -> TaskSets:
        """Reads the tasks."""
        recorded = {name: getattr(self, name) for name in ("seed", "count") if name not in self.without}
        return TaskSets(self.files(), self.make(), run_header(f"perturb_{self.change}", recorded))


# The options that a change does not have.
_WITHOUT = {"distractors": (), "corrupted": ("count",), "missing_tool": ("count", "seed")}


def tasks_command(name: str) -> type[TasksPipeline]:
    """Returns the command of a perturbation of tasks, or of a change of their tools.

    Raises InputError if the perturbation is for dialogues, or is not installed.
    """
    if name == TRANSLATING:
        raise InputError(f"{name} is for dialogues: use typos, verbose, simple or paraphrase", "--tasks")
    program = f"perturb {name} --tasks"
    example = f"  parapet perturb {name} --tasks tasks.json --output perturbed"
    if name in TOOLKITS:
        own = {"change": name, "without": _WITHOUT[name], "description": TOOLKITS[name]}
        return combined(ChangeToolkits, name=program, example=example, **own)
    description = (
        f"Perturbs what users say in tasks in BFCL's format, by {name}: OUT/SET/FILE, with the right calls beside it. "
        f"Values that these need stay as they are. For 'parapet evaluate --task tool_calls --sets {name}=OUT/SET'."
    )
    kind = options_of(name)
    without = ("sgd", "messages", "split", "max_bad", "dry_run", *kind.without)
    return combined(kind, PerturbTasks, name=program, description=description, example=example, without=without)
