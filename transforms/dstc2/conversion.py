"""Calls of DSTC2 converted in batches: dialog bAbI task 6, the SGD layout, statistics and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import msgspec
from apache_beam.pvalue import TaggedOutput

from parapet.schemas.dialogue import dialogue_text
from parapet.schemas.errors import InputError, storable
from parapet.schemas.layout import schema_bytes
from parapet.transforms.babi_format import SILENCE, SPLITS, Exchange, Fact, Line, candidates_text, labelled_lines
from parapet.transforms.babi_format import dialogue_text as babi_text
from parapet.transforms.counts import Balance, CountKey, Counts, DeadLetter, Equal, Invariant, Tally
from parapet.transforms.dstc2.calls import ASR, Batch, Call, Logs, Ontology, read_call
from parapet.transforms.dstc2.knowledge import Knowledge, Statement, facts_about, gathered, statements_of
from parapet.transforms.dstc2.sgd import dialogue_of, schema_of, slots_of
from parapet.transforms.dstc2.task6 import NO_RESULT, Round, Words, lines_of, offers_of, rounds
from parapet.transforms.perturbation.fence import bad_record, trace_of
from parapet.transforms.perturbation.files import SetFiles
from parapet.transforms.progress import expect, tracked
from parapet.transforms.report import Examples, Report, Text, Tile, dialogue_example, report_files
from parapet.transforms.runs import FileResult
from parapet.transforms.simulators import nested_table
from parapet.transforms.text import counted

STATEMENTS = "statements"  # the output of read_batch besides the calls
BABI = "babi"  # a further output of write_batch

SET = "sgd"
FILE = "dialog-babi-task6-dstc2-{}.txt"
SHOWN = 3  # dialogues of a split on the page

_TOTALS = (
    *("dialogues", "left_out", "user_turns", "bot_turns", "api_calls", "no_result", "facts", "offers", "offers_found"),
)
# Bordes et al. 2017, Table 1, task 6: means of a dialogue, dialogues of a split, sizes of all.
PAPER_MEANS = {"utterances": 54, "user_turns": 6, "bot_turns": 8, "facts": 40}
PAPER_DIALOGUES = {"train": 1618, "dev": 500, "test": 1117}
PAPER_SIZES = {"vocabulary": 1229, "candidates": 2406}


class Config(msgspec.Struct, frozen=True):
    """The options of a run.

    Attributes:
      output: the output folder.
      logs: the calls, by split.
      split_rule: ``paper`` or ``original``.
      user: what users say: ``transcription`` or ``asr``.
      ontology: that of DSTC2.
      knowledge: the knowledge base; None where it is gathered from the calls.
      seed: of the ratings.
      max_bad: share of the calls of a split that may be left out.
    """

    output: str
    logs: Logs
    split_rule: str
    user: str
    ontology: Ontology
    knowledge: Knowledge | None
    seed: str
    max_bad: Fraction

    def options(self) -> dict[str, object]:
        """Those that shape the content, for ``run.json``."""
        return {
            "split_rule": self.split_rule,
            "user": self.user,
            "kb": self.knowledge is not None,
            "seed": self.seed,
            "max_bad": float(self.max_bad),
        }

    def tallies(self, counts: Counts) -> list[Tally]:
        """The records that count against ``max_bad``: the calls of each split."""
        return [
            Tally("call", counts.sum("calls", split=split), counts.sum("left_out", split=split), split, is_record=True)
            for split in self.logs.splits
        ]

    def invariants(self) -> list[Invariant]:
        """Every listed call is a dialogue of its split, or left out."""
        calls = {CountKey("calls", split=split): len(names) for split, names in self.logs.splits.items()}
        return [Equal(calls), Balance("calls", ["dialogues", "left_out"], splits=list(self.logs.splits))]


class CallBatch(msgspec.Struct, frozen=True):
    """The calls of a batch, and the dead letters of those that cannot be read."""

    batch: Batch
    calls: tuple[Call, ...]
    dead_letters: tuple[DeadLetter, ...]


def read_batch(batch: Batch, config: Config) -> Iterator[CallBatch | TaggedOutput]:
    """Reads calls; with what they say about restaurants, (Statement, n), unless there is a knowledge base."""
    calls, dead_letters = [], []
    statements: Counter[Statement] = Counter()
    for name in tracked(batch.names, "calls", "reading"):
        try:
            call = read_call(config.logs.folder, name, config.user == ASR)
            of_call = list(statements_of(call)) if config.knowledge is None else []
        except Exception as error:
            dead_letters.append(_dead_letter(batch, name, bad_record(error)))
        else:
            calls.append(call)
            statements.update(of_call)
    expect(len(calls), "calls")
    yield CallBatch(batch, tuple(calls), tuple(dead_letters))
    yield from (TaggedOutput(STATEMENTS, pair) for pair in statements.items())


def _dead_letter(batch: Batch, name: str, error: InputError) -> DeadLetter:
    where = ": ".join(part for part in (error.path, error.where) if part)
    return DeadLetter("", batch.split, storable(name), "", storable(where), storable(error.reason), trace_of(error))


class Converter:
    """Makes dialogues of calls. A worker has one, and gathers the knowledge base once."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.slots = frozenset(slots_of(config.ontology))
        self._learned: tuple[Knowledge, Words] | None = None

    def learned(self, statements: Iterable[tuple[Statement, int]]) -> tuple[Knowledge, Words]:
        """The knowledge base, and its values of several words."""
        if self._learned is None:
            knowledge = self.config.knowledge or gathered(statements)
            values = (value for values in self.config.ontology.informable.values() for value in values)
            self._learned = knowledge, Words(knowledge, values)
        return self._learned


