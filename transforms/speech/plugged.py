"""Speech engines by name: modules with a ``Synthesiser``, a ``Recogniser``, or both; ours, and those of plug-ins."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, Protocol

from parapet.schemas.errors import InputError
from parapet.transforms import plugins
from parapet.transforms.speech.engine import Recogniser, Synthesiser

Part = Literal["speaker", "listener"]

# Ours that are made as those of plug-ins are.
MODULES = {"flite": "parapet.transforms.speech.flite", "moonshine": "parapet.transforms.speech.moonshine"}


class PluggedSynthesiser(Synthesiser, Protocol):
    """What a plug-in's ``Synthesiser()`` gives.

    Attributes:
      default_voice: where no ``--voices`` are given.
    """

    default_voice: str

    def check(self, voices: list[str]) -> None:
        """Raises InputError for a voice that it does not have."""


_PARTS: dict[Part, tuple[str, type]] = {
    "speaker": ("Synthesiser", PluggedSynthesiser),
    "listener": ("Recogniser", Recogniser),
}


def engine_of(part: Part, named: str) -> tuple[plugins.Chosen | None, Any]:
    """The engine that ``--speaker`` or ``--listener`` names, and the plug-in that it is of, if it is of one.

    Raises:
      InputError: there is none, it has no such part, or the part lacks something.
    """
    if named in MODULES:
        engine = getattr(import_module(MODULES[named]), _PARTS[part][0], None)
        if engine is None:
            does = "listens, and does not speak" if part == "speaker" else "speaks, and does not listen"
            raise InputError(f"{named} only {does}: name another", f"--{part}")
        return None, engine()
    chosen = plugins.choose(plugins.SPEECH_ENGINES, named, f"--{part}")
    name, protocol = _PARTS[part]
    return chosen, plugins.make(chosen, plugins.members(protocol), name)
