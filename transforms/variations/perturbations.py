"""The language variations as perturbations: typos, verbose, simple and paraphrased user turns (RADDLE, section 4).

One perturbation makes several kinds, so that the command reads each dialogue once; and there is one of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from parapet.schemas.dialogue import typed
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.perturbed_turns import PERTURBED_TURNS
from parapet.transforms.corpora import Item, domain_of, listed
from parapet.transforms.counts import Balance, Counted, Counts, Exact, Invariant, Least
from parapet.transforms.exact_rates import level_of, size_of, thresholds_of
from parapet.transforms.perturbation import (
    REFUSED,
    Analysis,
    Detailed,
    Perturbation,
    Perturbed,
    Place,
    Shared,
    Texts,
    comma_separated,
)
from parapet.transforms.seeding import seed_text
from parapet.transforms.text import counted
from parapet.transforms.user_turns import UserTurn, user_turns
from parapet.transforms.variations import plan
from parapet.transforms.variations.envs import (
    among_namesakes,
    place_in_order,
    places_of_file,
)
from parapet.transforms.variations.kinds import (
    BAD_SPAN,
    NOTHING,
    TORN_SPAN,
    Config,
    Given,
    Variation,
    row_of,
    vary,
    write_into,
)
from parapet.transforms.variations.paraphrase import NOT_TRANSLATED, Answers
from parapet.transforms.variations.rewritten import (
    REWRITTEN,
    Files,
    Line,
    ReadRewritten,
    check_lines,
    read_files,
    read_lines,
)

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.dead_letters import Tally
    from parapet.transforms.report import Example, Report
    from parapet.transforms.runs import Outputs
    from parapet.transforms.variations.translated import Translating

Paths = str | Path | Sequence[str | Path]

MATCHED = "matched"  # further output: the keys of rewritten lines that have a turn
_SUMS = ("varied", "unchanged", "words", "characters_before", "characters_after", "characters_edited", "spans")


class State(NamedTuple):
    """What the variations of a dialogue depend on besides the dialogue.

    Attributes:
      thresholds: of the mixes, by kind.
      among: decides between two dialogues of one id.
      given: the words of others.
    """

    thresholds: Mapping[str, Sequence[bytes]]
    among: bytes
    given: Given


class LanguageVariations(Perturbation):
    """User turns in other words; values, states and everything of the system are unchanged.

    Args:
      kinds: which kinds are made, each a set.
      envs: rates of mixes with the original, as they were written: for each a set ``KIND-env1``, ``KIND-env2``, in
        which exactly this share of all user turns is varied, or all that can be where these are fewer.
      config: of the kinds.
      given: the words of others, where they are at hand.
      files: rewritten turns that workers read.
      translating: how texts are translated, where an engine or a memory paraphrases.
      least: the share of its user turns that a kind must change.
    """

    name = "language_variations"
    row_schema = PERTURBED_TURNS
    metrics = ()
    other_outputs = (MATCHED,)

    def __init__(
        self,
        kinds: Sequence[str],
        envs: Sequence[str],
        config: Config,
        given: Given = NOTHING,
        files: Files | None = None,
        translating: Translating | None = None,
        least: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(seed=config.seed)
        self.kinds, self.envs, self.config, self.given = tuple(kinds), tuple(envs), config, given
        self.files, self.translating, self.least = files, translating, dict(least or {})

    @property
    def sets(self) -> tuple[str, ...]:
        """Of each kind the set itself, then its mixes: ``typos``, ``typos-env1`` and so on."""
        return tuple(name for kind in self.kinds for name in (kind, *self.env_names(kind)))

    def env_names(self, kind: str) -> list[str]:
        """The mixes of a kind."""
        return [f"{kind}-env{i}" for i in range(1, len(self.envs) + 1)]

    def row_sets(self) -> Sequence[str]:
        """The rows of a kind say for each turn which mixes have it varied."""
        return self.kinds

    def needs_analysis(self) -> bool:
        """Only mixes do, and words of others that workers read."""
        return bool(self.envs or self.files or self.translating)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> Analysis:
        """The thresholds of the mixes by kind and split, rewritten turns, and translations."""
        import apache_beam as beam

        shared: dict[str, beam.PCollection] = {}
        analysis = Analysis(shared=shared)
        if self.files is not None:
            lines = files.pipeline | "Rewritten turns" >> ReadRewritten(self.files, self.kinds)
            shared["rewritten"] = lines | "By turn" >> beam.MapTuple(lambda key, line: (key, line[-2:]))
            analysis = analysis._replace(others={"lines": lines})
        if self.translating is not None:
            shared["answers"], memory, refused = files | "Translate" >> self.translating.transform(self.config)
            analysis = analysis._replace(files=memory, refused=refused)
        if self.envs:
            others = [(name, beam.pvalue.AsDict(pairs)) for name, pairs in shared.items()]
            names = tuple(name for name, _ in others)
            places = partial(places_of_file, kinds=self.kinds, config=self.config, given=self.given, names=names)
            # A lambda has no types: those of *others Beam would take for those of each side input.
            read = beam.FlatMap(lambda file, *sides: places(file, *sides), *(side for _, side in others))
            read.label = "Places"
            found = files | "Spread files" >> beam.Reshuffle() | read.with_outputs(REFUSED, main="keys")
            shared["thresholds"] = thresholds_of(found["keys"], self.envs)
            refused = found[REFUSED]
            if analysis.refused is not None:
                refused = (refused, analysis.refused) | "Refused" >> beam.Flatten()
            analysis = analysis._replace(refused=refused)
        return analysis

    def state_of(self, place: Place, state: Any, shared: Shared) -> State:
        """The thresholds of the dialogue's split, and the words of others."""
        thresholds, split = shared.get("thresholds", {}), place[0].rpartition("/")[0]
        return State(
            {kind: thresholds.get((kind, split), ()) for kind in self.kinds},
            among_namesakes(*place),
            Given(shared.get("rewritten", self.given.rewritten), shared.get("answers", self.given.answers)),
        )

    def perturb(self, dialogue: dict[str, Any], set_name: str, state: Any) -> Perturbed:
        """The dialogue in one set, and the rows of its kind."""
        kind = set_name.rpartition("-env")[0] or set_name
        turns = list(user_turns(typed(dialogue)))
        results = dict(self._versions(kind, dialogue, turns, state, self._places(turns, state)))
        return Perturbed(results[set_name].dialogue, results[kind].rows)

    def perturb_sets(self, item: Item, state: Any) -> Iterator[tuple[str, Perturbed | InputError]]:
        """The dialogue in every set."""
        assert item.dialogue is not None
        turns = list(user_turns(item.dialogue))
        places = self._places(turns, state)
        for kind in self.kinds:
            yield from self._versions(kind, item.raw, turns, state, places)

    def _places(self, turns: Sequence[UserTurn], state: State | None) -> dict[int, bytes]:
        """The place of each turn in the order of all turns, whatever the kind; none where there are no mixes."""
        if state is None or not any(state.thresholds.values()):
            return {}
        seed, among = self.config.seed, state.among
        return {turn.position: place_in_order(seed, turn.dialogue_id, turn.position, among) for turn in turns}

    def _versions(
        self,
        kind: str,
        raw: dict[str, Any],
        turns: Sequence[UserTurn],
        state: State | None,
        places: Mapping[int, bytes],
    ) -> Iterator[tuple[str, Detailed]]:
        """A dialogue as one kind has it, then as its mixes have it."""
        state = state or State({}, b"", self.given)
        variations = [vary(kind, turn, self.config, state.given) for turn in turns]
        new: dict[int, dict[str, Any]] = {}
        levels: dict[int, int] = {}
        problems, rows = [], []
        for turn, variation in zip(turns, variations, strict=True):
            level = 0
            if variation.operations:
                new[turn.position] = write_into(raw["turns"][turn.position], variation)
                if places:
                    level = levels[turn.position] = level_of(places[turn.position], state.thresholds[kind])
            elif reported(variation.reason, first=kind == self.kinds[0]):
                problems.append(InputError(variation.reason, "", f"turns[{turn.position}]"))
            rows.append(row_of(turn, variation, level))
        lines = {(turn.dialogue_id, turn.position, kind) for turn in turns} & state.given.rewritten.keys()
        dialogues: dict[frozenset[int], dict[str, Any]] = {}

        def with_varied(chosen: frozenset[int]) -> dict[str, Any]:
            # Of a short dialogue several mixes have the same.
            if chosen not in dialogues:
                made = [new[i] if i in chosen else turn for i, turn in enumerate(raw["turns"])]
                dialogues[chosen] = {**raw, "turns": made}
            return dialogues[chosen]

        yield (
            kind,
            Detailed(
                with_varied(frozenset(new)),
                rows,
                counts={**counts_of(turns, variations), "rewritten_turns": len(lines)},
                problems=problems,
                shown=[row for row in rows if row["status"] == "varied"],
                others={MATCHED: sorted(lines)} if lines else {},
            ),
        )
        for i, name in enumerate(self.env_names(kind), 1):
            chosen = frozenset(position for position, level in levels.items() if 0 < level <= i)
            yield name, Detailed(with_varied(chosen), counts={"replaced": len(chosen)}, shown=())

    def finish(self, outputs: Outputs, analysis: Analysis) -> Outputs:
        """Adds what became of the lines of rewritten turns."""
        import apache_beam as beam

        from parapet.transforms.variations.rewritten import Fates

        if self.files is None:
            return outputs
        matched = outputs.others[MATCHED] | "By line" >> beam.MapTuple(lambda _, __, line: (line, 1))
        unused, fates = matched | "Fates of lines" >> Fates(self.files, analysis.others["lines"])
        return outputs.with_more("Rewritten turns", dead_letters=unused, counts=fates)

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """User turns, and lines of rewritten turns, besides files and dialogues."""
        from parapet.transforms.dead_letters import Tally

        turns = counts.sum("turns", set=self.kinds[0])
        bad = counts.sum("bad_lines")
        lines = counts.sum("lines") + bad
        return [
            Tally("user turn", turns, counts.sum("bad_spans", set=self.kinds[0]), is_needed=False),
            *(Tally("user turn", turns, counts.sum("bad_turns", set=kind), kind) for kind in self.kinds),
            Tally("line", lines, counts.sum("lines_without_turn") + bad, "--rewritten"),
        ]

    def invariants(self) -> Sequence[Invariant]:
        """Besides: every user turn is varied or unchanged, mixes are exact, enough has changed."""
        total = "rewritten_turns" if self.config.rewritten else "turns"
        what = "user turns of --rewritten changed" if self.config.rewritten else "user turns changed"
        return (
            *super().invariants(),
            Balance("turns", ("varied", "unchanged"), self.kinds, by_set=True),
            Balance("lines", ("lines_with_turn", "lines_without_turn"), self.kinds, by_set=True),
            *(
                Exact("replaced", "turns", name, partial(size_of, rate), total_set=kind, available="varied")
                for kind in self.kinds
                for name, rate in zip(self.env_names(kind), self.envs, strict=True)
            ),
            *(
                Least("varied", total, least, kind, what, needed=self.config.rewritten)
                for kind, least in self.least.items()
            ),
        )

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """See ``parapet.transforms.variations.report``."""
        from parapet.transforms.variations.report import statistics

        return statistics(self, counts)

    def example(self, shown: Mapping[str, Any]) -> Example:
        """The turn with its operations marked."""
        from parapet.transforms.variations.report import example_of

        return example_of(shown)

    def summary(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """How much of each set was varied."""
        from parapet.transforms.variations.report import line_of_mix

        for kind, numbers in statistics["kinds"].items():
            changed = "" if numbers["changed"] is None else f" ({numbers['changed']:.1%})"
            yield f"{kind}: {numbers['varied']:,} of {counted(numbers['turns'], 'user turn')} varied{changed}"
            for name, env in numbers["envs"].items():
                yield line_of_mix(name, env)

    def report(
        self, statistics: Mapping[str, Any], examples: Mapping[str, Sequence[Example]], options: Mapping[str, object]
    ) -> Report:
        """See ``parapet.transforms.variations.report``."""
        from parapet.transforms.variations.report import report_of

        return report_of(self, statistics, examples, options)


def reported(reason: str, first: bool) -> bool:
    """Whether a turn that is unchanged has a dead letter; one whose spans are wrong has one, whatever the kinds."""
    return reason.startswith((TORN_SPAN, NOT_TRANSLATED)) or (first and reason.startswith(BAD_SPAN))


def counts_of(turns: Sequence[UserTurn], variations: Sequence[Variation]) -> dict[Counted, int]:
    """The counts of a dialogue in the set of one kind."""
    sums = dict.fromkeys((*_SUMS, "spans_perturbed", "odd_spans", "bad_spans", "bad_turns"), 0)
    values: Counter[Counted] = Counter()
    for turn, variation in zip(turns, variations, strict=True):
        sums["words"] += turn.utterance.count(" ") + 1
        sums["characters_before"] += len(turn.utterance)
        sums["characters_after"] += len(variation.utterance)
        sums["spans"] += len(turn.spans)
        sums["odd_spans"] += len(turn.odd)
        sums["bad_spans"] += bool(turn.wrong)
        domains = domains_of(turn.services)
        values.update([("domain_turns", domain) for domain in domains])
        if not variation.operations:
            sums["unchanged"] += 1
            sums["bad_turns"] += reported(variation.reason, first=False)
            values["reason", variation.reason.partition(":")[0]] += 1
            continue
        sums["varied"] += 1
        values["source", variation.source] += 1
        values.update([("domain_varied", domain) for domain in domains])
        for operation in variation.operations:
            values["operation", operation.kind] += 1
            sums["characters_edited"] += max(operation.end - operation.start, len(operation.text))
        for span, place in zip(turn.spans, variation.places, strict=True):
            before, after = turn.utterance[span.start : span.end], variation.utterance[slice(*place)]
            sums["spans_perturbed"] += before != after
    values.update(sums)
    values["turns"] = len(turns)
    return values


@cache
def domains_of(services: tuple[str, ...]) -> frozenset[str]:
    """The domains that a turn speaks of."""
    return frozenset(map(domain_of, services))


class LanguageVariation(LanguageVariations):
    """User turns in other words, of one kind; values, states and everything of the system are unchanged.

    Args:
      seed: of all random choices.
      env: rates of mixes with the original, such as ``(0.1, 0.5, 0.8)``: for each a set ``NAME-env1``, ``NAME-env2``,
        in which exactly this share of all user turns is varied, or all that can be where these are fewer.
      rewritten: JSON Lines of turns that people or a model have rewritten; they take the place of the rules.
    """

    def __init__(
        self, *, seed: int | str = 0, env: Texts = (), rewritten: Paths = (), config: Config | None = None
    ) -> None:
        config = msgspec.structs.replace(config or Config(), seed=seed_text(seed), rewritten=bool(rewritten))
        given = _lines(self.name, rewritten) if rewritten else NOTHING
        envs = plan.parse_envs(comma_separated(env)) if env else ()
        super().__init__((self.name,), envs, config, given)


def _paths(paths: Paths) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]