def write_batch(read: CallBatch, converter: Converter, statements: Sequence[tuple[Statement, int]]) -> FileResult:
    """Writes the dialogue file of a batch into staging, and makes the lines of dialog bAbI.

    Args:
      read: the batch.
      converter: of the worker.
      statements: of all calls, with how often each was made.
    """
    batch, (knowledge, words) = read.batch, converter.learned(statements)
    result = FileResult(f"{batch.split}/{batch.index:06}")
    result.dead_letters += read.dead_letters
    counts: Counter[str] = Counter(calls=len(batch.names))
    texts: list[str] = []
    examples = result.examples[batch.split] = []
    with ExitStack() as stack:
        files = SetFiles(converter.config.output, [SET], batch.relative, stack)
        for call in tracked(read.calls, "calls"):
            try:
                call_rounds = rounds(call, knowledge, converter.config.seed)
                text = dialogue_text(dialogue_of(call, call_rounds, converter.slots))
                lines = lines_of(call, call_rounds, words)
                draw = batch.index.to_bytes(4) + len(texts).to_bytes(4)
                shown = [(draw, (storable(call.name), labelled_lines(lines)))] if len(texts) < SHOWN else []
                babi, call_counts = babi_text(lines), _count(call_rounds, lines)
            except Exception as error:
                result.dead_letters.append(_dead_letter(batch, call.name, bad_record(error)))
                continue
            files.add(SET, text)
            examples += shown
            texts.append(babi)
            counts.update(call_counts)
        files.close()
    result.written = files.written()
    counts.update(dialogues=len(texts), left_out=len(result.dead_letters))
    for name, n in counts.items():
        result.counts.add(name, n, split=batch.split)
    result.others = {BABI: [(batch.split, batch.index, "".join(texts))]}
    return result


def _count(call_rounds: Sequence[Round], lines: Sequence[Line]) -> dict[str, int]:
    exchanges = [line for line in lines if isinstance(line, Exchange)]
    facts = [line for line in lines if isinstance(line, Fact)]
    offers = [is_result for _, is_result in offers_of(call_rounds)]
    no_result = facts.count(NO_RESULT)
    return {
        "user_turns": sum(not isinstance(line, Fact) and line.user != SILENCE for line in lines),
        "bot_turns": len(exchanges),
        "api_calls": sum(round_.search is not None for round_ in call_rounds),
        "no_result": no_result,
        "facts": len(facts) - no_result,
        "offers": len(offers),
        "offers_found": sum(offers),
    }


def metadata_files(
    counts: Counts,
    examples: Mapping[str, Sequence[Any]],
    statements: Iterable[tuple[Statement, int]],
    babi: Iterable[tuple[str, int, str]],
    config: Config,
) -> dict[str, bytes]:
    """The files besides dialogues in the SGD layout, by path.

    Args:
      counts: of the run.
      examples: split to dialogues: id, and labelled lines.
      statements: of all calls, with how often each was made.
      babi: (split, index of the batch, its dialogues).
      config: the options.
    """
    knowledge, _ = Converter(config).learned(statements)
    facts = [fact for restaurant in knowledge.restaurants for fact in facts_about(restaurant)]
    dialogues: dict[str, list[str]] = {split: [] for split in config.logs.splits}
    vocabulary: set[str] = set()
    answers: set[str] = set()
    for split, _, text in sorted(babi):
        dialogues[split].append(text)
        for line in text.split("\n"):
            content = line.partition(" ")[2]
            vocabulary.update(content.split())
            answers.add(content.partition("\t")[2])
    candidates = sorted(answers - {"", SILENCE})
    numbers = {
        **statistics(config, counts),
        "vocabulary": len(vocabulary),
        "candidates": len(candidates),
        "restaurants": len(knowledge.restaurants),
        "kb_facts": len(facts),
    }
    schema = schema_bytes(schema_of(config.ontology))
    return {
        **{FILE.format(SPLITS[split]): "".join(texts).encode() for split, texts in dialogues.items()},
        FILE.format("candidates"): candidates_text(candidates).encode(),
        # With a space before the value, as task 6 has it, where the other tasks have a tab.
        FILE.format("kb"): "".join(f"1 {fact.entity} {fact.relation} {fact.value}\n" for fact in facts).encode(),
        **{f"{SET}/{split}/schema.json": schema for split in config.logs.splits},
        **report_files(numbers, report_on(numbers, examples, config)),
    }


