"""Language variations as perturbations: typos, verbose, simple and paraphrased user turns (RADDLE, section 4).

Each kind is a class. :class:`LanguageVariations` makes several kinds in one run, so that each dialogue is read once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, typed
from parapet.schemas.errors import InputError, no_such
from parapet.schemas.rows import PERTURBED_TURNS
from parapet.transforms.core.counts import Counted, Counts, Exact, Invariant, Tally
from parapet.transforms.core.seeding import key_of
from parapet.transforms.perturb import base, corpora, mixes, paraphrase, rewrites, simple, typos
from parapet.transforms.perturb.rewrites import (
    NOT_ANSWERED,
    REWRITTEN,
    Rewrite,
    Rewritten,
    by_edits,
    reworded,
    unused_lines,
)
from parapet.transforms.perturb.user_turns import UserTurn, user_turns
from parapet.transforms.perturb.verbose import verbose
from parapet.transforms.report.numbers import Metric, Numbers

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.perturb.rewrites import Rewriter

Paths = str | Path | Sequence[str | Path]

BAD_SPAN = "bad_span"


class State(NamedTuple):
    """Where a dialogue is, and the thresholds of the mixes in its split, by kind."""

    place: base.Place = ("", 0)
    thresholds: Mapping[str, Sequence[bytes]] = {}


class LanguageVariation(base.Perturbation):
    """Rewrites user turns in one way; values, states and the system's turns are unchanged.

    Args:
      seed: of all random choices.
      env: rates of mixes with the original, such as ``(0.1, 0.5, 0.8)``: for each a set ``NAME-env1``, ``NAME-env2``,
        in which exactly this share of all user turns is varied, or all that can be where these are fewer.
      rewritten: JSON Lines of turns that people or a model have rewritten; they take the place of the rules.

    Attributes:
      rewriter: the language model that rewrites the turns; the rules are the fallback.
    """

    row_schema = PERTURBED_TURNS
    tables = (
        Numbers("Sets", "sets/*", ("set",), (
            Metric("turns", "user turns", shown_first=True),
            Metric("varied", "varied", of="turns", shown_first=True, meaning="User turns for which the kind has a rule "
                   "that applies safely, or words that keep every value. A mix has fewer than its rate if no others "
                   "can be varied."))),
        *(
            Numbers(f"{label.capitalize()}", f"sets/*/{name}/*", ("set", label), (Metric("", "user turns"),))
            for name, label in (("operations", "operation"), ("sources", "source"), ("refused", "candidate refused"),
                                ("reasons", "reason to stay unchanged"))
        ),
    )  # fmt: skip
    max_bad = Fraction(1)  # in Python, rewritten turns may be of more dialogues than are perturbed
    rewriter: Rewriter | None = None

    def __init__(self, *, seed: int | str = 0, env: base.Texts = (), rewritten: Paths | Rewritten = ()) -> None:
        super().__init__(seed=seed)
        self.languages = () if rewritten else (corpora.ENGLISH,)
        rates = base.comma_separated(env)
        self.envs = mixes.parse_rates(rates, "--env") if rates not in ("", "none") else []
        self.rewritten = rewritten if isinstance(rewritten, Rewritten) else None
        if rewritten and not isinstance(rewritten, Rewritten):
            self.rewritten = Rewritten([rewritten] if isinstance(rewritten, str | Path) else rewritten)
            self.rewritten.check(Fraction(0))

    def rewrite(self, user_turn: UserTurn, key: bytes, said: set[str]) -> Rewrite:
        """Applies the rules of the kind to a turn.

        Args:
          user_turn: the turn.
          key: the key of the draws.
          said: forms used earlier in the dialogue, for kinds that avoid repetition and add their own.
        """
        raise NotImplementedError

    def rewrite_all(self, turns: Sequence[UserTurn]) -> list[Rewrite]:
        """Returns the rewrites of a dialogue's turns, in order."""
        said = set[str]()
        rewrites = [self._proposed(turn, said) for turn in turns]
        if self.rewriter is not None:
            rewrites = self.rewriter.rewrite_all(turns, self.name, rewrites)
        return rewrites if self.rewritten else [*map(self._checked, turns, rewrites)]

    def _proposed(self, user_turn: UserTurn, said: set[str]) -> Rewrite:
        if user_turn.wrong:
            return Rewrite(reason=f"{BAD_SPAN}: {', '.join(user_turn.wrong)}: not inside the utterance")
        if self.rewritten is None:
            key = key_of(self.seed, self.name, user_turn.dialogue_id, str(user_turn.position))
            return self.rewrite(user_turn, key, said)
        if (line := self.rewritten.get((user_turn.dialogue_id, user_turn.position, self.name))) is None:
            return Rewrite(reason="not_rewritten")
        return reworded(user_turn, line.utterance, line.source or REWRITTEN, in_words=self.name == Paraphrase.name)

    def _checked(self, user_turn: UserTurn, rewrite: Rewrite) -> Rewrite:
        if rewrite.text and corpora.language_of(user_turn.utterance) not in ("", *self.languages):
            return Rewrite(reason="other_language")
        if rewrite.text and not rewrites.keeps_characters(user_turn.utterance, rewrite.text):
            return Rewrite(reason=rewrites.CHARACTERS)
        return rewrite

    @property
    def parts(self) -> Sequence[LanguageVariation]:
        """Returns the kinds that are made."""
        return (self,)

    @property
    def sets(self) -> tuple[str, ...]:
        """Returns for each kind the set itself, then its mixes: ``typos``, ``typos-env1`` and so on."""
        return tuple(name for part in self.parts for name in (part.name, *mixes.names(part.name, self.envs)))

    def row_sets(self) -> Sequence[str]:
        """Returns the kinds: the rows of a kind tell for each turn in which mixes it is varied."""
        return [part.name for part in self.parts]

    def needs_analysis(self) -> bool:
        """Whether there are mixes, whose thresholds depend on the whole corpus, or lines that need a turn in it."""
        return bool(self.envs or self.rewritten)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> base.Analysis:
        """Computes the thresholds of the mixes by kind and split, and find rewritten lines without a turn."""
        analysis = base.Analysis()
        if self.envs:
            analysis = mixes.find_thresholds(files, self.seed, self.envs, self._varied_turns)
        if self.rewritten is None:
            return analysis
        dead_letters, counts = unused_lines(files, self.rewritten, self.row_sets())
        return analysis._replace(dead_letters=dead_letters, counts=counts)

    def _varied_turns(self, dialogue: Dialogue) -> dict[str, tuple[int, list[UserTurn]]]:
        turns = list(user_turns(dialogue))
        return {
            kind: (len(turns), [turn for turn, rewrite in zip(turns, of_kind, strict=True) if rewrite.text])
            for kind, of_kind in {part.name: part.rewrite_all(turns) for part in self.parts}.items()
        }

    def state_of(self, place: base.Place, state: Any, shared: base.Shared) -> State:
        """Returns the thresholds of the dialogue's split."""
        split, thresholds = place[0].rpartition("/")[0], shared.get("thresholds", {})
        return State(place, {kind: thresholds.get((kind, split), ()) for kind in self.row_sets()})

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: Any) -> base.Perturbed:
        """Returns the dialogue in one set, with the rows of its kind."""
        return dict(self.perturb_sets(corpora.Item(0, dialogue), state))[set_name]

    def perturb_sets(self, item: corpora.Item, state: Any) -> Iterator[tuple[str, base.Perturbed]]:
        """Yields the dialogue in every set."""
        turns = list(user_turns(item.dialogue or typed(item.raw)))
        for part in self.parts:
            yield from self._sets_of(part, item.raw, turns, state or State())

    def _sets_of(
        self, part: LanguageVariation, raw: dict[str, Any], turns: Sequence[UserTurn], state: State
    ) -> Iterator[tuple[str, base.Perturbed]]:
        """Yields a dialogue in the set of one kind, then in its mixes."""
        rewrites, thresholds = part.rewrite_all(turns), state.thresholds.get(part.name)
        new: dict[int, dict[str, Any]] = {}  # by position
        levels: dict[int, int] = {}
        bad, rows = [], []
        for turn, rewrite in zip(turns, rewrites, strict=True):
            if rewrite.text:
                new[turn.position] = write_into(raw["turns"][turn.position], rewrite)
                if thresholds:
                    levels[turn.position] = mixes.level_of(mixes.order_of(self.seed, turn, state.place), thresholds)
            elif rewrite.reason.startswith((BAD_SPAN, NOT_ANSWERED)):
                bad.append(InputError(rewrite.reason, "", f"turns[{turn.position}]"))
            rows.append(row_of(turn, rewrite, levels.get(turn.position, 0)))

        def with_varied(chosen: Collection[int]) -> dict[str, Any]:
            return {**raw, "turns": [new[i] if i in chosen else turn for i, turn in enumerate(raw["turns"])]}

        yield part.name, base.Perturbed(with_varied(new), rows, {**_counts_of(rewrites), "bad_turns": len(bad)}, bad)
        for i, name in enumerate(mixes.names(part.name, self.envs), 1):
            chosen = [position for position, level in levels.items() if 0 < level <= i]
            yield name, base.Perturbed(with_varied(chosen), rows, {"turns": len(turns), "varied": len(chosen)})

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Returns tallies of user turns and of rewritten lines."""
        kinds = self.row_sets()
        lines = self.rewritten.total(kinds) if self.rewritten else 0
        turns, bad = (counts.by("set", name) for name in ("turns", "bad_turns"))
        return [
            *(Tally("user turn", turns.get(kind, 0), bad.get(kind, 0), kind) for kind in kinds),
            Tally("line", lines, counts.sum("bad_lines"), "--rewritten"),
        ]

    def invariants(self) -> Sequence[Invariant]:
        """Checks that mixes are exact, and that any turn has changed."""
        return (
            *super().invariants(),
            *(
                Exact("varied", "turns", name, partial(mixes.size_of, rate), total_set=kind, available="varied")
                for kind in self.row_sets()
                for name, rate in zip(mixes.names(kind, self.envs), self.envs, strict=True)
            ),
            _any_varied,
        )


def _any_varied(counts: Counts) -> Iterator[str]:
    """Raises InputError if no turn of any kind is varied."""
    if counts.sum("turns") and not counts.sum("varied"):
        raise InputError("none of the user turns could be varied, so nothing was published")
    return iter(())


def _counts_of(rewrites: Sequence[Rewrite]) -> dict[Counted, int]:
    values: Counter[Counted] = Counter()
    for rewrite in rewrites:
        values["turns"] += 1
        values["varied"] += bool(rewrite.text)
        values[("sources", rewrite.source) if rewrite.text else ("reasons", rewrite.reason.partition(":")[0])] += 1
        values.update(("operations", operation) for operation in rewrite.operations)
        values.update(("refused", candidate) for candidate in rewrite.refused)
    return values


def write_into(turn: dict[str, Any], rewrite: Rewrite) -> dict[str, Any]:
    """Returns a turn, in the format of its file, with another text and the positions of its spans."""
    places, frames = iter(rewrite.places), []
    for frame in turn["frames"]:
        slots = []
        for span in frame.get("slots", ()):
            if isinstance(span.get("start"), int) and isinstance(span.get("exclusive_end"), int):
                start, end = next(places)
                span = {**span, "start": start, "exclusive_end": end}
            slots.append(span)
        frames.append({**frame, "slots": slots} if slots else frame)
    return {**turn, "utterance": rewrite.text, "frames": frames}


def row_of(user_turn: UserTurn, rewrite: Rewrite, level: int) -> dict[str, Any]:
    """Returns a row of ``parapet.schemas.rows.PERTURBED_TURNS``."""
    return {
        "dialogue_id": user_turn.dialogue_id,
        "turn": user_turn.position,
        "status": "varied" if rewrite.text else "unchanged",
        "reason": rewrite.reason,
        "original": user_turn.utterance,
        "utterance": rewrite.text or user_turn.utterance,
        "source": rewrite.source if rewrite.text else "",
        "operations": rewrite.operations,
        "env": level,
    }


class Typos(LanguageVariation):
    """Typos of people who type quickly, and abbreviations of people who chat.

    Args:
      seed: of all random choices.
      rates: probabilities that a word has a typo, or is abbreviated: ``{"word": 0.08, "abbreviation": 0.15}``.
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
        perturb_values: bool = False,
        env: base.Texts = (),
        rewritten: Paths | Rewritten = (),
    ) -> None:
        super().__init__(seed=seed, env=env, rewritten=rewritten)
        self.rates, self.perturb_values = parse_rates(base.comma_separated(rates)), perturb_values

    def rewrite(self, user_turn: UserTurn, key: bytes, said: set[str]) -> Rewrite:
        """Makes typos in words that may have them."""
        text, spans, values = user_turn.utterance, user_turn.ranges, user_turn.values
        operations = typos.typo_operations(text, spans, values, self.rates, key, self.perturb_values)
        return by_edits(user_turn, operations) if operations else Rewrite(reason="no_word")


