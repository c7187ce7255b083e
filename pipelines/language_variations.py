"""``parapet language_variations``: typos, longer, simpler and other words, by rules or a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parapet.pipelines import endpoint_flags, perturb
from parapet.pipelines.endpoint_flags import FLAGS as ENDPOINT_OPTIONS
from parapet.schemas.errors import InputError
from parapet.transforms.core.options import INPUT, PARALLEL_CALLS, option

if TYPE_CHECKING:
    from parapet.transforms.perturb.rewrites import Rewriter
    from parapet.transforms.perturb.variations import LanguageVariations

_KIND, _WORDS = "variation", "words"


class LanguageVariation(endpoint_flags.EndpointOptions, perturb.Perturb):
    """``parapet language_variations``."""

    group = "a language model"
    description = (
        "Varies user turns: one set of dialogues for each kind of variation, and mixes of it with the original: "
        "OUT/typos, OUT/typos-env1 and so on."
    )
    example = """\
  parapet language_variations --output varied                 # the sample
  parapet language_variations --sgd sgd --kinds typos --rates word=0.2 --output varied
  parapet language_variations --sgd sgd --rewritten composed/rewritten.jsonl --output varied"""
    records = "dialogues, turns or lines of --rewritten"
    done = "varied"
    unusable = "left out, or turns unchanged"
    without = ()

    rewritten: list[str] = option(
        [], "rewritten turns: output of 'compose_variations'", group=INPUT, metavar="FILE", reads=True
    )
    kinds: str = option(
        "", "typos, verbose, simple, paraphrase (default: all, or those of --rewritten)", group=_KIND, metavar="LIST"
    )
    env: str = option(
        "0.1,0.5,0.8", "shares of varied turns in the mixes of each kind, or none", group=_KIND, metavar="LIST"
    )
    rates: str = option(
        "", "rates of typos (default: word=0.08,abbreviation=0.15)", group=_KIND, metavar="LIST", rare=True
    )
    perturb_values: bool = option(
        False, "typos in annotated values, too; states keep the correct value", group=_KIND, rare=True
    )
    model: str = option("", "the model's name at --endpoint", group=_WORDS, rare=True)
    endpoint: str = endpoint_flags.address(rare=True)
    parallel_calls: int | None = option(None, f"{PARALLEL_CALLS} (default: 4)", group=_WORDS, rare=True)

    def make(self, **more: object) -> LanguageVariations:
        """Makes the perturbation: reads rewritten turns, and opens the language model.

        Raises:
          InputError: the options cannot be used.
        """
        from parapet.transforms.perturb import rewrites, variations
        from parapet.transforms.perturb.rewrites import Rewritten

        rewritten = Rewritten(self.rewritten) if self.rewritten else None
        if rewritten:
            rewritten.check(self.max_bad)
        kinds = variations.kinds_of(self.kinds, rewritten)
        self._check_unused(kinds)
        rewriter = self._rewriter() if self.endpoint else None
        own: dict[str, dict[str, Any]] = {"typos": {"rates": self.rates, "perturb_values": self.perturb_values}}
        parts = []
        for kind in kinds:
            part = variations.KINDS[kind](seed=self.seed, rewritten=rewritten or (), **own.get(kind, {}))
            part.rewriter = rewriter if kind in rewrites.KINDS else None
            parts.append(part)
        return variations.LanguageVariations(parts, self.env)

    def _check_unused(self, kinds: list[str]) -> None:
        """Raises InputError if an option has no effect."""
        from parapet.transforms.perturb import rewrites

        of_llm = dict.fromkeys(("model", "parallel_calls", "dry_run", *ENDPOINT_OPTIONS), rewrites.KINDS)
        kinds_of = {**dict.fromkeys(("rates", "perturb_values"), ("typos",)), **dict.fromkeys(of_llm, rewrites.KINDS)}
        for name in filter(lambda name: getattr(self, name), kinds_of):
            if self.rewritten:
                raise InputError("has no effect with --rewritten, whose turns are used unchanged", f"--{name}")
            if {*kinds_of[name]}.isdisjoint(kinds):
                raise InputError(f"is for {', '.join(kinds_of[name])}, which --kinds does not include", f"--{name}")
            if name in of_llm and not self.endpoint:
                raise InputError("is for a language model: give its address with --endpoint", f"--{name}")

    def _rewriter(self) -> Rewriter:
        """Returns the language model. Raises InputError if it cannot be used."""
        from parapet.transforms.perturb.rewrites import Rewriter

        endpoint = self.endpoint_of(self.model, parallel=self.parallel_calls)
        rewriter = Rewriter(endpoint, endpoint_flags.cache_in(self.output, None))
        if not self.dry_run:  # so that faults are reported before any worker starts
            rewriter.open()
            rewriter.close()
        return rewriter

    def recorded(self) -> dict[str, object]:
        """Lists the options of typos for ``run.json``; the perturbation records the others."""
        return {name: value for name, value in super().recorded().items() if name in ("rates", "perturb_values")}
