"""Models and data that come as packages. Folders are not known unless they are given."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from parapet.pipelines.doctor.findings import Finding
from parapet.pipelines.doctor.requirements import installed
from parapet.schemas.distribution import install_line


def installed_models() -> list[Finding]:
    """Trained pipelines of spaCy, and what the offline speech engines need."""
    return [
        *_spacy(),
        _data("PocketSphinx model", "pocketsphinx", "model/en-us/en-us", "speech_errors: the listener"),
        _data("eSpeak NG voices", "espeakng_loader", "espeak-ng-data", "speech_errors: the speaker"),
    ]


def _spacy() -> Iterator[Finding]:
    enables = "anonymise, compose: --spacy_model"
    found = sorted(entry_points(group="spacy_models"), key=lambda one: one.name)
    for one in found:
        told = f"spaCy {installed('spacy')}"
        detail = f"{one.dist.name} {one.dist.version}, {told}" if one.dist is not None else told
        yield Finding(one.name, "there", enables, detail)
    if not found:
        yield Finding(
            "spaCy models", "missing", enables, "none is installed", "python -m spacy download en_core_web_sm"
        )


def _data(name: str, module: str, folder: str, enables: str) -> Finding:
    spec = find_spec(module)  # a package without a parent: nothing is imported
    if spec is None:
        return Finding(name, "missing", enables, f"{module} is not installed", install_line("speech"))
    places = [Path(place) / folder for place in spec.submodule_search_locations or ()]
    there = next((place for place in places if place.is_dir()), None)
    if there is None:
        return Finding(
            name, "wrong", enables, f"{module} has no {folder}", f"{install_line('speech')} --force-reinstall"
        )
    return Finding(name, "there", enables, str(there))