class Verbose(LanguageVariation):
    """The same turns in more words: polite and indirect requests, whole sentences for fragments, reasons, detours."""

    name = "verbose"
    known_odd = "A few dozen phrases recur in all dialogues. Turns of more than about 250 characters stay as they are."

    def rewrite(self, user_turn: UserTurn, key: bytes, said: set[str]) -> Rewrite:
        """Uses longer forms that do not occur in the dialogue yet."""
        return verbose(user_turn, key, said)


class Simple(LanguageVariation):
    """Shorter user turns: what is not needed is dropped."""

    name = "simple"
    known_odd = "Users sound curt, since politeness goes first."

    def rewrite(self, user_turn: UserTurn, key: bytes, said: set[str]) -> Rewrite:
        """Reduces the turn to its acts, or drop optional parts of its sentences."""
        return simple.simplified(user_turn)


class Paraphrase(LanguageVariation):
    """User turns in other words."""

    name = "paraphrase"
    known_odd = "Requests may become more or less polite. Sentences that only state something have few other forms."

    def rewrite(self, user_turn: UserTurn, key: bytes, said: set[str]) -> Rewrite:
        """Says the clauses in other forms, and their words with synonyms."""
        return paraphrase.rephrased(user_turn, key)


KINDS: Mapping[str, type[LanguageVariation]] = {kind.name: kind for kind in (Typos, Verbose, Simple, Paraphrase)}


