"""Language variations as perturbations: typos, verbose, simple and paraphrased user turns (RADDLE, section 4).

Each kind is a class. :class:`LanguageVariations` makes several kinds in one run, so that each dialogue is read once.

In a mix, an exact share of all user turns is varied, and the turns of a smaller share are among those of a larger one.
All turns of a split are ordered by a hash of seed, dialogue and turn, whatever the kind. Env-k has the first
``round(rate × user turns)``, halves rounded up, of the turns that the kind can vary, or all of them if there are fewer.
The selection is a threshold on the hash, so that a worker does not need other files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from parapet.schemas.dialogue import DialogueFile, typed
from parapet.schemas.errors import InputError, no_such
from parapet.schemas.rows import PERTURBED_TURNS
from parapet.transforms.perturbation.base import (
    REFUSED,
    Analysis,
    Perturbation,
    Perturbed,
    Place,
    Shared,
    Texts,
    comma_separated,
    level_of,
    size_of,
    thresholds_of,
)
from parapet.transforms.perturbation.corpora import Item, dialogues_of, listed
from parapet.transforms.perturbation.edits import edited as edited_text
from parapet.transforms.perturbation.languages import ENGLISH, language_of
from parapet.transforms.perturbation.report import place_of
from parapet.transforms.perturbation.user_turns import UserTurn, user_turns
from parapet.transforms.perturbations.gate import CHARACTERS, NEAR, NEAR_OF_REST, farthest, keeps_characters, passed
from parapet.transforms.perturbations.paraphrase import NOT_TRANSLATED, Answers, paraphrased, pivot_of, rephrased
from parapet.transforms.perturbations.results import (
    BAD_SPAN,
    OPERATIONS,
    TABLES,
    Variation,
    counts_of,
    is_reported,
    row_of,
    statistics,
    summary,
    varied,
    write_into,
)
from parapet.transforms.perturbations.rewording import RULES, Made, reworded
from parapet.transforms.perturbations.rewritten import REWRITTEN, Rewritten
from parapet.transforms.perturbations.simple import simple_operations
from parapet.transforms.perturbations.typos import MIX, Rates, typo_operations
from parapet.transforms.perturbations.verbose import verbose
from parapet.transforms.reports import meaning
from parapet.transforms.reports.report import Example, Line, edited
from parapet.transforms.running.counts import Balance, Counts, Exact, Invariant, Least
from parapet.transforms.running.fence import bad_record
from parapet.transforms.running.progress import ANALYSIS, tracked
from parapet.transforms.running.seeding import key_of, short_digest
from parapet.transforms.translation.embedded import PIVOTS, Embedded, OnDemand

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.perturbations.back_translation import Translating
    from parapet.transforms.perturbations.generated import Rewriter
    from parapet.transforms.running.counts import Tally
    from parapet.transforms.running.plugins import Chosen
    from parapet.transforms.running.runs import Outputs

Paths = str | Path | Sequence[str | Path]

MATCHED = "matched"  # additional output: the keys of rewritten lines with a turn in the dialogues
_NONE: Answers = {}
_LAST = 8  # bytes of a place that distinguish dialogues with the same id


def place_in_order(seed: str, dialogue_id: str, turn: int, among: bytes) -> bytes:
    """Return a turn's place in the order.

    The result of :func:`among_namesakes` only matters for dialogues with the same id.
    """
    return short_digest(key_of(seed, "env", dialogue_id, str(turn))) + among


def among_namesakes(file: str, position: int) -> bytes:
    """Return the place of a dialogue among those with the same id."""
    return short_digest(key_of(file, str(position)))[:_LAST]


class State(NamedTuple):
    """The input of a dialogue's variations, besides the dialogue.

    Attributes:
      thresholds: the thresholds of the mixes, by kind.
      among: distinguishes dialogues with the same id.
      answers: translations.
    """

    thresholds: Mapping[str, Sequence[bytes]]
    among: bytes
    answers: Answers


OTHER_LANGUAGE = "other_language"  # why a turn in another language than its dialogue's stays as it is


class LanguageVariation(Perturbation):
    """Rewrites user turns in one way; values, states and the system's turns are unchanged.

    Args:
      seed: of all random choices.
      env: rates of mixes with the original, such as ``(0.1, 0.5, 0.8)``: for each a set ``NAME-env1``, ``NAME-env2``,
        in which exactly this share of all user turns is varied, or all that can be where these are fewer.
      rewritten: JSON Lines of turns that people or a model have rewritten; they take the place of the rules.

    Attributes:
      least: minimum share of its user turns that must change, or the run fails; None for any.
      translating: how texts are translated, if an engine or a memory paraphrases.
      answers: the available translations.
      rewriter: the language model that rewrites the turns; the rules are the fallback.
    """

    row_schema = PERTURBED_TURNS
    metrics = ()
    tables = TABLES
    other_outputs = (MATCHED,)
    usual_least: ClassVar[float] = 0.5

    perturb_values = False
    least: float | None = None
    translating: Translating | None = None
    answers: Answers = _NONE
    rewriter: Rewriter | None = None

    def __init__(self, *, seed: int | str = 0, env: Texts = (), rewritten: Paths | Rewritten = ()) -> None:
        super().__init__(seed=seed)
        self.languages = () if rewritten else (ENGLISH,)
        self.envs = parse_envs(comma_separated(env)) if env else []
        self.rewritten = rewritten if isinstance(rewritten, Rewritten) else None
        if rewritten and self.rewritten is None:
            self.rewritten = Rewritten(_paths(rewritten))
            self.rewritten.check(Fraction(0))
            kinds_of(self.name, self.rewritten)

    def make(self, user_turn: UserTurn, key: bytes, answers: Answers, said: set[str]) -> Made:
        """Apply the rules of the kind to a turn.

        Args:
          user_turn: the turn.
          key: the key of the draws.
          answers: the translations.
          said: forms used earlier in the dialogue, for kinds that avoid repetition and add their own.
        """
        raise NotImplementedError

    def vary_all(self, turns: Sequence[UserTurn], answers: Answers | None = None) -> list[Variation]:
        """Return the variations of a dialogue's turns, in order. ``answers`` replaces the available translations."""
        answers, said = self.answers if answers is None else answers, set[str]()
        rewordings = [self._proposed(turn, answers, said) for turn in turns]
        if self.rewriter is not None:
            rewordings = self.rewriter.rewrite_all(turns, self.name, rewordings)
        return [
            varied(turn, self._checked(turn, rewording), self.perturb_values)
            for turn, rewording in zip(turns, rewordings, strict=True)
        ]

    def vary(self, user_turn: UserTurn) -> Variation:
        """Return the variation of a single turn."""
        return self.vary_all([user_turn])[0]

    def _proposed(self, user_turn: UserTurn, answers: Answers, said: set[str]) -> Made:
        if user_turn.wrong:
            return Made(reason=f"{BAD_SPAN}: {', '.join(user_turn.wrong)}: not inside the utterance")
        if self.rewritten is None:
            key = key_of(self.seed, self.name, user_turn.dialogue_id, str(user_turn.position))
            return self.make(user_turn, key, answers, said)
        line = self.rewritten.get((user_turn.dialogue_id, user_turn.position, self.name))
        if line is None:
            return Made(reason="not_rewritten")
        in_words = self.name == Paraphrase.name
        return reworded(user_turn, line.utterance, REWRITTEN, line.source or REWRITTEN, in_words)

    def _checked(self, user_turn: UserTurn, rewording: Made) -> Made:
        if self.rewritten is None and rewording.operations:
            if language_of(user_turn.utterance) not in ("", *self.languages):
                return Made(reason=OTHER_LANGUAGE)
            if not keeps_characters(user_turn.utterance, edited_text(user_turn.utterance, rewording.operations)):
                return Made(reason=CHARACTERS)
        return rewording

    @property
    def parts(self) -> Sequence[LanguageVariation]:
        """Return the kinds that are made."""
        return (self,)

    @property
    def sets(self) -> tuple[str, ...]:
        """Return for each kind the set itself, then its mixes: ``typos``, ``typos-env1`` and so on."""
        return tuple(name for part in self.parts for name in (part.name, *self.env_names(part.name)))

    def env_names(self, kind: str) -> list[str]:
        """Return the names of a kind's mixes."""
        return [f"{kind}-env{i}" for i in range(1, len(self.envs) + 1)]

    def row_sets(self) -> Sequence[str]:
        """Return the kinds: the rows of a kind tell for each turn in which mixes it is varied."""
        return [part.name for part in self.parts]

    def needs_analysis(self) -> bool:
        """Whether mixes or translations are requested, which need an analysis."""
        return bool(self.envs or self.translating)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> Analysis:
        """Compute the thresholds of the mixes by kind and split, and the translations."""
        import apache_beam as beam

        from parapet.transforms.perturbations.back_translation import translate_turns

        analysis, refused = Analysis(shared={}), []
        shared: dict[str, beam.PCollection] = {}
        if self.translating is not None:
            shared["answers"], memory, untranslated = translate_turns(files, self.translating)
            analysis = analysis._replace(files=memory)
            refused += [] if untranslated is None else [untranslated]
        if self.envs:
            # A lambda has no type hints; Beam would apply those of *answers to each side input.
            sides = map(beam.pvalue.AsDict, shared.values())
            read = beam.FlatMap(lambda file, *answers: self._places_in(file, *answers), *sides)
            read.label = "Places"
            places = files | "Spread files" >> beam.Reshuffle() | read.with_outputs(REFUSED, main="keys")
            shared["thresholds"] = thresholds_of(places["keys"], self.envs)
            refused.append(places[REFUSED])
        if len(refused) > 1:
            refused = [refused | "Refused" >> beam.Flatten()]
        return analysis._replace(shared=shared, refused=refused[0] if refused else None)

    def _places_in(self, file: DialogueFile, answers: Answers | None = None) -> Iterator[Any]:
        """Yield ((kind, split), places of turns that the kind can vary), and (place, error) for exceptions, of a file.

        Yields nothing for a file that cannot be read; the step that writes the sets reports it.
        """
        from apache_beam.pvalue import TaggedOutput

        answers = self.answers if answers is None else answers
        places: dict[str, list[bytes]] = {part.name: [] for part in self.parts}
        turns = 0
        refused: dict[Place, InputError] = {}
        try:
            for position, _, dialogue in tracked(dialogues_of(file), "dialogues", ANALYSIS):
                if isinstance(dialogue, InputError):
                    continue
                try:
                    of_dialogue = list(user_turns(dialogue))
                    in_order = self._places(of_dialogue, among_namesakes(file.relative, position))
                    can_be_varied = [
                        (part.name, in_order[turn.position])
                        for part in self.parts
                        for turn, variation in zip(of_dialogue, part.vary_all(of_dialogue, answers), strict=True)
                        if variation.operations
                    ]
                except Exception as error:
                    refused[file.relative, position] = bad_record(error)
                    continue
                turns += len(of_dialogue)
                for kind, place in can_be_varied:
                    places[kind].append(place)
        except Exception as error:
            bad_record(error)
            return
        yield from (TaggedOutput(REFUSED, pair) for pair in refused.items())
        for kind, of_kind in places.items():
            yield (kind, file.split), (turns, of_kind)

    def _places(self, turns: Sequence[UserTurn], among: bytes) -> dict[int, bytes]:
        """Return the place of each turn in the order of all turns, whatever the kind."""
        return {turn.position: place_in_order(self.seed, turn.dialogue_id, turn.position, among) for turn in turns}

    def state_of(self, place: Place, state: Any, shared: Shared) -> State:
        """Return the thresholds of the dialogue's split, and the translations."""
        thresholds, split = shared.get("thresholds", {}), place[0].rpartition("/")[0]
        of_split = {part.name: thresholds.get((part.name, split), ()) for part in self.parts}
        return State(of_split, among_namesakes(*place), shared.get("answers", self.answers))

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Any) -> Perturbed:
        """Return the dialogue in one set, and the rows of its kind."""
        kind = set_name.rpartition("-env")[0] or set_name
        results = dict(self._versions(kind, dialogue, list(user_turns(typed(dialogue))), state))
        return Perturbed(results[set_name].dialogue, results[kind].rows)

    def perturb_sets(self, item: Item, state: Any) -> Iterator[tuple[str, Perturbed | InputError]]:
        """Yield the dialogue in every set."""
        assert item.dialogue is not None
        turns = list(user_turns(item.dialogue))
        for part in self.parts:
            yield from self._versions(part.name, item.raw, turns, state)

    def _versions(
        self, kind: str, raw: dict[str, Any], turns: Sequence[UserTurn], state: State | None
    ) -> Iterator[tuple[str, Perturbed]]:
        """Yield a dialogue in the set of one kind, then in its mixes."""
        state = state or State({}, b"", self.answers)
        part = next(part for part in self.parts if part.name == kind)
        variations = part.vary_all(turns, state.answers)
        places = self._places(turns, state.among) if state.thresholds.get(kind) else {}
        new: dict[int, dict[str, Any]] = {}
        levels: dict[int, int] = {}
        problems, rows = [], []
        for turn, variation in zip(turns, variations, strict=True):
            level = 0
            if variation.operations:
                new[turn.position] = write_into(raw["turns"][turn.position], variation)
                if places:
                    level = levels[turn.position] = level_of(places[turn.position], state.thresholds[kind])
            elif is_reported(variation.reason, first=kind == self.parts[0].name):
                problems.append(InputError(variation.reason, "", f"turns[{turn.position}]"))
            rows.append(row_of(turn, variation, level))
        keys = [(turn.dialogue_id, turn.position, kind) for turn in turns] if part.rewritten else []
        lines = sorted({key for key in keys if part.rewritten and part.rewritten.get(key)})

        def with_varied(chosen: Collection[int]) -> dict[str, Any]:
            return {**raw, "turns": [new[i] if i in chosen else turn for i, turn in enumerate(raw["turns"])]}

        yield (
            kind,
            Perturbed(
                with_varied(new),
                rows,
                counts={**counts_of(turns, variations), "rewritten_turns": len(lines)},
                problems=problems,
                shown=[row for row in rows if row["status"] == "varied"],
                others={MATCHED: lines} if lines else {},
            ),
        )
        for i, name in enumerate(self.env_names(kind), 1):
            chosen = [position for position, level in levels.items() if 0 < level <= i]
            yield name, Perturbed(with_varied(chosen), counts={"replaced": len(chosen)}, shown=())

    def finish(self, outputs: Outputs, analysis: Analysis) -> Outputs:
        """Add the dead letters and counts of rewritten lines."""
        import apache_beam as beam

        if self.rewritten is None:
            return outputs
        kinds, rewritten = self.row_sets(), self.rewritten
        matched = beam.pvalue.AsIter(outputs.others[MATCHED] | "By line" >> beam.MapTuple(lambda _, __, line: line))
        once = outputs.written.pipeline | "Lines" >> beam.Create([None], reshuffle=False)
        letters = once | "Unused lines" >> beam.FlatMap(lambda _, keys: rewritten.letters(kinds, set(keys)), matched)
        counts = once | "Count lines" >> beam.FlatMap(lambda _, keys: rewritten.counts(kinds, set(keys)), matched)
        return outputs.with_more("Rewritten turns", dead_letters=letters, counts=counts)

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Return tallies of user turns and of rewritten lines."""
        from parapet.transforms.running.counts import Tally

        kinds = self.row_sets()
        turns, bad = counts.sum("turns", set=kinds[0]), counts.sum("bad_lines")
        return [
            Tally("user turn", turns, counts.sum("bad_spans", set=kinds[0]), is_needed=False),
            *(Tally("user turn", turns, counts.sum("bad_turns", set=kind), kind) for kind in kinds),
            Tally("line", counts.sum("lines") + bad, counts.sum("lines_without_turn") + bad, "--rewritten"),
        ]

    def invariants(self) -> Sequence[Invariant]:
        """Check that every user turn is varied or unchanged, mixes are exact, and enough turns have changed."""
        is_rewritten, kinds = self.rewritten is not None, self.row_sets()
        total = "rewritten_turns" if is_rewritten else "turns"
        unit = "user turns of --rewritten changed" if is_rewritten else "user turns changed"
        return (
            *super().invariants(),
            Balance("turns", ("varied", "unchanged"), kinds, by_set=True),
            Balance("lines", ("lines_with_turn", "lines_without_turn"), kinds, by_set=True),
            *(
                Exact("replaced", "turns", name, partial(size_of, rate), total_set=kind, available="varied")
                for kind in kinds
                for name, rate in zip(self.env_names(kind), self.envs, strict=True)
            ),
            *(
                Least("varied", total, part.least, part.name, unit, needed=is_rewritten)
                for part in self.parts
                if part.least is not None
            ),
        )

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Count the turns of each kind: how many are varied, how, and why others are not."""
        return statistics(self, counts)

    def summary(self, statistics: Mapping[str, Any]) -> Iterator[str]:
        """Describe how much of each set is varied."""
        return summary(statistics)

    def example(self, shown: Mapping[str, Any]) -> Example:
        """Show the turn with its operations marked."""
        edits = [
            (
                operation["start"],
                operation["end"],
                operation["after"],
                OPERATIONS.get(operation["kind"], operation["kind"]),
            )
            for operation in shown["operations"]
        ]
        return Example(place_of(shown), [Line("USER", edited(shown["original"], edits))])


