"""``parapet language_variations``: typos, longer, simpler and other words, by rules, engines or a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

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
    from parapet.transforms.translation.memory import Engine

RULES = "rules"  # the engine without translation
LLM = "llm"  # a language model behind an endpoint
LEAST_OF_FILES = 0.5  # least share of turns for which files of rewritten turns must have an entry


@dataclass(frozen=True, kw_only=True)
class LanguageVariation(EndpointOptions, translation.TranslationOptions, VariationOptions, Perturb):
    """``parapet language_variations``."""

    group = "--engine llm"
    engines: ClassVar = {
        **translation.TranslationOptions.engines,
        **dict.fromkeys(ENDPOINT_OPTIONS, (LLM,)),
        "model": ("local", translation.CHECKPOINT, LLM),
        "beams": ("local", translation.CHECKPOINT),
        "prefix": (translation.CHECKPOINT,),
    }
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
        from parapet.transforms.perturbations import generated, variations
        from parapet.transforms.perturbations.rewritten import Rewritten

        envs = variations.parse_envs(self.env)
        least = None if self.least_changed is None else float(share_of(self.least_changed, "--least_changed"))
        variations.parse_rates(self.rates, self.at_least)
        rewritten = Rewritten(self.rewritten) if self.rewritten else None
        if rewritten:
            rewritten.check(self.max_bad)
        kinds, engine = variations.kinds_of(self.kinds, rewritten), self.engine_or_default()
        self._check_unused(kinds, engine)
        written = [kind for kind in kinds if kind in generated.KINDS and engine == LLM]
        is_wanted = bool(written) or ("paraphrase" in kinds and rewritten is None and engine != RULES)
        how = self._translating(engine, [*map(generated.language_of, written)], is_wanted)
        parts = []
        for kind in kinds:
            typos = {name: getattr(self, name) for name in ("rates", "at_least", "perturb_values") if kind == "typos"}
            rules = {"engine": RULES} if kind == "paraphrase" else {}
            part = variations.KINDS[kind](seed=self.seed, rewritten=rewritten or (), **typos, **rules)
            usual = LEAST_OF_FILES if rewritten else part.usual_least
            part.least = usual if least is None else least
            part.is_written = kind in written
            if isinstance(part, variations.Paraphrase) and how and not written:
                part.pivots = how.pivots
            parts.append(part)
        perturbation = variations.LanguageVariations(parts, envs, how)
        if how and how.engine and engine not in (translation.CHECKPOINT, LLM):
            perturbation.plugin = translation.plugin_of(engine)
        return perturbation

    def engine_or_default(self) -> str:
        """Returns the engine of ``--engine``, or the one that the other options imply."""
        from parapet.transforms.translation.embedded import is_installed

        if self.engine or self.endpoint or self.memory:
            return self.engine or (LLM if self.endpoint else translation.MEMORY)
        return translation.EMBEDDED if self.pivots or is_installed() else RULES

    def _check_unused(self, kinds: Sequence[str], engine: str) -> None:
        """Raises InputError if an option has no effect."""
        of_engines = ("engine", "pivots", "memory", "parallel_calls", "dry_run", *self.engines)
        translated = ("verbose", "simple", "paraphrase") if engine == LLM else ("paraphrase",)
        for names, needed in ((("perturb_values", "rates"), ("typos",)), (of_engines, translated)):
            for name in filter(lambda name: getattr(self, name), names):
                if self.rewritten:
                    raise InputError(
                        "has no effect with --rewritten, whose turns are used unchanged: leave it out", f"--{name}"
                    )
                if not {*needed} & {*kinds}:
                    reason = f"is for {', '.join(needed)}, which --kinds does not include"
                    raise InputError(f"{reason}: change --kinds, or leave the flag out", f"--{name}")
        self.check_engine(engine)
        unused = {RULES: of_engines[1:5], LLM: ("pivots",), translation.CHECKPOINT: ("pivots",)}.get(engine, ())
        for name in filter(lambda name: getattr(self, name), unused):
            raise InputError(f"is for an engine that translates, but the engine is {engine}", f"--{name}")

    def _translating(self, engine: str, languages: Sequence[str], is_wanted: bool) -> Translating | None:
        """Reads memories and opens the engine.

        Args:
          engine: its name.
          languages: what a language model writes.
          is_wanted: whether anything is translated; if not, the settings only keep the memories.
        """
        from parapet.transforms.perturbations.back_translation import Translating
        from parapet.transforms.storage.files import join
        from parapet.transforms.translation.memory import by_languages
        from parapet.transforms.translation.translate import Known

        # read even if unused, so that the output keeps translations that an earlier run paid for
        rows = self.read_memories(self.output)
        paid = join(self.output, translation.PAID)
        if not is_wanted:
            return Translating(Known({}), None, paid, rows) if rows else None
        opened, pivots = self._opened(engine, languages)
        known = Known(by_languages(rows, *((opened.provider, opened.model) if opened else ("", ""))))
        if opened is None and not any(known.of("en", pivot) for pivot in pivots):
            hint = (
                "the engine 'memory' only replays translations: add a --memory that contains the user turns, or "
                "choose another --engine"
            )
            raise InputError(f"{hint}; there are no translations into {', '.join(pivots)}", "--engine")
        return Translating(known, opened, paid, rows, pivots, self.seed, engine == translation.EMBEDDED)

    def _opened(self, engine: str, languages: Sequence[str]) -> tuple[Engine | None, Sequence[str]]:
        """Opens an engine once. Returns it with what it translates to. Raises InputError if it cannot be used."""
        from parapet.transforms.perturbations.generated import Writer
        from parapet.transforms.translation.local import PARAPHRASED, Paraphraser

        if engine not in (LLM, translation.CHECKPOINT):
            pivots = translation.parse_pivots(self.pivots or "pt")
            return self.open_engine(engine, pivots, self.dry_run), pivots
        if len(self.model) != 1:
            required = "is required: give the name of the model at the endpoint, such as gpt-4o-mini"
            reason = required if engine == LLM else "must name exactly one folder, that of the checkpoint"
            raise InputError(reason, "--model")
        opened: Writer | Paraphraser
        if engine == LLM:
            opened = Writer(self.endpoint_of(self.model[0], parallel=self.parallel_calls))
        else:
            languages, opened = [PARAPHRASED], Paraphraser(self.model[0], self.beams or 4, self.prefix)
        if not self.dry_run:
            opened.open()
            opened.close()
        return opened, languages

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
