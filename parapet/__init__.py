"""Parapet (PARAphrases and PErTurbations): test data for the robustness of dialogue systems.

Names are imported when they are used: ``import parapet`` itself imports nothing heavy, not even Apache Beam.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parapet import beam as beam
    from parapet.api import Composition as Composition
    from parapet.api import Scores as Scores
    from parapet.api import apply_variants as apply_variants
    from parapet.api import compose as compose
    from parapet.api import load_corpus as load_corpus
    from parapet.api import perturb as perturb
    from parapet.api import perturb_sets as perturb_sets
    from parapet.api import perturb_text as perturb_text
    from parapet.api import perturbations as perturbations
    from parapet.api import rank as rank
    from parapet.api import schema_sensitivity as schema_sensitivity
    from parapet.api import schema_sensitivity_interval as schema_sensitivity_interval
    from parapet.api import score_states as score_states
    from parapet.api import to_pandas as to_pandas
    from parapet.schemas.errors import InputError as InputError
    from parapet.schemas.layout import sample_root as sample_root
    from parapet.transforms.perturb.apply import PerturbedCorpus as PerturbedCorpus
    from parapet.transforms.perturb.apply import check_perturbation as check_perturbation
    from parapet.transforms.perturb.base import Perturbation as Perturbation
    from parapet.transforms.perturb.base import Perturbed as Perturbed
    from parapet.transforms.perturb.base import changed_turn as changed_turn
    from parapet.transforms.perturb.corpora import Corpus as Corpus
    from parapet.transforms.perturb.corpora import corpus_of as corpus_of
    from parapet.transforms.perturb.user_turns import edit_user_turns as edit_user_turns

# The public names of each module.
_MODULES = {
    "parapet.api": "Composition Scores apply_variants compose load_corpus perturb perturb_sets perturb_text "
    "perturbations rank schema_sensitivity schema_sensitivity_interval score_states to_pandas",
    "parapet.schemas.errors": "InputError",
    "parapet.schemas.layout": "sample_root",
    "parapet.transforms.perturb.base": "Perturbation Perturbed changed_turn",
    "parapet.transforms.perturb.corpora": "Corpus corpus_of",
    "parapet.transforms.perturb.apply": "PerturbedCorpus check_perturbation",
    "parapet.transforms.perturb.user_turns": "edit_user_turns",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = list(_PLACES)


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
