"""``parapet predict llm`` and its siblings, or ``predict --endpoint``: language models behind an endpoint.

They predict states, out-of-domain turns, utterances of acts and answers of bAbI dialogues, and read and write the same
files as the trained models of each task.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from parapet.pipelines.command import counted, say
from parapet.pipelines.corpora import SetOptions, TaskOptions
from parapet.pipelines.endpoint_flags import ModelOptions, cache_in, tokens_of
from parapet.pipelines.models import family, trained
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import MANIFEST
from parapet.transforms.core import options
from parapet.transforms.core.options import INPUT, OUTPUT, folder, option

if TYPE_CHECKING:
    from parapet.evaluation.endpoint.asking import Asker, Prompt
    from parapet.evaluation.models import inference
    from parapet.transforms.core.chat import Chat

_ANSWER = 60  # tokens of an answer, in estimates


class Task(NamedTuple):
    """A task's part of a prediction.

    Attributes:
      of: the job whose files are read and written.
      make: makes the object that asks the model, from a client.
      options: the header's options, with the sets.
      inputs: the files.
      outputs: path to the name of its counts.
    """

    of: inference.Job[Any, Any, Any]
    make: Callable[[Chat], Asker]
    options: dict[str, Any]
    inputs: Sequence[str]
    outputs: Mapping[str, str]


class LanguageModel(ModelOptions, family.Predict):
    """A language model that is asked as a subclass defines; ``prompt_name`` is the prompt's default template."""

    prompt_name: ClassVar[str]
    group = "language model"
    cache: str | None = option(None, "file of answers (default: in OUT)", group=OUTPUT, rare=True, metavar="FILE")
    max_bad: Fraction = options.max_bad("requests")
    repeats: int = options.repeats("answers to each request, each run in a folder: run-0, run-1, ...")
    dry_run: bool = options.dry_run()

    @abstractmethod
    def plan(self, prompt: Prompt) -> Task:
        """Checks the input files. Raises InputError if they cannot be used."""

    def check(self) -> family.Prediction:
        """Checks the endpoint and the files. Raises InputError if they cannot be used."""
        from parapet.evaluation.endpoint.asking import Job, prompt_of, run_path
        from parapet.evaluation.sets import run_name

        cache = cache_in(self.output, self.cache)
        prompt = prompt_of(self.prompt_name, self.prompt)
        task = self.plan(prompt)
        endpoint = self.endpoint_or_embedded(dry=self.dry_run)
        job = Job(
            output=self.output,
            model=self.model_name,
            of=task.of,
            make=task.make,
            endpoint=endpoint,
            cache=cache,
            counted=self.count_out,
            repeats=self.repeats,
        )
        about = {"name": endpoint.model, **endpoint.parameters(), "dollars": list(endpoint.dollars)}
        if not endpoint.known_as:
            about["endpoint"] = endpoint.url
        repeats = {"repeats": self.repeats} if self.repeats > 1 else {}
        header = {
            **run_header(f"predict_{self.model_name}", task.options | repeats),
            "model": about,
            "prompt": prompt.about,
            "inputs": [family.named_digest(path) for path in task.inputs],
        }
        outputs = task.outputs
        if self.repeats > 1:
            outputs = {
                run_path(path, i): f"{run_name(i)}/{name}".rstrip("/")
                for i in range(self.repeats)
                for path, name in task.outputs.items()
            }
        return family.Prediction(job, header, outputs)

    def report(self, prediction: family.Prediction, counters: dict[str, int]) -> None:
        """Prints what was written and what it cost, and warns about refusals; or prints the plan, in a dry run."""
        from parapet.evaluation.endpoint.outcomes import left_out, refusals, totals

        job: Any = prediction.job
        if self.dry_run:
            return _print_plan(job)
        super().report(prediction, counters)
        counts = self.written(MANIFEST)["counts"]
        sums = Counter(totals(counts))
        say(f"{sums['unread']:,} answers that could not be read count as wrong")
        if n := sums["written_calls"]:
            say(f"{counted(n, 'call')} written as text, because the endpoint passed none in the form of its API")
        tokens = tokens_of(job.endpoint, sums["tokens_sent"], sums["tokens_answered"])
        say(f"{tokens}, including those of answers that were kept from earlier runs")
        if names := left_out(counts):
            logging.warning("left out of all requests, as the endpoint does not take it: %s", names)
        refused, requests, reason = refusals(counts)
        if refused:
            text = "%s of %s were refused and will not be scored: %s; run the same command again to ask for them again"
            logging.warning(text, f"{refused:,}", counted(requests, "request"), reason)


