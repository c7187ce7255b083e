"""The language variations as perturbations: typos, verbose, simple and paraphrased user turns (RADDLE, section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.schemas.dialogue import typed
from parapet.schemas.dialogue_files import DialogueFile
from parapet.schemas.errors import InputError
from parapet.schemas.perturbed_turns import PERTURBED_TURNS
from parapet.transforms.corpora import listed
from parapet.transforms.perturbation import Perturbation, Perturbed, Place, Texts, comma_separated
from parapet.transforms.user_turns import user_turns
from parapet.transforms.variations import plan
from parapet.transforms.variations.kinds import NOTHING, Given, Settings, row_of, vary, write_into
from parapet.transforms.variations.paraphrase import Answers
from parapet.transforms.variations.rewritten import REWRITTEN, Line, read_given, read_lines

if TYPE_CHECKING:
    import apache_beam as beam

Paths = str | Path | Sequence[str | Path]


class LanguageVariation(Perturbation):
    """User turns said in another way; values, states and everything of the system stay as they are.

    Args:
      seed: of everything that is drawn.
      env: rates of mixes with the original, such as ``(0.1, 0.5, 0.8)``: for each a set ``NAME-env1``, ``NAME-env2``,
        in which exactly this share of the turns that can be varied is.
      rewritten: JSON Lines of turns that people or a model have rewritten; they take the place of the rules.
    """

    row_schema = PERTURBED_TURNS

    def __init__(self, *, seed: int | str = 0, env: Texts = (), rewritten: Paths = ()) -> None:
        super().__init__(seed=seed)
        self.envs = tuple(plan.parse_envs(comma_separated(env))) if env else ()
        self.given = _lines(self.name, rewritten) if rewritten else NOTHING
        self.settings = Settings(self.seed, rewritten=bool(rewritten))

    @property
    def sets(self) -> tuple[str, ...]:
        """``typos``, and ``typos-env1`` and so on where there are mixes."""
        return (self.name, *(f"{self.name}-env{i}" for i in range(1, len(self.envs) + 1)))

    def needs_analysis(self) -> bool:
        """Only mixes do."""
        return bool(self.envs)

    def analyze(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection[tuple[Place, Any]]:
        """The state of a dialogue: turn to the smallest mix that has it varied."""
        import apache_beam as beam

        from parapet.transforms.variations.envs import Thresholds

        thresholds = (
            files | "Places" >> beam.FlatMap(self._places) | "Thresholds" >> beam.CombinePerKey(Thresholds(self.envs))
        )
        return files | "Levels" >> beam.FlatMap(self._levels, beam.pvalue.AsDict(thresholds))

    def perturb(self, dialogue: dict[str, Any], set_name: str, state: Any) -> Perturbed:
        """The dialogue with its user turns varied; of a mix, those that it has."""
        levels: Mapping[int, int] = state or {}
        env = self.sets.index(set_name)
        turns, rows = [*dialogue["turns"]], []
        for said in user_turns(typed(dialogue)):
            variation = vary(self.name, said, self.settings, self.given)
            level = levels.get(said.position, 0)
            rows.append(row_of(said, variation, level))
            if variation.operations and (not env or 0 < level <= env):
                turns[said.position] = write_into(turns[said.position], variation)
        return Perturbed({**dialogue, "turns": turns}, rows)

    def _places(self, file: DialogueFile) -> Iterator[tuple[str, bytes]]:
        """(split, the places of the turns of a file that can be varied, in the drawn order of all turns)."""
        from parapet.transforms.variations.envs import placed

        places = placed(file, [self.name], self.settings, self.given)
        yield file.split, b"".join(place for _, _, _, place in places)

    def _levels(
        self, file: DialogueFile, thresholds: Mapping[str, Sequence[bytes]]
    ) -> Iterator[tuple[Place, dict[int, int]]]:
        from parapet.transforms.variations.envs import level_of, placed

        levels: dict[int, dict[int, int]] = {}
        for _, position, turn, place in placed(file, [self.name], self.settings, self.given):
            levels.setdefault(position, {})[turn] = level_of(place, thresholds[file.split])
        for position, of_dialogue in levels.items():
            yield (file.relative, position), of_dialogue


def _paths(paths: Paths) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]


def _lines(kind: str, paths: Paths) -> Given:
    """The rewritten turns of a kind. Raises InputError where a line is bad, or the files have none of the kind."""
    given = read_given(_paths(paths))
    plan.check_lines(given, Fraction(0))
    plan.kinds_of(kind, given)
    lines = (line for path in given.paths for _, line in read_lines(path))
    return Given({line.key: (line.utterance, line.source or REWRITTEN) for line in lines if isinstance(line, Line)})


class Typos(LanguageVariation):
    """Typos of people who type quickly, and abbreviations of people who chat.

    Args:
      seed: of everything that is drawn.
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
        super().__init__(seed=seed, env=env, rewritten=rewritten)
        if not isinstance(at_least, int):
            raise InputError(f"{at_least!r} is no number", "at_least")
        self.settings = msgspec.structs.replace(
            self.settings, rates=plan.parse_rates(comma_separated(rates), at_least), perturb_values=perturb_values
        )


class Verbose(LanguageVariation):
    """Longer user turns: openers, politeness, hesitation."""

    name = "verbose"


class Simple(LanguageVariation):
    """Shorter user turns: what is not needed is dropped."""

    name = "simple"


class Paraphrase(LanguageVariation):
    """User turns through another language and back, from a translation memory; or as others have rewritten them.

    Args:
      seed: of everything that is drawn.
      memory: translation memories, Parquet or CSV, as ``parapet back_translate`` writes them.
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
        super().__init__(seed=seed, env=env, rewritten=rewritten)
        if not rewritten:
            if not memory:
                raise InputError("paraphrase needs memory, a translation memory, or rewritten, JSON Lines of turns")
            languages = tuple(listed(comma_separated(pivots)))
            self.settings = msgspec.structs.replace(self.settings, pivots=languages)
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
