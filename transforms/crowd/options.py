"""What shapes a composition: the options of ``parapet compose`` and of ``parapet.compose``, checked once for both."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from parapet.schemas.errors import InputError
from parapet.schemas.layout import SplitSchemas, services_by_name
from parapet.transforms import distance, plugins
from parapet.transforms.crowd.settle import Settings
from parapet.transforms.crowd.vet import choose_rules
from parapet.transforms.naming import conventions_of
from parapet.transforms.seeding import seed_text

SELECTIONS = ("random", "diverse")


class Options(msgspec.Struct, frozen=True):
    """The options, as the command's flags have them.

    Attributes:
      seed: of the draw.
      selection: which five answers are taken where more are good, one of ``SELECTIONS``.
      allow_partial: compose services whose elements have one good answer at least, repeating it.
      name_distance: ranks names: ``levenshtein``, ``jaccard``, or a plug-in.
      description_distance: ranks descriptions.
      stopwords: ``articles``, ``spacy``, ``none``, or a file of words.
      spacy_model: a trained spaCy pipeline for lemmas; empty for simplemma's.
      vetting_rules: of plug-ins, by name.
    """

    seed: int = 0
    selection: str = "random"
    allow_partial: bool = False
    name_distance: str = "levenshtein"
    description_distance: str = "jaccard"
    stopwords: str = "articles"
    spacy_model: str = ""
    vetting_rules: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises InputError for what cannot work."""
        seed_text(self.seed)
        distance.check_distance(self.name_distance, "name_distance")
        distance.check_distance(self.description_distance, "description_distance")
        if self.selection not in SELECTIONS:
            raise InputError(f"{self.selection!r} is unknown: expected 'random' or 'diverse'", "selection")
        distance.load_stopwords(self.stopwords)
        distance.check_spacy_model(self.spacy_model)
        choose_rules(self.vetting_rules)

    def settings(self, splits: Sequence[SplitSchemas]) -> Settings:
        """The same as every service needs it, with the conventions of the corpus's names."""
        stopwords = distance.load_stopwords(self.stopwords)
        return Settings(
            conventions_of(services_by_name(list(splits)).values()),
            method=distance.Method(self.name_distance, self.description_distance, stopwords, self.spacy_model),
            seed=self.seed,
            selection=self.selection,
            allow_partial=self.allow_partial,
            vetting_rules=self.vetting_rules,
        )

    def method(self) -> dict[str, str]:
        """``method`` of ``statistics.json``; never the names of input files, which do not shape the result."""
        return {
            "names": f"{self.name_distance.partition('=')[0]} distance",
            "descriptions": f"{self.description_distance.partition('=')[0]} distance",
            "stopwords": self.stopwords if self.stopwords in ("articles", "spacy", "none") else "a file",
            "lemmas": self.spacy_model or f"simplemma {version('simplemma')}",
            "selection": self.selection,
            "seed": str(self.seed),
            "partial": "allowed" if self.allow_partial else "left out",
            **({"vetting rules": ", ".join(choose_rules(self.vetting_rules))} if self.vetting_rules else {}),
        }

    def plugins(self) -> dict[str, Any]:
        """Where the plug-ins are from, for ``run.json``."""
        distances = ((self.name_distance, "name_distance"), (self.description_distance, "description_distance"))
        rules = (chosen for chosen, _ in choose_rules(self.vetting_rules).values())
        chosen = (plugins.choose(plugins.DISTANCES, *one) for one in distances)
        return plugins.recorded(*chosen, *rules)