def _paths(paths: Paths | Rewritten) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]  # type: ignore[union-attr]


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
    known_odd = "Any word is as likely to be misspelled as any other, and all of them more often than by real people."

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
            raise InputError(f"{at_least!r} is not a number", "at_least")
        self.rates, self.perturb_values = parse_rates(comma_separated(rates), at_least), perturb_values
        super().__init__(seed=seed, env=env, rewritten=rewritten)

    def make(self, user_turn: UserTurn, key: bytes, answers: Answers, said: set[str]) -> Made:
        """Make typos in words that may have them."""
        operations = typo_operations(
            user_turn.utterance, user_turn.ranges, user_turn.values, self.rates, key, self.perturb_values
        )
        return Made(operations, "" if operations else "no_word" if self.rates.at_least else "not_drawn")


class Verbose(LanguageVariation):
    """The same turns in more words: polite and indirect requests, whole sentences for fragments, reasons, detours."""

    name = "verbose"
    known_odd = "A few dozen phrases recur in all dialogues. Turns of more than about 250 characters stay as they are."

    def make(self, user_turn: UserTurn, key: bytes, answers: Answers, said: set[str]) -> Made:
        """Use longer forms that do not occur in the dialogue yet."""
        return verbose(user_turn, key, said)


class Simple(LanguageVariation):
    """Shorter user turns: what is not needed is dropped."""

    name = "simple"
    known_odd = "Users sound curt, since politeness goes first."
    usual_least = 0.1  # a corpus of short turns has little to simplify

    def make(self, user_turn: UserTurn, key: bytes, answers: Answers, said: set[str]) -> Made:
        """Reduce the turn to its acts, or drop optional parts of its sentences."""
        return Made(*simple_operations(user_turn))


