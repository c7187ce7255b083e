"""``parapet collect llm``: a language model fills in the forms of ``parapet hits``."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from parapet.pipelines.app import Command
from parapet.pipelines.collect import output_file
from parapet.pipelines.command import counted, read_good, say
from parapet.pipelines.endpoint_flags import EndpointOptions, number_or_none, tokens_of
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import DEAD_LETTERS, sample_root, services_by_name
from parapet.transforms.core import options
from parapet.transforms.core.options import PARALLEL_CALLS, REQUIRED, option

if TYPE_CHECKING:
    from parapet.transforms.core.chat import Chat, Endpoint
    from parapet.transforms.crowd.llm import Work

ANSWERS = "answers.jsonl"


class CollectLlm(EndpointOptions, Command["tuple[Endpoint, list[Work]]"]):
    """``parapet collect llm``; its settings are the model, and the forms, each with an annotator."""

    name = "collect llm"
    description = """\
Has a language model answer the forms of 'parapet hits', as annotators with different styles and temperatures. Answers
are marked as a model's (llm) and are vetted as those of people are; a model never counts as a person. Every answer is
kept at once, so a rerun costs nothing; after a run that was cut off, at most the calls that were under way
(--parallel_calls) are paid twice."""
    example = "  parapet collect llm --hits my_hits --endpoint http://127.0.0.1:8080/v1 --model qwen3 --output my_llm"
    group = "language model"
    stopped = "what was answered is kept, run the same command again"
    without = ("temperature",)
    hits: str = option(REQUIRED, "output of 'parapet hits' for schemas", group=options.INPUT, metavar="DIR", reads=True)
    schemas: str = options.schemas()
    output: str = options.output_folder()
    cache: str = output_file("file in which answers are kept (default: the name of --output with .sqlite)", rare=True)
    model: str = option(REQUIRED, "its name there", metavar="NAME")
    annotators: int | None = option(None, "annotators for each form (default: as the form wants)", ge=1, le=1_000)
    first_annotator: int = option(1, "number of the first annotator", rare=True, ge=1, le=100_000)
    temperatures: tuple[float | str, ...] = option(
        (0.3, 0.7, 1.0), "temperatures of the annotators, or none", commas=True, parse=number_or_none(float, 0)
    )
    parallel_calls: int = option(4, PARALLEL_CALLS, rare=True, ge=1, le=32)
    seed: int = options.seed("the model's answers", 0)
    max_bad: Fraction = options.max_bad("forms")
    dry_run: bool = options.dry_run()

    @property
    def kept_in(self) -> Path:
        """The file in which answers are kept."""
        return Path(self.cache or f"{self.output.rstrip('/')}.sqlite")

    def check(self) -> tuple[Endpoint, list[Work]]:
        """Reads the forms. Raises InputError if an option cannot be used."""
        from parapet.transforms.crowd import llm

        endpoint = self.endpoint_of(self.model, parallel=self.parallel_calls)
        if "://" in self.output and not self.cache:
            raise InputError("must be a local file, in which answers are kept", "--cache")
        sheets = llm.read_sheets(self.hits, services_by_name(read_good(self.schemas or sample_root())))
        sent = tuple(None if isinstance(item, str) else item for item in self.temperatures)
        return endpoint, llm.plan(sheets, self.annotators, sent, self.seed, self.first_annotator)

    def act(self, settings: tuple[Endpoint, list[Work]]) -> None:
        """Has the forms filled in, and writes the answers; or describes the requests."""
        from parapet.transforms.core.chat import Chat

        endpoint, work = settings
        cache = None if self.dry_run and not self.kept_in.exists() else self.kept_in
        with closing(Chat(endpoint, cache)) as chat:
            try:
                chat.open()
            except (sqlite3.Error, OSError) as error:
                raise InputError(f"cannot be used to store answers: {error}", cache, "--cache") from None
            if self.dry_run:
                self._estimate(chat, work)
            else:
                self._collect(chat, work)

    def _estimate(self, chat: Chat, work: list[Work]) -> None:
        from parapet.transforms.crowd import llm

        used = llm.estimate(chat, work)
        annotators = counted(len({item.annotator for item in work}), "annotator")
        say(f"{counted(len(work), 'form')} to fill in by {annotators}, simulated by {chat.endpoint.model}")
        tokens = tokens_of(chat.endpoint, used["sent"], used["answered"])
        say(f"{counted(used['calls'], 'call')} to make ({used['kept']:,} more are answered already), about {tokens}")
        say("dry run: nothing was sent or written")

    def _collect(self, chat: Chat, work: list[Work]) -> None:
        from parapet.evaluation.task import publish
        from parapet.pipelines.progress import running
        from parapet.transforms.crowd import llm

        endpoint = chat.endpoint
        with running(f"parapet {self.name}") as progress:
            done, reason = llm.fill_in_all(chat, work, lambda n, total: progress.count(n, "forms", total))
        used = sum((filled.used for _, filled in done), Counter[str]())
        calls = f"{counted(used['calls'], 'call')}, {used['kept']:,} more were answered already in {self.kept_in}"
        say(f"{endpoint.model}: {calls}; {tokens_of(endpoint, used['sent'], used['answered'])}")
        if reason:
            left = counted(len(work) - len(done), "form")
            raise InputError(f"{reason}; {left} left to fill in, run again to continue")
        if chat.left_out:
            left_out = ", ".join(sorted(chat.left_out))
            logging.warning("left out of all requests, as the endpoint does not take it: %s", left_out)
        refused = [filled.failed for _, filled in done if filled.failed.partition(":")[0] not in ("", llm.UNPARSABLE)]
        if len(refused) > self.max_bad * len(done):
            share = f"{len(refused):,} of {counted(len(done), 'form')}"
            raise InputError(f"{share} were refused, more than --max_bad {float(self.max_bad):.2%}: {refused[0]}")
        letters, answers = llm.dead_letters(done, endpoint.model), list(llm.lines(done, endpoint.model))
        if not answers:
            raise InputError(f"no form was filled in: {letters[0].reason}")
        files = {
            ANSWERS: b"".join(answers),
            DEAD_LETTERS: b"".join(msgspec.json.encode(letter) + b"\n" for letter in letters),
        }
        counts = {"forms": len(done), "answered": len(answers), "dead_letters": len(letters)}
        names = ("model", "endpoint", "annotators", "first_annotator", "temperatures", "seed")
        recorded = {
            "hits": list(dict.fromkeys(item.sheet.record.sha256[:32] for item in work)),
            **{name: getattr(self, name) for name in names},
            **{name: value for name, value in endpoint.parameters().items() if name != "temperature"},
        }
        publish(self.output, files, {**run_header(self.name, recorded), "counts": counts})
        for reason, n in Counter(letter.reason.partition(":")[0] for letter in letters).most_common():
            logging.warning("%s missing: %s; see %s/%s", counted(n, "answer"), reason, self.output, DEAD_LETTERS)
        say(f"{counted(len(answers), 'assignment')} in {self.output}/{ANSWERS}")


COMMAND = CollectLlm
