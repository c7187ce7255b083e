"""Speech engines of plug-ins: the entry point names what has a ``Synthesiser``, a ``Recogniser``, or both."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from transforms import plugins
from transforms.speech.engine import Recogniser, Synthesiser

Part = Literal["speaker", "listener"]


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


def engine_of(part: Part, named: str) -> tuple[plugins.Chosen, Any]:
    """The plug-in that ``--speaker`` or ``--listener`` names, and its engine.

    Raises:
      InputError: there is none, it has no such part, or the part lacks something.
    """
    chosen = plugins.choose(plugins.SPEECH_ENGINES, named, f"--{part}")
    name, protocol = _PARTS[part]
    return chosen, plugins.make(chosen, plugins.members(protocol), name)