class Paraphrase(LanguageVariation):
    """User turns in other words: by rules, on request also translated and back; or as others have rewritten them.

    If both rules and translation change a turn, the version that differs in more words is used, provided that it passes
    the ``gate``.

    Args:
      seed: of all random choices.
      engine: ``rules`` uses rules alone, ``embedded`` also translates, by the extra ``translate``.
      memory: translation memories, Parquet or CSV, as ``parapet back_translate`` writes them; they replace the engine.
      pivots: the languages to go through; of several, one is drawn for each turn.
      env: see :class:`LanguageVariation`.
      rewritten: see :class:`LanguageVariation`.
    """

    name = "paraphrase"
    known_odd = "Requests may become more or less polite. Sentences that only state something have few other forms."
    usual_least = 0.3

    def __init__(
        self,
        *,
        seed: int | str = 0,
        engine: str = RULES,
        memory: Paths = (),
        pivots: Texts = "pt",
        env: Texts = (),
        rewritten: Paths = (),
    ) -> None:
        super().__init__(seed=seed, env=env, rewritten=rewritten)
        self.pivots: Sequence[str] = ()
        if engine not in (RULES, Embedded.provider):
            raise InputError(f"{engine!r} is not an engine: must be {RULES} or {Embedded.provider}", "engine")
        self.engine = REWRITTEN if rewritten else "memory" if memory else engine
        if rewritten:
            return
        if memory:
            self.pivots = listed(comma_separated(pivots))
            self.answers = _answers(_paths(memory), self.pivots)
        elif engine == Embedded.provider:
            Embedded().open()
            self.pivots, self.answers = PIVOTS, OnDemand()

    def recorded_options(self) -> Mapping[str, object]:
        """Return the engine, even if it is the default, and the languages that turns are translated to."""
        return {"engine": self.engine, "pivots": [*self.pivots]}

    def make(self, user_turn: UserTurn, key: bytes, answers: Answers, said: set[str]) -> Made:
        """Choose between the rules' forms with synonyms and the back-translation: the one that differs more."""
        by_rules = rephrased(user_turn, key)
        if not self.pivots:
            return by_rules
        translated = paraphrased(user_turn, pivot_of(user_turn, self.pivots, self.seed), answers)
        # a failed translation must be reported, even if the rules have a version
        if translated.reason.startswith(NOT_TRANSLATED):
            return translated
        return farthest(user_turn, {RULES: by_rules, "translation": passed(user_turn, translated)})