def _lines(kind: str, paths: Paths) -> Given:
    """The rewritten turns of a kind. Raises InputError where a line is bad, or the files have none of the kind."""
    files = read_files(_paths(paths))
    check_lines(files, Fraction(0))
    plan.kinds_of(kind, files)
    lines = (line for path in files.paths for _, line in read_lines(path))
    return Given({line.key: (line.utterance, line.source or REWRITTEN) for line in lines if isinstance(line, Line)})


class Typos(LanguageVariation):
    """Typos of people who type quickly, and abbreviations of people who chat.

    Args:
      seed: of all random choices.
      rates: ``{"word": 0.08, "abbreviation": 0.15}`` are the probabilities; weights of the kinds of typos besides.
      at_least: typos of a turn whose words allow them.
      perturb_values: whether annotated values may have typos; states keep what was meant.
      env: see :class:`LanguageVariation`.
      rewritten: see :class:`LanguageVariation`.
    """

    name = "typos"

    def __init__(
        self,
        *,
        seed: int | str = 0,
        rates: str | Mapping[str, float] = "",
        at_least: int = 1,
        perturb_values: bool = False,
        env: Texts = (),
        rewritten: Paths = (),
    ) -> None:
        if not isinstance(at_least, int):
            raise InputError(f"{at_least!r} is no number", "at_least")
        config = Config(rates=plan.parse_rates(comma_separated(rates), at_least), perturb_values=perturb_values)
        super().__init__(seed=seed, env=env, rewritten=rewritten, config=config)


