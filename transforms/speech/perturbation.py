"""Speech errors as a perturbation: user turns become ASR transcripts, at given word error rates."""

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
from parapet.schemas.errors import InputError
from parapet.transforms.corpora import Corpus, inlined, listed, train_files
from parapet.transforms.dead_letters import DeadLetter, DeadLettersFile, Tally
from parapet.transforms.perturbation import Perturbation, Perturbed, Place, Texts, comma_separated, share_of
from parapet.transforms.speech import LONGEST, RATIOS, SAMPLE

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.transforms.speech.calibrate import Calibration
    from parapet.transforms.speech.replacing import Form
    from parapet.transforms.speech.setup import Setup
    from parapet.transforms.speech.transcribing import Outcome, TurnOutcomes

State = tuple["Calibration", dict[int, list["Outcome"]]]


class SpeechErrors(Perturbation):
    """User turns are spoken, mixed with noise and recognised, so that each set has a given word error rate.

    Args:
      seed: of noise, voices and draws.
      wer: word error rates, one set each: ``SR-10``, ``SR-20``.
      noise: ``pink``, ``white``, ``babble``, or a folder of recordings.
      engine: the speech engine; ``embedded`` (eSpeak NG and PocketSphinx) needs no network.
      speaker: the text-to-speech engine, if it is another.
      listener: the ASR engine, if it is another.
      engine_options: of the engines, such as ``{"azure_region": "westeurope"}``.
      voices: each dialogue has one of them; by default the engine's own.
      language_model: of a listener that has one: ``train``, trained on the split train; ``mixed``, on that and the
        turns that are transcribed; ``own``, on the latter alone; ``auto``, the first that suffices; or a file in the
        ARPA format.
      snr: signal-to-noise ratios that may be used, dB.
      sample: how many texts are transcribed first, to check the rates.
      form: ``heard``: the transcript itself; ``restored``: words that were recognised correctly have the original's
        spelling.
      longest: the maximum length of a turn that is spoken, in characters.
      normalisation: a file of normalisation rules, in place of the built-in ones.
      calibration: ``calibration.json`` of another run, whose ratios and levels are used.
      cache: the folder in which transcripts are cached; required if workers run elsewhere. Default: a temporary one.
      max_bad: the share of the turns that may have no transcript; these keep their utterance.
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
        engine_options: Mapping[str, str | int] | None = None,
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
        from parapet.transforms.speech.engine import choose
        from parapet.transforms.speech.setup import Config, check_config, parse_ratios, parse_targets

        self.max_bad = share_of(max_bad, "--max_bad")
        self.cache = str(cache).rstrip("/") if cache else None
        if calibration and (snr or sample):
            raise InputError("has its own ratios: leave --snr and --sample out", "--calibration")
        if voices is not None and not listed(comma_separated(voices)):
            raise InputError("give one or more voices, such as klatt4,adam", "--voices")
        self.config = Config(
            targets=parse_targets(comma_separated(wer)),
            ratios=parse_ratios(comma_separated(snr or RATIOS)),
            sample=SAMPLE if sample is None else sample,
            seed=self.seed,
            noise=str(noise),
            engines={
                "speaker": choose("speaker", speaker or engine),
                "listener": choose("listener", listener or engine),
            },
            engine_options=dict(engine_options or {}),
            voices=tuple(listed(comma_separated(voices or ""))),
            language_model=str(language_model),
            normalisation=str(normalisation) if normalisation else None,
            longest=longest,
            form=form,
            calibration=str(calibration) if calibration else None,
        )
        check_config(self.config)

    @property
    def sets(self) -> tuple[str, ...]:
        """``SR-10`` and so on, one for each rate."""
        return self.config.sets

    def fit(self, corpus: Corpus) -> None:
        """Creates the engines, and the language model of the listener."""
        from parapet.transforms.speech.setup import prepare, write_model

        cache = self.cache
        if cache is None:
            cache = tempfile.mkdtemp(prefix="parapet-speech-")
            weakref.finalize(self, shutil.rmtree, cache, ignore_errors=True)
        setup = prepare(self.config, inlined(corpus), train_files(corpus), cache)
        write_model(setup)
        self.setup = msgspec.structs.replace(setup, model=None)  # workers have its files

    def analyze(self, files: beam.PCollection[DialogueFile]) -> beam.PCollection[tuple[Place, State]]:
        """The state of a dialogue: the calibration, and the transcripts of each turn."""
        import apache_beam as beam

        from parapet.transforms.speech.transcribing import Transcribe

        transcribed = files | "Transcribe" >> Transcribe(self.setup)
        counts = transcribed.turns | "Count" >> beam.FlatMap(_counts)
        dead_letters = transcribed.turns | "Failures" >> beam.FlatMap(_dead_letters)
        _ = dead_letters | "Check failures" >> DeadLettersFile(counts, _tallies, self.max_bad, "transcribed")
        return (
            transcribed.turns
            | "By dialogue" >> beam.MapTuple(lambda file, turn: ((file, turn.use.dialogue), turn))
            | "Of a dialogue" >> beam.GroupByKey()
            | "State" >> beam.Map(_state, beam.pvalue.AsSingleton(transcribed.calibration))
        )

    def perturb(self, dialogue: dict[str, Any], set_name: str, state: State | None) -> Perturbed:
        """The dialogue with its transcripts at the set's rate, and a row for every user turn."""
        from parapet.transforms.speech.replacing import Versions
        from parapet.transforms.speech.turns import user_turns

        calibration, outcomes = state or (None, {})
        setting = calibration.settings[self.sets.index(set_name)] if calibration else None
        versions = Versions(self.setup.speakers, self.setup.channel.noise.name, self.config.form)
        known = typed(dialogue)
        turns = list(user_turns(known, self.setup.speakers))
        version = versions.version(dialogue, known, turns, outcomes, calibration, setting)
        rows = [{"dialogue_id": known.dialogue_id, **replaced.row} for _, replaced in version.turns]
        return Perturbed(version.dialogue, rows)


def _state(dialogue: tuple[Place, Iterable[TurnOutcomes]], calibration: Calibration) -> tuple[Place, State]:
    place, turns = dialogue
    return place, (calibration, {turn.use.turn: turn.outcomes for turn in turns})


def _counts(turn: tuple[str, TurnOutcomes]) -> Iterator[tuple[str, int]]:
    yield "turns", 1
    yield "failed", sum(1 for _ in _dead_letters(turn))


def _dead_letters(item: tuple[str, TurnOutcomes]) -> Iterator[tuple[str, list[DeadLetter]]]:
    from parapet.transforms.speech.replacing import failure_of

    file, turn = item
    if failure := failure_of(turn.outcomes):
        where = f"[{turn.use.dialogue}].turns[{turn.use.turn}]"
        yield file, [DeadLetter("", "", file, "", where, failure.reason)]


def _tallies(counts: Mapping[str, int]) -> list[Tally]:
    return [Tally("user turn", counts.get("turns", 0), counts.get("failed", 0))]