def _answers(memories: Sequence[str], pivots: Sequence[str]) -> Answers:
    """Read the translations of some pivots from memories. Raises InputError if there are none."""
    from parapet.transforms.perturbations.back_translation import known_answers
    from parapet.transforms.translation.memory import by_languages, merge, read_memory
    from parapet.transforms.translation.translate import Known

    answers = known_answers(Known(by_languages(merge(*(read_memory(path) for path in memories)))), pivots)
    if not answers:
        raise InputError(f"has no translations from or to {', '.join(pivots)}", memories[0])
    return answers


KINDS: Mapping[str, type[LanguageVariation]] = {kind.name: kind for kind in (Typos, Verbose, Simple, Paraphrase)}


class LanguageVariations(LanguageVariation):
    """User turns with typos, longer, simpler or in other words: a set for each kind, and mixes with the original.

    Args:
      parts: the kinds.
      env: the rates of mixes, see :class:`LanguageVariation`.
      translating: how texts are translated, if an engine or a memory paraphrases.
      rewriter: the language model that rewrites turns.
    """

    name = "language_variations"
    title = "Language variations"

    def __init__(
        self,
        parts: Sequence[LanguageVariation],
        env: Texts = (),
        translating: Translating | None = None,
        rewriter: Rewriter | None = None,
    ) -> None:
        super().__init__(seed=parts[0].seed, env=env, rewritten=parts[0].rewritten or ())
        self._parts, self.translating, self.rewriter = tuple(parts), translating, rewriter
        self.plugin: Chosen | None = None
        if translating and translating.engine:
            self.kept = " (the translations so far are kept: run the same command again for the rest)"

    @property
    def parts(self) -> Sequence[LanguageVariation]:
        """Return the kinds that are made."""
        return self._parts

    def recorded_options(self) -> Mapping[str, object]:
        """Return the kinds, the rewritten turns by name and digest, and the translation engine."""
        how = self.translating
        writer = self.rewriter or (how.engine if how else None)
        return {
            "kinds": [part.name for part in self.parts],
            "env": self.envs,
            "least_changed": {part.name: part.least for part in self.parts},
            "rewritten": self.rewritten.digests() if self.rewritten else "",
            "pivots": [*how.pivots] if how else [],
            "provider": writer.provider if writer else "memory" if how and how.pivots else RULES,
            "model": writer.model if writer else "",
            "similarity": self._similarity(),
        }

    def plugins_used(self) -> Sequence[Chosen | None]:
        """Return the plug-in that translates."""
        return [self.plugin]

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Return the files of rewritten turns."""
        return [("--rewritten", path) for path in self.rewritten.paths] if self.rewritten else []

    def plan_lines(self, files: Sequence[DialogueFile]) -> Iterator[str]:
        """Yield lines on what would be translated, and its price."""
        from parapet.transforms.perturbations import back_translation, generated

        if self.rewriter:
            return generated.plan_lines(files, [part.name for part in self.parts if part.rewriter], self.rewriter)
        assert self.translating is not None  # the flag is refused if nothing is translated
        return back_translation.plan_lines(files, self.translating)

    def _similarity(self) -> str:
        if self.rewriter:
            return f"{meaning.measure()}, at least {NEAR_OF_REST} without values"
        return f"{meaning.measure()}, at least {NEAR}" if self.translating and self.translating.pivots else ""


def parse_kinds(given: str) -> list[str]:
    """Parse ``typos,verbose`` to kinds in the given order. Raises InputError if one is unknown or repeated."""
    kinds = listed(given)
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is not a kind of variation: must be one of {', '.join(KINDS)}", "--kinds")
    if not kinds or len(set(kinds)) < len(kinds):
        raise InputError("each kind must appear once (example: typos,verbose)", "--kinds")
    return kinds


def kinds_of(given: str | None, rewritten: Rewritten | None) -> list[str]:
    """Return the kinds to make: those named, else those of the rewritten turns, else all.

    Raises:
      InputError: a kind is unknown, or has no rewritten turns.
    """
    if rewritten is None:
        return parse_kinds(given or ",".join(KINDS))
    present = [kind for kind in KINDS if kind in rewritten.kinds()]
    kinds = parse_kinds(given) if given else present
    if not kinds:
        raise InputError("contains no line that can be used", rewritten.paths[0], "--rewritten")
    for kind in kinds:
        if kind not in present:
            raise InputError(f"{kind}: --rewritten contains no line of this kind, only {', '.join(present)}", "--kinds")
    return kinds


def parse_envs(given: str) -> list[str]:
    """Parse ``0.1,0.5,0.8`` to rates, ascending, as written; empty for ``none``. Raises InputError."""
    if given.strip() == "none":
        return []
    rates = listed(given)
    for rate in rates:
        if not 0 < _decimal(rate, "--env") <= 1:
            raise InputError(f"{rate} is not a number above 0 and up to 1 (example: 0.1,0.5,0.8)", "--env")
    if not rates or sorted(set(map(Decimal, rates))) != [Decimal(rate) for rate in rates]:
        raise InputError("must be rates in rising order (example: 0.1,0.5,0.8), or none", "--env")
    return rates


def parse_rates(given: str, at_least: int) -> Rates:
    """Parse ``word=0.1,omission=50``; other rates keep their defaults. Raises InputError."""
    values: dict[str, float] = {"word": Rates().word, "abbreviation": Rates().abbreviation, **dict(MIX)}
    for part in listed(given):
        name, equals, text = part.partition("=")
        if name not in values:
            raise InputError(no_such("rate", name, values), "--rates")
        if not equals:
            raise InputError(f"{name} must be followed by a number (example: {name}={values[name]:g})", "--rates")
        values[name] = float(_decimal(text, "--rates"))
    word, abbreviation = values.pop("word"), values.pop("abbreviation")
    if not (0 <= word <= 1 and 0 <= abbreviation <= 1 and word + abbreviation <= 1):
        raise InputError("word and abbreviation are probabilities, which must add up to at most 1", "--rates")
    if not all(0 <= weight <= 1e6 for weight in values.values()) or not sum(values.values()):
        raise InputError("the weights of kinds of typos must be 0 or more, and at least one must be above 0", "--rates")
    if at_least < 0:
        raise InputError(f"{at_least}: must be 0 or more", "--at_least")
    return Rates(word, abbreviation, tuple(values.items()), at_least)


def _decimal(text: str, flag: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InputError(f"{text!r} is not a number", flag)
    return number
