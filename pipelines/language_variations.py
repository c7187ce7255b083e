"""``parapet language_variations``: typos, longer, simpler and other words, by rules, engines or a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, ClassVar

import msgspec

from parapet.pipelines import translation
from parapet.pipelines.endpoint_flags import FLAGS as ENDPOINT_OPTIONS
from parapet.pipelines.endpoint_flags import EndpointOptions, address, cache_in
from parapet.pipelines.perturb import Perturb
from parapet.schemas.errors import InputError
from parapet.transforms.perturbations.options import VariationOptions
from parapet.transforms.running import plugins
from parapet.transforms.running.options import option

if TYPE_CHECKING:
    from parapet.transforms.perturbation.files import PerturbCorpus
    from parapet.transforms.perturbations.back_translation import Translating
    from parapet.transforms.perturbations.generated import Rewriter
    from parapet.transforms.perturbations.variations import LanguageVariations
    from parapet.transforms.translation.memory import Engine

RULES = "rules"  # the engine without translation
LLM = "llm"  # a language model behind an endpoint
LEAST_OF_FILES = 0.5  # least share of turns for which files of rewritten turns must have an entry


class LanguageVariation(EndpointOptions, translation.TranslationOptions, VariationOptions, Perturb):
    """``parapet language_variations``."""

    group = "--engine llm"
    pivots_text = "pivot languages, one drawn for each turn (default: pt)"
    engines: ClassVar = {
        **translation.TranslationOptions.engines,
        **dict.fromkeys(ENDPOINT_OPTIONS, (LLM,)),
        "model": ("local", translation.CHECKPOINT, LLM),
        "beams": ("local", translation.CHECKPOINT),
        "prefix": (translation.CHECKPOINT,),
    }
    engine: str = option(
        "",
        "rules; llm at --endpoint; checkpoint, a paraphraser; others translate and back (default: rules)",
        group="translation",
        choices=plugins.Names(plugins.TRANSLATION_ENGINES, RULES, LLM, translation.CHECKPOINT, translation.MEMORY),
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
        None, "before each text (default: 'paraphrase: ' for T5, else nothing)", group="--engine checkpoint", rare=True
    )

    def make(self, **more: object) -> LanguageVariations:
        """Makes the perturbation: reads memories and rewritten turns, and opens the engine.

        Raises:
          InputError: the options cannot be used.
        """
        from parapet.transforms.perturbation.base import share_of
        from parapet.transforms.perturbations import generated, variations
        from parapet.transforms.perturbations.rewritten import Rewritten

        envs = variations.parse_envs(self.env)
        variations.parse_rates(self.rates, self.at_least)
        rewritten = Rewritten(self.rewritten) if self.rewritten else None
        if rewritten:
            rewritten.check(self.max_bad)
        kinds, engine = variations.kinds_of(self.kinds, rewritten), self.engine_or_default()
        self._check_unused(kinds, engine)
        written = [kind for kind in kinds if kind in generated.KINDS and engine == LLM]
        rewriter = self._rewriter() if written else None
        is_wanted = "paraphrase" in kinds and rewritten is None and engine not in (RULES, LLM)
        how = self._translating(engine if is_wanted else "")
        parts = []
        for kind in kinds:
            typos = {name: getattr(self, name) for name in ("rates", "at_least", "perturb_values") if kind == "typos"}
            rules = {"engine": RULES} if kind == "paraphrase" else {}
            part = variations.KINDS[kind](seed=self.seed, rewritten=rewritten or (), **typos, **rules)
            part.least = LEAST_OF_FILES if rewritten else part.usual_least
            if self.least_changed is not None:
                part.least = float(share_of(self.least_changed, "--least_changed"))
            part.rewriter = rewriter if kind in written else None
            if isinstance(part, variations.Paraphrase) and how:
                part.pivots = how.pivots
            parts.append(part)
        perturbation = variations.LanguageVariations(parts, envs, how, rewriter)
        if how and how.engine and engine != translation.CHECKPOINT:
            perturbation.plugin = translation.plugin_of(engine)
        return perturbation

    def engine_or_default(self) -> str:
        """Returns the engine of ``--engine``, or the one that the other options imply."""
        implied = LLM if self.endpoint else translation.MEMORY if self.memory else ""
        return self.engine or implied or (translation.EMBEDDED if self.pivots else RULES)

    def _check_unused(self, kinds: Sequence[str], engine: str) -> None:
        """Raises InputError if an option has no effect."""
        of_engines = ("engine", "pivots", "memory", "parallel_calls", "dry_run", *self.engines)
        translated = ("verbose", "simple", "paraphrase") if engine == LLM else ("paraphrase",)
        needed = {"perturb_values": ("typos",), "rates": ("typos",), **dict.fromkeys(of_engines, translated)}
        for name in filter(lambda name: getattr(self, name), needed):
            if self.rewritten:
                raise InputError("has no effect with --rewritten, whose turns are used unchanged", f"--{name}")
            if not {*needed[name]} & {*kinds}:
                raise InputError(f"is for {', '.join(needed[name])}, which --kinds does not include", f"--{name}")
        self.check_engine(engine)
        unused = {RULES: of_engines[1:5], LLM: ("pivots",), translation.CHECKPOINT: ("pivots",)}.get(engine, ())
        for name in filter(lambda name: getattr(self, name), unused):
            raise InputError(f"is for an engine that translates, but the engine is {engine}", f"--{name}")

    def _rewriter(self) -> Rewriter:
        """Returns the language model. Raises InputError if it cannot be used."""
        from parapet.transforms.perturbations.generated import Rewriter

        endpoint = self.endpoint_of(self.model[0] if len(self.model) == 1 else "", parallel=self.parallel_calls)
        rewriter = Rewriter(endpoint, cache_in(self.output, None))
        if not self.dry_run:  # so that faults are reported before any worker starts
            rewriter.open()
            rewriter.close()
        return rewriter

    def _translating(self, engine: str) -> Translating | None:
        """Returns how turns are translated; None if not at all."""
        from parapet.transforms.translation.local import PARAPHRASED

        languages = {"": [], translation.CHECKPOINT: [PARAPHRASED]}
        pivots = languages.get(engine, [*dict.fromkeys(self.pivots or ("pt",))])
        how = self.translating(self.output, engine, pivots, self.dry_run)
        if not engine:  # the output keeps translations that an earlier run paid for
            return how if how.memory else None
        return msgspec.structs.replace(how, seed=self.seed, again=engine == translation.EMBEDDED)

    def open_engine(self, engine: str, pivots: Sequence[str]) -> Engine | None:
        """Makes an engine or a paraphraser. Raises InputError if the options do not fit it."""
        from parapet.transforms.translation.local import Paraphraser

        if engine != translation.CHECKPOINT:
            return super().open_engine(engine, pivots)
        if len(self.model) != 1:
            raise InputError("must name exactly one folder", "--model")
        return Paraphraser(self.model[0], self.beams or 4, self.prefix)

    def recorded(self) -> dict[str, object]:
        """Lists its own options for ``run.json``, without those of translation, which the perturbation records."""
        own = {item.name for item in fields(VariationOptions)}
        return {name: value for name, value in super().recorded().items() if name in own}

    def report(self, perturb: PerturbCorpus, counters: dict[str, int]) -> int | None:
        """Prints the results and the cost."""
        super().report(perturb, counters)
        how = getattr(perturb.perturbation, "translating", None)
        if how and not self.dry_run:
            self.settle(how, counters)
        return None
