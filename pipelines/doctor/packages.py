"""What is installed as packages: the core, extras and models, against what is required. Nothing of it is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, metadata, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from parapet.schemas.errors import DISTRIBUTION, install_line

# What may be uninstalled, and why nothing is lost by it.
SPARE = {"python-levenshtein": "absent: rapidfuzz gives the same values"}

# What each extra is for. An extra that is not listed is shown without it.
ENABLES = {
    "azure": "speech_errors --engine azure",
    "docs": "make docs (for developers)",
    "gcp": "Dataflow; gs:// paths in every pipeline",
    "google": "back_translate, language_variations: --engine google",
    "hub": "release push",
    "lint": "make lint (for developers)",
    "local": "back_translate, language_variations: --engine local; evaluate --scorer nli; train: checkpoints",
    "models": "train and predict, without checkpoints",
    "moonshine": "speech_errors --listener moonshine",
    "mturk": "mturk",
    "notebooks": "the notebooks of docs/notebooks; Beam in any notebook",
    "pandas": "parapet.to_pandas",
    "sign": "release sign; release verify, of signed releases",
    "speech": "speech_errors, offline",
    "test": "make test (for developers)",
}

_SHOWN = 4  # packages of an extra

# ``missing`` is what one may do without; ``wrong`` is what should not be so.
State = Literal["there", "missing", "wrong"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report.

    Attributes:
      name: of what was looked for.
      enables: the commands and flags that it is for.
      detail: what was found, or what is wrong; never a secret.
      next: what to do, a command where there is one; empty where nothing is to be done.
    """

    name: str
    state: State
    enables: str = ""
    detail: str = ""
    next: str = ""


def python_is_enough(running: str) -> tuple[bool, str]:
    """Whether this Python is of a version that the distribution takes, and which it takes."""
    wanted = str(metadata(DISTRIBUTION)["Requires-Python"] or "")
    return SpecifierSet(wanted).contains(running, prereleases=True), wanted


def core() -> list[Finding]:
    """What the core needs: each problem, and a line on all that is installed.

    Raises:
      PackageNotFoundError: the distribution is not installed.
    """
    wanted, findings = requirements_of(DISTRIBUTION), list[Finding]()
    for requirement in wanted:
        wrong = "; ".join(problems(requirement))
        name, spare = requirement.name, SPARE.get(canonicalize_name(requirement.name))
        install = f"pip install '{name}{requirement.specifier}'"
        if wrong and spare and installed(name) is None:
            findings.append(Finding(name, "missing", detail=spare, next=install))
        elif wrong:
            findings.append(Finding(name, "wrong", "everything", wrong, install))
    good = f"{len(wanted) - len(findings)} of {len(wanted)}, of versions in range"
    return [Finding("packages", "there", detail=good), *findings]


def extras() -> list[Finding]:
    """Each extra: whether all of it is there, and what it is for."""
    return [_extra(name) for name in sorted(metadata(DISTRIBUTION).get_all("Provides-Extra") or ())]


def _extra(name: str) -> Finding:
    wanted = requirements_of(DISTRIBUTION, name)
    wrong = [problem for requirement in wanted for problem in problems(requirement)]
    # Of a version out of range something is broken; what is only not there was never asked for.
    is_broken = all(installed(requirement.name) is not None for requirement in wanted)
    state: State = "there" if not wrong else "wrong" if is_broken else "missing"
    listed = wrong or [f"{requirement.name} {installed(requirement.name)}" for requirement in wanted]
    more = f", and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    detail = ", ".join(listed[:_SHOWN]) + more
    return Finding(name, state, ENABLES.get(name, ""), detail, install_line(name) if wrong else "")


def requirements_of(distribution: str, extra: str = "") -> list[Requirement]:
    """What a distribution requires here: by itself, or only with an extra."""
    every = [Requirement(line) for line in requires(distribution) or ()]

    def holds(requirement: Requirement, extra: str) -> bool:
        return requirement.marker is None or requirement.marker.evaluate({"extra": extra})

    if extra:
        return [one for one in every if holds(one, extra) and not holds(one, "")]
    return [one for one in every if holds(one, "")]


def problems(requirement: Requirement, seen: Iterable[str] = ()) -> Iterator[str]:
    """What is wrong with a requirement: it is not there, of another version, or lacks something of its own extras."""
    name, there = requirement.name, installed(requirement.name)
    if there is None:
        yield f"{name} is not installed"
    elif not requirement.specifier.contains(there, prereleases=True):
        yield f"{name} {there} is not {requirement.specifier}"
    else:
        for extra in sorted(requirement.extras - set(seen)):
            for further in requirements_of(name, extra):
                yield from problems(further, {*seen, extra})


@cache
def installed(name: str) -> str | None:
    """The version of a distribution, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def models() -> Iterator[Finding]:
    """Models that come as packages: trained pipelines of spaCy, and what the offline speech engines need."""
    enables, name = "anonymise, compose: --spacy_model", ""
    for point in sorted(entry_points(group="spacy_models"), key=lambda point: point.name):
        name = point.name
        source = f"{point.dist.name} {point.dist.version}, " if point.dist is not None else ""
        yield Finding(name, "there", enables, f"{source}spaCy {installed('spacy')}")
    if not name:
        how = "python -m spacy download en_core_web_sm"
        yield Finding("spaCy models", "missing", enables, "none is installed", how)
    yield data_of("PocketSphinx model", "pocketsphinx", "model/en-us/en-us", "speech_errors: the listener")
    yield data_of("eSpeak NG voices", "espeakng_loader", "espeak-ng-data", "speech_errors: the speaker")


def data_of(name: str, module: str, folder: str, enables: str) -> Finding:
    """Whether the folder of a package is there."""
    spec, install = find_spec(module), install_line("speech")  # a package without a parent: nothing is imported
    if spec is None:
        return Finding(name, "missing", enables, f"{module} is not installed", install)
    for place in spec.submodule_search_locations or ():
        if (path := Path(place) / folder).is_dir():
            return Finding(name, "there", enables, str(path))
    return Finding(name, "wrong", enables, f"{module} has no {folder}", f"{install} --force-reinstall")
