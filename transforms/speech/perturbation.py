"""Speech errors as a perturbation: user turns as a recogniser hears them, at stated word error rates."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.schemas.asr_turns import ASR_TURNS
from parapet.schemas.dialogue import typed
from parapet.schemas.dialogue_files import DialogueFile
from parapet.transforms.corpora import Corpus, inlined, train_files
from parapet.transforms.dead_letters import DeadLetter, DeadLettersFile, Tally
from parapet.transforms.perturbation import Perturbation, Perturbed, Place, Texts, comma_separated, share_of
from parapet.transforms.speech import LONGEST

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.speech.calibrate import Calibration
    from parapet.transforms.speech.listening import HeardTurn, Level
    from parapet.transforms.speech.replacing import Form
    from parapet.transforms.speech.setup import Setup

State = tuple["Calibration", dict[int, list["Level"]]]


class SpeechErrors(Perturbation):
    """User turns spoken, put through noise and heard, so that all of a set together have a word error rate.

    Args:
      seed: of noise, voices and draws.
      wer: word error rates, a set each: ``SR-10``, ``SR-20``.
      noise: ``pink``, ``white``, ``babble``, or a folder of recordings.
      engine: who speaks and listens; ``embedded`` (eSpeak NG and PocketSphinx) needs no network.
      speaker: who speaks, where that is another.
      listener: who listens, where that is another.
      engine_options: of the engines, such as ``{"azure_region": "westeurope"}``.
      voices: of which each dialogue has one; by default the engine's own.
      language_model: of a listener that has one: ``train``, made of the split train; ``mixed``, of that and the turns
        that are heard; ``own``, of the latter alone; ``auto``, the first that will do; or a file in the ARPA format.
      snr: signal-to-noise ratios that may be used, dB.
      sample: how many texts are heard first, to check the rates.
      form: words as they were ``heard``, or ``restored`` to the original's spelling where they were heard right.
      longest: characters of a turn that is still said.
      normalisation: a file of rules of the spoken form, in place of ours.
      calibration: ``calibration.json`` of another run, whose noises and levels are kept.
      cache: the folder in which what was heard is kept and found again, which workers elsewhere need; by default a
        temporary one.
      max_bad: up to which share of the turns may fail to be heard; they stay as they were.
    """

    name = "speech_errors"
    row_schema = ASR_TURNS

    setup: Setup  # since fit()

    def __init__(
        self,
        *,
        seed: int | str = 0,
        wer: Texts = (0.1, 0.2, 0.3),
        noise: str | Path = "pink",
        engine: str = "embedded",
        speaker: str = "",
        listener: str = "",
        engine_options: Mapping[str, Any] | None = None,
        voices: Texts | None = None,
        language_model: str | Path = "auto",
        snr: Texts | None = None,
        sample: int | None = None,
        form: Form = "heard",
        longest: int = LONGEST,
        normalisation: str | Path | None = None,
        calibration: str | Path | None = None,
        cache: str | Path | None = None,
        max_bad: float = 0.01,
    ) -> None:
        super().__init__(seed=seed)
        from parapet.transforms.speech.setup import read_options

        self.max_bad = share_of(max_bad, "--max_bad")
        self.cache = str(cache).rstrip("/") if cache else None
        self.config = read_options(
            wer=comma_separated(wer),
            snr=comma_separated(snr) if snr is not None else None,
            sample=sample,
            seed=self.seed,
            noise=str(noise),
            speaker=speaker or engine,
            listener=listener or engine,
            engine_options=engine_options or {},
            voices=comma_separated(voices) if voices is not None else None,
            language_model=str(language_model),
            normalisation=str(normalisation) if normalisation else None,
            longest=longest,
            form=form,
            calibration=str(calibration) if calibration else None,
        )

    @property
    def sets(self) -> tuple[str, ...]:
        """``SR-10`` and so on, one for each rate."""
        return self.config.sets

    def fit(self, corpus: Corpus) -> None:
        """Makes the engines, and the language model of the listener."""
        from parapet.transforms.speech.setup import prepare, write_model

        cache = self.cache
        if cache is None:
            cache = tempfile.mkdtemp(prefix="parapet-heard-")
            weakref.finalize(self, shutil.rmtree, cache, ignore_errors=True)
        setup = prepare(self.config, inlined(corpus), train_files(corpus), cache)
        write_model(setup)
        self.setup = msgspec.structs.replace(setup, model=None)  # workers have its files

    def analyze(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection[tuple[Place, State]]:
        """The state of a dialogue: the calibration, and what was heard of each turn."""
        import apache_beam as beam

        from parapet.transforms.speech.listening import Listen

        heard = files | "Listen" >> Listen(self.setup)
        counts = heard.turns | "Count" >> beam.FlatMap(_counts)
        letters = heard.turns | "Failures" >> beam.FlatMap(_letters)
        _ = letters | "Check failures" >> DeadLettersFile(counts, _tallies, self.max_bad, "heard")
        return (
            heard.turns
            | "By dialogue" >> beam.MapTuple(lambda file, turn: ((file, turn.use.dialogue), turn))
            | "Of a dialogue" >> beam.GroupByKey()
            | "State" >> beam.Map(_state, beam.pvalue.AsSingleton(heard.calibration))
        )

    def perturb(self, dialogue: dict[str, Any], set_name: str, state: State | None) -> Perturbed:
        """The dialogue as it was heard at the set's rate, and a row for every user turn."""
        from parapet.transforms.speech.turns import user_turns
        from parapet.transforms.speech.versions import Writer

        calibration, levels = state or (None, {})
        one = calibration.settings[self.sets.index(set_name)] if calibration else None
        writer = Writer(self.setup.speakers, self.setup.sound.noise.name, self.config.form)
        known = typed(dialogue)
        turns = list(user_turns(known, self.setup.speakers))
        version = writer.version(dialogue, known, turns, levels, calibration, one)
        rows = [{"dialogue_id": known.dialogue_id, **replaced.row} for _, replaced in version.turns]
        return Perturbed(version.dialogue, rows)


def _state(dialogue: tuple[Place, Iterable[HeardTurn]], calibration: Calibration) -> tuple[Place, State]:
    place, turns = dialogue
    return place, (calibration, {turn.use.turn: turn.levels for turn in turns})


def _counts(heard: tuple[str, HeardTurn]) -> Iterator[tuple[str, int]]:
    yield "turns", 1
    yield "failed", sum(1 for _ in _letters(heard))


def _letters(heard: tuple[str, HeardTurn]) -> Iterator[tuple[str, list[DeadLetter]]]:
    from parapet.transforms.speech.versions import failure_of

    file, turn = heard
    if failed := failure_of(turn.levels):
        where = f"[{turn.use.dialogue}].turns[{turn.use.turn}]"
        yield file, [DeadLetter("", "", file, "", where, failed.reason)]


def _tallies(counts: Mapping[str, int]) -> list[Tally]:
    return [Tally("user turn", counts.get("turns", 0), counts.get("failed", 0))]