def _print_plan(job: Any) -> None:
    """Prints the plan of ``--dry_run``: requests, and estimates of tokens and dollars."""
    from parapet.evaluation.endpoint.asking import estimate
    from parapet.transforms.core.chat import CHARACTERS_OF_TOKEN

    estimates = estimate(job)
    calls = estimates.calls - estimates.kept
    print(f"{counted(calls, 'call')} to make, {estimates.kept:,} more are answered already")
    tokens = tokens_of(job.endpoint, round(estimates.characters / CHARACTERS_OF_TOKEN), calls * _ANSWER)
    print(f"about {tokens}\ndry run: nothing was sent or written")


class States(SetOptions, LanguageModel):
    """Predicts dialogue states."""

    prompt_name = "states"
    description = """\
Asks a language model behind an OpenAI-compatible API for the state of every service in every user turn, and writes
dialogues with predicted states. Every answer is kept at once: run the same command again after a stop. Answers that
cannot be read count as wrong; refused requests are not scored."""
    example = """\
  parapet predict llm --endpoint embedded --output my_states             # the sample, a small local model
  parapet predict llm --endpoint https://api.openai.com/v1 --model gpt-4o-mini --price 0.15,0.60 --output my_states \\
      --reference my_corpus --variants my_dialogues --dry_run"""
    count_out, shown = "predicted", ("predicted", "frame")
    reference: str | None = option(None, "{reference_text}", group=INPUT, also=("--sgd",), metavar="ROOT", reads=True)
    style: Literal["tools", "json", "text"] = option("json", "ask for a function call, a JSON Schema, or lines of text")
    as_answered: bool = option(False, "do not spell values as the schema or the dialogue has them")

    def plan(self, prompt: Prompt) -> Task:
        """Lists the sets of dialogues."""
        from parapet.evaluation.endpoint.models import LanguageModel as Tracker
        from parapet.evaluation.models.dst import Job

        sources, normalise = self.sources(), not self.as_answered
        sets, files = family.plan_sets(sources)
        return Task(
            of=Job(output=self.output, model=self.model_name, sets=sets, inputs=files),
            make=partial(Tracker, style=self.style, normalise=normalise, prompt=prompt),
            options={"split": sources.split, "sets": list(sets), "style": self.style, "normalised": normalise},
            inputs=[file.path for file in files],
            outputs={f"predictions/{name}": name for name in sets},
        )


class OutOfDomain(SetOptions, LanguageModel):
    """Predicts whether turns are out of domain."""

    prompt_name = "ood"
    description = """\
Asks a language model of each user turn whether it is in the domain of the services, and how sure it is: scores and
decisions for 'parapet evaluate --task ood'. Answers are kept, and count, as those of 'predict llm'."""
    example = "  parapet predict llm_ood --endpoint embedded --reference my_foreign_turns --output my_scores"
    reference_text = "corpus, output of 'ood', or JSON lines with utterance (default: the bundled sample)"
    shown = ("answered", "turn")
    domains: str | None = folder("schemas of what is in the domain (default: those of the reference)", "PATH", None)

    def plan(self, prompt: Prompt) -> Task:
        """Lists the turns. Raises InputError if they cannot be used, or if nothing defines the domains."""
        from parapet.evaluation.endpoint.models import Router
        from parapet.evaluation.models import turns
        from parapet.evaluation.ood import is_of_ood
        from parapet.schemas.layout import as_path, read_root

        sources = self.sources()
        reference = turns.find(sources, "ood")
        root = as_path(self.domains or sources.reference)
        if root.is_file() and not self.domains:
            raise InputError("lines of turns do not say what is in the domain: give its schemas", "--domains")
        if is_of_ood(str(root)) and not self.domains:
            root = sorted(path for path in root.iterdir() if (path / "turns").is_dir())[0]
        services = {
            service.service_name: service for split in read_root(root, leave_out_bad=True) for service in split.services
        }
        job = turns.Job(output=self.output, model=self.model_name, task="ood", threshold=0.5, reference=reference)
        return Task(
            of=job,
            make=partial(Router, services=tuple(services.values()), prompt=prompt),
            options={"task": "ood", "split": sources.split, "threshold": 0.5},
            inputs=[path for files in reference.sources for _, path in files if as_path(path).is_file()],
            outputs={job.place: ""},
        )