class Verbose(LanguageVariation):
    """Longer user turns: openers, politeness, hesitation."""

    name = "verbose"

    def __init__(self, *, seed: int | str = 0, env: Texts = (), rewritten: Paths = ()) -> None:
        super().__init__(seed=seed, env=env, rewritten=rewritten)


class Simple(LanguageVariation):
    """Shorter user turns: what is not needed is dropped."""

    name = "simple"

    def __init__(self, *, seed: int | str = 0, env: Texts = (), rewritten: Paths = ()) -> None:
        super().__init__(seed=seed, env=env, rewritten=rewritten)


class Paraphrase(LanguageVariation):
    """User turns in other words, by rules; or translated and back, from a memory; or as others have rewritten them.

    Args:
      seed: of all random choices.
      memory: translation memories, Parquet or CSV, as ``parapet back_translate`` writes them; they take the place of
        the rules.
      pivots: the languages to go through; of several, one is drawn for each turn.
      env: see :class:`LanguageVariation`.
      rewritten: see :class:`LanguageVariation`.
    """

    name = "paraphrase"

    def __init__(
        self,
        *,
        seed: int | str = 0,
        memory: Paths = (),
        pivots: Texts = "de",
        env: Texts = (),
        rewritten: Paths = (),
    ) -> None:
        languages = () if rewritten or not memory else tuple(listed(comma_separated(pivots)))
        super().__init__(seed=seed, env=env, rewritten=rewritten, config=Config(pivots=languages))
        if languages:
            self.given = Given(answers=_answers(_paths(memory), languages))


def _answers(memories: Sequence[str], pivots: Sequence[str]) -> Answers:
    """What translation memories have of some pivots. Raises InputError where they have nothing."""
    from parapet.transforms.back_translate.legs import Known
    from parapet.transforms.translation.memory import by_languages, merge, read_memory
    from parapet.transforms.variations.translated import known_answers

    known = Known(by_languages(merge(*(read_memory(path) for path in memories))))
    answers = dict(known_answers(known, pivots))
    if not answers:
        raise InputError(f"has nothing from or to {', '.join(pivots)}", memories[0])
    return answers
