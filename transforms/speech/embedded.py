"""The engine ``embedded``: eSpeak NG speaks, PocketSphinx listens."""

from parapet.transforms.speech.espeak import Espeak as Synthesiser
from parapet.transforms.speech.sphinx import Sphinx as Recogniser

__all__ = ["Recogniser", "Synthesiser"]