class Utterances(SetOptions, LanguageModel):
    """Generates utterances from dialogue acts."""

    prompt_name = "utterances"
    description = """\
Asks a language model for an utterance of the acts of each system turn, given as the stiff sentences that a T5 gets
('train ft_t5'). Answers are kept as those of 'predict llm'."""
    example = "  parapet predict llm_utterances --endpoint embedded --output my_utterances"
    variants_text = options.SCHEMA_VARIANTS
    sets_text = "other corpora: entities=unseen"
    count_in, count_out, shown = "turns", "said", ("said", "turn")

    def plan(self, prompt: Prompt) -> Task:
        """Lists the system turns."""
        from parapet.evaluation.endpoint.models import Speaker
        from parapet.evaluation.models import generation
        from parapet.evaluation.models.generation import Job, Search, relative_of

        sources = self.sources()
        sets = tuple(generation.sources(sources))
        return Task(
            of=Job(output=self.output, model=self.model_name, search=Search(1, 1, 0), sets=sets, split=sources.split),
            make=partial(Speaker, prompt=prompt),
            options={"split": sources.split, "sets": [source.name for source in sets]},
            inputs=[file.path for source in sets for file in source.files],
            outputs={relative_of(source.name, sources.split): source.name for source in sets},
        )


class BabiAnswers(LanguageModel, trained.AnswerOptions):
    """Predicts the bot's lines in bAbI dialogues."""

    prompt_name = "babi"
    description = """\
Asks a language model for the bot's line at each turn of dialogues in the bAbI format, for 'parapet evaluate --task
ranking'. With --candidates the one most like its answer is taken. Answers are kept as those of 'predict llm'."""
    example = "  parapet predict llm_babi --endpoint embedded --reference babi/task1-tst.txt --output my_answers"
    count_in, count_out, shown = "turns", "answers", ("answers", "answer")
    examples: str | None = folder("dialogues of the task, of which the prompt shows some", "FILE", None)
    shots: int = option(3, "how many examples the prompt shows", group=INPUT, ge=0)
    candidates: str | None = folder("what may be answered (default: anything)", "FILE", None)

    def plan(self, prompt: Prompt) -> Task:
        """Lists the test files. Raises InputError if one cannot be used."""
        from parapet.evaluation.endpoint.models import Bot
        from parapet.evaluation.models.babi import Job, read_candidates, read_dialogues

        if self.top > 1 and not self.candidates:
            raise InputError("requires --candidates, which are ranked: add them", "--candidates")
        files = self.files()
        shown = tuple(read_dialogues(self.examples)[: self.shots]) if self.examples else ()
        candidates = tuple(read_candidates(self.candidates)) if self.candidates else ()
        return Task(
            of=Job(output=self.output, model=self.model_name, inputs=files, top=self.top),
            make=partial(Bot, examples=shown, candidates=candidates, prompt=prompt),
            options={"top": self.top, "shots": len(shown)},
            inputs=[*(file.path for file in files), *filter(None, (self.examples, self.candidates))],
            outputs={file.answers: file.answers for file in files},
        )


class ToolCalls(TaskOptions, LanguageModel):
    """Predicts calls of tools."""

    prompt_name = "tools"
    description = """\
Asks a language model for the tool calls of tasks in BFCL's format, for 'parapet evaluate --task tool_calls'. Answers
are kept, and count, as those of 'predict llm'."""
    example = "  parapet predict llm_tools --endpoint embedded --reference BFCL_v4_multiple.json --output my_calls"
    count_out, shown = "called", ("called", "task")
    style: Literal["tools", "json"] = option(
        "tools", "ask by the API's function calling, or for a list of calls as JSON"
    )

    def plan(self, prompt: Prompt) -> Task:
        """Lists the files of tasks."""
        from parapet.evaluation.tools.agent import Job, TaskFile, ToolCaller
        from parapet.evaluation.tools.tasks import list_files
        from parapet.schemas.layout import as_path

        sets, _ = self.task_sets()
        files = tuple(
            TaskFile(name, path, f"predictions/{name}/{as_path(path).stem}.jsonl")
            for name, paths in list_files(self.reference, sets).items()
            for path in paths
        )
        return Task(
            of=Job(output=self.output, model=self.model_name, inputs=files),
            make=partial(ToolCaller, style=self.style, prompt=prompt),
            options={"style": self.style, "sets": list(dict.fromkeys(file.set for file in files))},
            inputs=[file.path for file in files],
            outputs={file.answers: file.answers for file in files},
        )