class LanguageVariations(LanguageVariation):
    """User turns with typos, longer, simpler or in other words: a set for each kind, and mixes with the original.

    Args:
      parts: the kinds.
      env: the rates of mixes, see :class:`LanguageVariation`.
    """

    name = "language_variations"
    title = "Language variations"

    def __init__(self, parts: Sequence[LanguageVariation], env: base.Texts = ()) -> None:
        super().__init__(seed=parts[0].seed, env=env, rewritten=parts[0].rewritten or ())
        self._parts = tuple(parts)

    @property
    def parts(self) -> Sequence[LanguageVariation]:
        """Returns the kinds that are made."""
        return self._parts

    def recorded_options(self) -> Mapping[str, object]:
        """Returns the kinds, the names of files of rewritten turns, and who writes the words."""
        rewriter = next((part.rewriter for part in self.parts if part.rewriter), None)
        return {
            "kinds": [part.name for part in self.parts],
            "env": self.envs,
            "rewritten": [path.rpartition("/")[2] for path in self.rewritten.paths] if self.rewritten else [],
            **{name: value for part in self.parts for name, value in part.recorded_options().items()},
            **({"engine": rewriter.provider, "model": rewriter.model} if rewriter else {}),
        }

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Returns the files of rewritten turns."""
        return [("--rewritten", path) for path in self.rewritten.paths] if self.rewritten else []

    def plan_lines(self, files: Sequence[DialogueFile]) -> Iterator[str]:
        """Yields lines on what a language model would be asked, and its price."""
        from parapet.transforms.perturb import rewrites

        written = {part.name: part.rewriter for part in self.parts if part.rewriter}
        return rewrites.plan_lines(files, [*written], next(iter(written.values())))


def kinds_of(names: str, rewritten: Rewritten | None) -> list[str]:
    """Returns the kinds to make: those named, else those of the rewritten turns, else all. Raises InputError."""
    known = [kind for kind in KINDS if rewritten is None or kind in rewritten.kinds()]
    kinds = [*dict.fromkeys(corpora.listed(names))] or known
    if not kinds:
        raise InputError("--rewritten contains no line that can be used")
    for kind in kinds:
        if kind not in known:
            where = "" if rewritten is None else " in --rewritten"
            raise InputError(f"there is no kind {kind!r}{where}: must be one of {', '.join(known)}", "--kinds")
    return kinds


def parse_rates(text: str) -> typos.Rates:
    """Parses ``word=0.1,abbreviation=0``; a rate that is not named keeps its default. Raises InputError."""
    rates = msgspec.structs.asdict(typos.Rates())
    for part in corpora.listed(text):
        name, _, value = part.partition("=")
        if name not in rates:
            raise InputError(no_such("rate", name, rates), "--rates")
        try:
            rates[name] = float(base.share_of(float(value), "--rates"))
        except ValueError:
            raise InputError(
                f"{name} must be followed by a number (example: {name}={rates[name]:g})", "--rates"
            ) from None
    if sum(rates.values()) > 1:
        raise InputError("word and abbreviation are probabilities, which must add up to at most 1", "--rates")
    return typos.Rates(**rates)
