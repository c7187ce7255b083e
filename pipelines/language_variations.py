"""``parapet language_variations``: typos, longer, simpler and other words, by rules, engines or a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from parapet.pipelines import translation
from parapet.pipelines.command import say
from parapet.pipelines.endpoint_flags import FLAGS as ENDPOINT_OPTIONS
from parapet.pipelines.endpoint_flags import EndpointOptions, address
from parapet.pipelines.perturb import Perturb, Prepared
from parapet.schemas.errors import InputError
from parapet.transforms.perturbations import VariationOptions
from parapet.transforms.running import plugins
from parapet.transforms.running.options import option

if TYPE_CHECKING:
    from parapet.transforms.perturbations.back_translation import Translating
    from parapet.transforms.perturbations.variations import LanguageVariations
    from parapet.transforms.translation.local import Paraphraser
    from parapet.transforms.translation.memory import Engine

RULES = "rules"  # the engine without translation
LLM = "llm"  # a language model behind an endpoint
LEAST_OF_FILES = 0.5  # least share of turns for which files of rewritten turns must have an entry

_TRANSLATING = ("pivots", "dry_run", "prefix", *translation.OPTIONS, *ENDPOINT_OPTIONS)
_OF_LLM = ("model", "parallel_calls", "memory", "dry_run", *ENDPOINT_OPTIONS)


@dataclass(frozen=True, kw_only=True)
class LanguageVariation(EndpointOptions, translation.TranslationOptions, VariationOptions, Perturb):
    """``parapet language_variations``."""

    group = "--engine llm"
    engine: str = option(
        "",
        "rules alone; llm at --endpoint; checkpoint, a paraphraser; memory: --memory; others translate and back "
        "(default: embedded if installed)",
        group="translation",
        choices=plugins.Names(plugins.TRANSLATION_ENGINES, RULES, LLM, translation.CHECKPOINT, translation.MEMORY),
    )
    pivots: str = option(
        "", "pivot languages, one drawn for each turn (default: pt)", group="translation", metavar="LIST"
    )
    model: list[str] = option(
        [],
        f"{translation.MODELS}; T5, BART or Pegasus for checkpoint; a name for llm",
        group="translation",
        metavar="[PAIR=]DIR",
        rare=True,
    )
    google_project: str = option("", translation.PROJECT, group="translation", metavar="ID", rare=True)
    endpoint: str = address(rare=True)
    prefix: str | None = option(
        None,
        "before each text of --engine checkpoint (default: 'paraphrase: ' for T5, else nothing)",
        group="--engine checkpoint",
        rare=True,
    )

    def make(self, **more: object) -> LanguageVariations:
        """Makes the perturbation: reads memories and rewritten turns, and opens the engine.

        Raises:
          InputError: the options cannot be used.
        """
        from parapet.transforms.perturbation.base import share_of
        from parapet.transforms.perturbations.generated import KINDS as WRITTEN
        from parapet.transforms.perturbations.rewritten import Rewritten
        from parapet.transforms.perturbations.variations import (
            KINDS,
            LanguageVariations,
            Paraphrase,
            kinds_of,
            parse_envs,
            parse_rates,
        )

        envs = parse_envs(self.env)
        least = None if self.least_changed is None else float(share_of(self.least_changed, "--least_changed"))
        parse_rates(self.rates, self.at_least)
        rewritten = Rewritten(self.rewritten) if self.rewritten else None
        if rewritten:
            rewritten.check(self.max_bad)
        kinds, engine = kinds_of(self.kinds, rewritten), self.engine_or_default()
        self._check_unused(kinds, engine)
        written = [kind for kind in kinds if kind in WRITTEN and engine == LLM]
        wanted = "paraphrase" in kinds and rewritten is None and engine != RULES
        how = self._writing(written) if written else self._translation(engine, wanted)
        parts = []
        for kind in kinds:
            typos = {name: getattr(self, name) for name in ("rates", "at_least", "perturb_values") if kind == "typos"}
            rules = {"engine": RULES} if kind == Paraphrase.name else {}
            part = KINDS[kind](seed=self.seed, rewritten=rewritten or (), **typos, **rules)
            usual = LEAST_OF_FILES if rewritten else part.usual_least
            part.least = usual if least is None else least
            part.is_written = kind in written
            if isinstance(part, Paraphrase) and how and not written:
                part.pivots = how.pivots
            parts.append(part)
        variations = LanguageVariations(parts, envs, how)
        if how and how.engine and engine not in (translation.CHECKPOINT, LLM):
            variations.plugin = translation.plugin_of(engine)
        return variations

    def engine_or_default(self) -> str:
        """Returns the engine of ``--engine``, or the one that the other options imply."""
        from parapet.transforms.translation.embedded import is_installed

        if self.engine or self.endpoint or self.memory:
            return self.engine or (LLM if self.endpoint else translation.MEMORY)
        return translation.EMBEDDED if self.pivots or is_installed() else RULES

    def _check_unused(self, kinds: Sequence[str], engine: str) -> None:
        """Raises InputError if an option has no effect."""
        of_kinds = {
            ("typos",): ("perturb_values", "rates"),
            ("verbose", "simple", "paraphrase") if engine == LLM else ("paraphrase",): ("engine", *_TRANSLATING),
        }
        for kind, names in of_kinds.items():
            for name in filter(lambda name: getattr(self, name), names):
                if self.rewritten:
                    raise InputError(
                        "has no effect with --rewritten, whose turns are used unchanged: leave it out", f"--{name}"
                    )
                if not {*kind} & {*kinds}:
                    is_named = f"the kind {kind[0]}, but" if len(kind) == 1 else f"{', '.join(kind)}, which"
                    raise InputError(
                        f"is for {is_named} --kinds does not include it: add it, or leave the flag out", f"--{name}"
                    )
        wrong = {RULES: {*_TRANSLATING}, LLM: {*_TRANSLATING} - {*_OF_LLM}}.get(engine, {*ENDPOINT_OPTIONS})
        for name in _TRANSLATING:
            if name in wrong and getattr(self, name):
                of_engine = f"--engine {LLM}" if name in ENDPOINT_OPTIONS else "an engine that translates"
                raise InputError(f"is for {of_engine}, but the engine is {engine}: add --engine", f"--{name}")

    def _translation(self, engine: str, wanted: bool) -> Translating | None:
        """Reads memories and opens the engine.

        Returns the settings of translation, which have no pivots if it is not wanted.
        """
        from parapet.transforms.perturbations.back_translation import Translating
        from parapet.transforms.storage.files import join
        from parapet.transforms.translation.local import PARAPHRASED
        from parapet.transforms.translation.memory import by_languages
        from parapet.transforms.translation.translate import Known

        # read even if unused, so that the output keeps translations that an earlier run paid for
        rows = self.read_memories(self.output)
        paid = join(self.output, translation.PAID)
        if not wanted:
            return Translating(Known({}), None, paid, rows) if rows else None
        self.check_engine(engine)
        opened: Engine | None
        if engine == translation.CHECKPOINT:
            opened, pivots = self._paraphraser(), [PARAPHRASED]
        elif self.prefix is not None:
            raise InputError(f"is for --engine checkpoint, but this is --engine {engine}", "--prefix")
        else:
            pivots = translation.parse_pivots(self.pivots or "pt")
            opened = self.open_engine(engine, pivots, self.dry_run)
        known = Known(by_languages(rows, *((opened.provider, opened.model) if opened else ("", ""))))
        if opened is None and not any(known.of("en", pivot) for pivot in pivots):
            hint = (
                "the engine 'memory' only replays translations: add a --memory that contains the user turns, or "
                "choose another --engine"
            )
            raise InputError(f"{hint}; there are no translations into {', '.join(pivots)}", "--engine")
        return Translating(known, opened, paid, rows, tuple(pivots), self.seed, engine == translation.EMBEDDED)

    def _writing(self, kinds: Sequence[str]) -> Translating:
        """Reads memories and opens the client of a language model that writes turns.

        Raises InputError if these cannot be used.
        """
        from parapet.transforms.perturbations.back_translation import Translating
        from parapet.transforms.perturbations.generated import Writer, language_of
        from parapet.transforms.storage.files import join
        from parapet.transforms.translation.memory import by_languages
        from parapet.transforms.translation.translate import Known

        if len(self.model) != 1:
            raise InputError("is required: give the name of the model at the endpoint, such as gpt-4o-mini", "--model")
        writer = Writer(self.endpoint_of(self.model[0], parallel=self.parallel_calls))
        if not self.dry_run:
            writer.open()
            writer.close()
        rows = self.read_memories(self.output)
        known = Known(by_languages(rows, writer.provider, writer.model))
        paid = join(self.output, translation.PAID)
        return Translating(known, writer, paid, rows, tuple(map(language_of, kinds)))

    def _paraphraser(self) -> Paraphraser:
        """Opens a checkpoint that paraphrases. Raises InputError if the options do not name one."""
        from parapet.transforms.translation.local import Paraphraser

        if self.pivots:
            raise InputError("is for an engine that translates, but this is --engine checkpoint", "--pivots")
        if len(self.model) != 1:
            raise InputError("must name exactly one folder, that of the checkpoint", "--model")
        beams = {} if self.beams is None else {"beams": self.beams}
        paraphraser = Paraphraser(self.model[0], prefix=self.prefix, **beams)
        if not self.dry_run:
            paraphraser.open()
        return paraphraser

    def recorded(self) -> dict[str, object]:
        """Lists its own options for ``run.json``, without those of translation, which the perturbation records."""
        own = {item.name for item in fields(VariationOptions)}
        return {name: value for name, value in super().recorded().items() if name in own}

    def report(self, prepared: Prepared, counters: dict[str, int]) -> None:
        """Prints the results and the cost, and deletes answers that the memory now contains."""
        from parapet.transforms.perturbations.variations import LanguageVariations
        from parapet.transforms.storage.files import clear, join

        super().report(prepared, counters)
        if self.dry_run:
            return
        clear(join(self.output, translation.PAID))
        assert isinstance(prepared.perturbation, LanguageVariations)
        how = prepared.perturbation.translating
        if how and how.engine and not how.writer:
            say(translation.bill(how.engine.provider, how.engine.dollars_per_million, counters))