def statistics(config: Config, counts: Counts) -> dict[str, Any]:
    """The part of ``statistics.json`` that is made of counts."""
    splits = {}
    for split in config.logs.splits:
        numbers: dict[str, Any] = {name: counts.sum(name, split=split) for name in _TOTALS}
        n = numbers["dialogues"]
        sums = {"utterances": sum(numbers[name] for name in ("user_turns", "bot_turns", "facts", "no_result"))}
        sums |= {name: numbers[name] for name in ("user_turns", "bot_turns", "facts")}
        numbers["per_dialogue"] = {name: round(total / n, 2) if n else None for name, total in sums.items()}
        splits[split] = numbers
    return {"splits": splits, "moved_from_dev_to_train": config.logs.moved}


def report_on(numbers: Mapping[str, Any], examples: Mapping[str, Sequence[Any]], config: Config) -> Report:
    """The card and the page.

    Args:
      numbers: ``statistics.json``.
      examples: split to dialogues: id, and labelled lines.
      config: the options.
    """
    splits = numbers["splits"]
    sizes = ", ".join(f"{split} {of_split['dialogues']:,}" for split, of_split in splits.items())
    total = counted(sum(of_split["dialogues"] for of_split in splits.values()), "dialogue")
    user = "first hypotheses of the recogniser" if config.user == ASR else "transcriptions, with noise words"
    source = "the given file" if config.knowledge else "what the system says about the restaurants that it offers"
    means = {
        **{split: {"dialogues": part["dialogues"], **part["per_dialogue"]} for split, part in splits.items()},
        "paper, Table 1": {"dialogues": " / ".join(f"{n:,}" for n in PAPER_DIALOGUES.values()), **PAPER_MEANS},
    }
    title = "Dialogues, and means per dialogue"
    searches = ["left_out", "api_calls", "no_result", "offers", "offers_found"]
    return Report(
        command="babi_task6",
        title="Dialog bAbI task 6 of DSTC2",
        headline="DSTC2 as dialog bAbI task 6",
        lead=f"{total}: {sizes}. Calls of DSTC2 (Henderson et al. 2014) in the format of dialog bAbI (Bordes et al. "
        "2017, section 3.3), and in the SGD layout in `sgd/`.",
        tiles=[
            Tile("restaurants", f"{numbers['restaurants']:,}"),
            Tile("facts in the knowledge base", f"{numbers['kb_facts']:,}"),
            *(Tile(f"{name} (paper: {size:,})", f"{numbers[name]:,}") for name, size in PAPER_SIZES.items()),
        ],
        sections=[
            nested_table(title, "split", means, ["dialogues", *PAPER_MEANS], total_rows=1),
            nested_table("Searches and offers", "split", splits, searches),
            Text(
                title="About these dialogues",
                paragraphs=[
                    f"User turns are {user}; bot turns are the system's prompts. API calls are made from the labelled "
                    f"states. The knowledge base comes from {source}. Ratings are made up for each API call, such that "
                    "what the system offers next has the highest.",
                    f"The splits are the lists of DSTC2, with {counted(numbers['moved_from_dev_to_train'], 'call')} "
                    "moved from dev to train.",
                    f"Seed of the ratings: `{config.seed}`.",
                ],
            ),
            *(
                Examples(title=f"Examples of {split}", examples=[dialogue_example(*example) for example in of_split])
                for split, of_split in sorted(examples.items())
            ),
        ],
        terms={
            "utterances": "User turns, bot turns and lines of API results, as in Table 1 of Bordes et al. 2017.",
            "bot turns": "API calls included.",
            "facts": "Those that API calls return.",
            "no result": "API calls without results: the line `api_call no result`.",
            "offers found": "Restaurants offered that are among the results of the API call before. Not all "
            "are: the system of DSTC2 acted on what it recognised, and the states say what was meant.",
        },
        links={"statistics.json": "all numbers", "dead_letters.jsonl": "calls that could not be converted"},
    )
