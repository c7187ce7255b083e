"""Parapet (PARAphrases and PErTurbations): test data for the robustness of dialogue systems.

Names are imported when they are used: ``import parapet`` itself imports nothing heavy, not even Apache Beam.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parapet import beam as beam
    from parapet.api import apply_variants, load_corpus, perturb, perturb_sets, perturb_text, perturbations
    from parapet.crowd import Composition, compose, rank
    from parapet.schemas.errors import InputError
    from parapet.schemas.layout import sample_root
    from parapet.scoring import Scores, schema_sensitivity, schema_sensitivity_interval, score_states, to_pandas
    from parapet.transforms.perturbation.base import Perturbation, Perturbed, changed_turn
    from parapet.transforms.perturbation.corpora import Corpus, corpus_of
    from parapet.transforms.perturbation.corpus import PerturbedCorpus, check_perturbation
    from parapet.transforms.perturbation.user_turns import edit_user_turns

# The module of each public name.
_PLACES = {
    "Composition": "parapet.crowd",
    "Corpus": "parapet.transforms.perturbation.corpora",
    "InputError": "parapet.schemas.errors",
    "Perturbation": "parapet.transforms.perturbation.base",
    "Perturbed": "parapet.transforms.perturbation.base",
    "PerturbedCorpus": "parapet.transforms.perturbation.corpus",
    "Scores": "parapet.scoring",
    "apply_variants": "parapet.api",
    "check_perturbation": "parapet.transforms.perturbation.corpus",
    "compose": "parapet.crowd",
    "changed_turn": "parapet.transforms.perturbation.base",
    "corpus_of": "parapet.transforms.perturbation.corpora",
    "edit_user_turns": "parapet.transforms.perturbation.user_turns",
    "load_corpus": "parapet.api",
    "perturb": "parapet.api",
    "perturb_sets": "parapet.api",
    "perturb_text": "parapet.api",
    "perturbations": "parapet.api",
    "rank": "parapet.crowd",
    "sample_root": "parapet.schemas.layout",
    "schema_sensitivity": "parapet.scoring",
    "schema_sensitivity_interval": "parapet.scoring",
    "score_states": "parapet.scoring",
    "to_pandas": "parapet.scoring",
}

__all__ = [
    "Composition",
    "Corpus",
    "InputError",
    "Perturbation",
    "Perturbed",
    "PerturbedCorpus",
    "Scores",
    "apply_variants",
    "changed_turn",
    "check_perturbation",
    "compose",
    "corpus_of",
    "edit_user_turns",
    "load_corpus",
    "perturb",
    "perturb_sets",
    "perturb_text",
    "perturbations",
    "rank",
    "sample_root",
    "schema_sensitivity",
    "schema_sensitivity_interval",
    "score_states",
    "to_pandas",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from parapet.schemas.errors import parapet_version

        return parapet_version()
    if name == "beam":
        return importlib.import_module("parapet.beam")
    if name in _PLACES:
        value = getattr(importlib.import_module(_PLACES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'parapet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "beam", "__version__"})
