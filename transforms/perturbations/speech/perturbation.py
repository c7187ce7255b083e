"""Speech errors as a perturbation: user turns become ASR transcripts at given word error rates."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam

from parapet.schemas.dialogue import Dialogue, DialogueFile, typed
from parapet.schemas.errors import InputError
from parapet.schemas.rows import ASR_TURNS
from parapet.transforms.perturbation import corpora
from parapet.transforms.perturbation.base import (
    Analysis,
    Perturbation,
    Perturbed,
    Place,
    Shared,
    Texts,
    comma_separated,
    share_of,
)
from parapet.transforms.perturbation.languages import ENGLISH
from parapet.transforms.perturbation.report import place_of
from parapet.transforms.perturbations.speech import AUDIO, AZURE, LONGEST, RATIOS, SAMPLE, replacing, spoken
from parapet.transforms.perturbations.speech.alignment import Calibration, Form, Setting, set_name
from parapet.transforms.perturbations.speech.engine import RATE, choose, make
from parapet.transforms.perturbations.speech.setup import FORMS, check_extras, parse_ratios, parse_targets
from parapet.transforms.perturbations.speech.sound import KINDS, make_noise, sound_bytes
from parapet.transforms.perturbations.speech.transcribing import Channel, Outcome, Transcriber, TurnOutcomes, transcribe
from parapet.transforms.reports.numbers import Metric, Numbers
from parapet.transforms.reports.report import Example, Line, Part
from parapet.transforms.reports.text import counted, percent
from parapet.transforms.running.counts import Balance, Counted, CountKey, Counts, DeadLetter, Invariant, Tally
from parapet.transforms.running.fence import Refused, Stopped
from parapet.transforms.running.plugins import Chosen

WER = Metric(
    "wer", "word error rate", percent=True,
    meaning="Substituted, deleted and inserted words, divided by the words of the reference. Words are lower case "
    "without punctuation, numbers spelled out. The interval is a 95% percentile bootstrap over dialogues.",
)  # fmt: skip
KEPT = Metric(
    "slot_survival", "slot values kept", percent=True,
    meaning="Values whose words were all recognised correctly and together. The others have no span.",
)  # fmt: skip
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class State(NamedTuple):
    """The input of a dialogue's perturbation: its place, the run's calibration, and the outcomes of its turns."""

    place: Place
    calibration: Calibration
    outcomes: Mapping[int, Sequence[Outcome]]


class SpeechErrors(Perturbation):
    """User turns are spoken, mixed with noise and recognised, so that each set has a given word error rate.

    Args:
      seed: of noise, voices and draws.
      wer: word error rates, one set each: ``SR-10``, ``SR-20``.
      noise: ``pink``, ``white``, ``babble``, or a folder of recordings.
      reverberation: of the speaker's room: seconds until a sound has decayed by 60 dB; 0: none.
      engine: the speech engine; ``embedded`` (Hibari and Moonshine, both neural) needs no network.
      speaker: the text-to-speech engine, if it is another.
      listener: the ASR engine, if it is another.
      engine_options: of the engines, such as ``{"azure_region": "westeurope"}``.
      voices: each dialogue has one of them; by default the engine's own.
      snr: signal-to-noise ratios that may be used, dB.
      sample: how many texts are transcribed first, to check the rates.
      form: ``heard``: the transcript itself; ``restored``: words that were recognised correctly have the original's
        spelling.
      longest: the maximum length of a turn that is spoken, in characters.
      audio: ``wav`` or ``flac``: a run of whole files also writes the sound that was recognised.
      cache: the folder in which transcripts are cached; required if workers run elsewhere. Default: a temporary one.
      max_bad: the share of the turns that may have no transcript; these keep their utterance.
    """

    name = "speech_errors"
    languages = (ENGLISH,)
    row_schema = ASR_TURNS
    known_odd = "All users have one American voice without hesitations; at 30 % a few turns are beyond understanding."
    metrics = ()
    tables = (
        Numbers(
            "Word error rate by set",
            "sets/*",
            ("set",),
            (
                WER._replace(digits=2, interval=("wer_low", "wer_high"), shown_first=True),
                Metric("target", "target", percent=True),
                Metric("words", "words", shown_first=True),
                Metric("turns", "turns", shown_first=True),
                Metric("substitutions", "substituted"),
                Metric("deletions", "deleted"),
                Metric("insertions", "inserted"),
                KEPT._replace(shown_first=True),
            ),
            chart="dots",
        ),
        Numbers(
            "Word error rate of single turns",
            "sets/*",
            ("set",),
            (
                Metric("turn_wer.perfect", "perfect", meaning="Turns without a recognition error.", percent=True),
                Metric("turn_wer.garbled", "60% or more", percent=True,
                       meaning="Turns with a word error rate of 60% or more."),
                Metric("turn_wer.quartiles", "quartiles", percent=True, digits=0,
                       meaning="Quartiles of the word error rates of turns; each turn counts once."),
            ),
        ),
        Numbers("Word error rate by noise", "curve/*", ("point",),
                (WER, Metric("snr", "signal-to-noise ratio, dB"), Metric("words", "words")),
                note="Measured on the sample that calibrated the run."),
        Numbers("By domain", "sets/*/domains/*", ("set", "domain"), (WER, KEPT, Metric("turns", "turns")),
                in_card=False),
    )  # fmt: skip
    links: ClassVar = {
        "SET/turns/": "a row for every user turn",
    }

    speakers: spoken.Speakers  # set by prepare(), as is the channel
    channel: Channel
    try_engines = True  # once, before workers start
    _transcriber: Transcriber | None = None  # on workers of a run of whole files

    def __init__(
        self,
        *,
        seed: int | str = 0,
        wer: Texts = (0.1, 0.2, 0.3),
        noise: str | Path = "pink",
        reverberation: float = 0.0,
        engine: str = "embedded",
        speaker: str = "",
        listener: str = "",
        engine_options: Mapping[str, str | int] | None = None,
        voices: Texts | None = None,
        snr: Texts | None = None,
        sample: int | None = None,
        form: Form = "heard",
        longest: int = LONGEST,
        audio: str = "",
        cache: str | Path | None = None,
        max_bad: float = 0.01,
    ) -> None:
        super().__init__(seed=seed)
        self.max_bad = share_of(max_bad, "--max_bad")
        self.cache = str(cache).rstrip("/") if cache else None
        self.voices = tuple(corpora.listed(comma_separated(voices or "")))
        if voices is not None and not self.voices:
            raise InputError("must be one or more voices, such as heart,heart:1.1:0.9", "--voices")
        self.targets, self.ratios = parse_targets(comma_separated(wer)), parse_ratios(comma_separated(snr or RATIOS))
        self.sample, self.longest, self.form = SAMPLE if sample is None else sample, longest, form
        self.noise, self.reverberation = str(noise), reverberation
        self.engines = {
            "speaker": choose("speaker", speaker or engine),
            "listener": choose("listener", listener or engine),
        }
        self.engine_options = dict(engine_options or {})
        for number, flag in ((self.sample, "--sample"), (longest, "--longest")):
            if not isinstance(number, int) or number < 1:
                raise InputError(f"{number}: must be 1 or more", flag)
        if form not in FORMS:
            raise InputError(f"{form!r} must be one of {', '.join(FORMS)}", "--form")
        check_extras(self.engines.values(), self.noise)
        if audio and audio not in AUDIO:
            raise InputError(f"{audio!r} must be one of {', '.join(AUDIO)}", "--audio")
        self.audio = audio

    @property
    def sets(self) -> tuple[str, ...]:
        """Return the names of sets (``SR-10``), one for each rate."""
        return tuple(map(set_name, self.targets))

    def prepare(self, corpus: corpora.Corpus) -> None:
        """Create the engines and the noise."""
        cache = self.cache
        if cache is None:
            cache = tempfile.mkdtemp(prefix="parapet-speech-")
            weakref.finalize(self, shutil.rmtree, cache, ignore_errors=True)
        synthesiser = make("speaker", self.engines["speaker"], self.engine_options)
        voices = self.voices or tuple(corpora.listed(synthesiser.default_voice))
        self.speakers = spoken.Speakers(voices, self.seed, self.longest)
        babbled: set[str] = set()
        if self.noise == "babble":
            for file in corpora.inlined(corpora.selected(corpus, self.splits)):
                known = corpora.in_languages(file, self.languages)
                babbled.update(utterance.text for utterance, _ in spoken.occurrences_of(known, self.speakers))
            if not babbled:
                raise InputError("babble is made from the user turns, but none of them has words", "--noise")
        noise = make_noise(self.noise, sorted(babbled), self.reverberation)
        recogniser = make("listener", self.engines["listener"], self.engine_options)
        self.channel = Channel(synthesiser, recogniser, noise, self.seed, cache)
        synthesiser.check([*voices])
        if self.try_engines:
            for tried in (synthesiser, recogniser):
                tried.open()
                tried.close()

    @property
    def made_with(self) -> dict[str, object]:
        """Return what the word error rates depend on."""
        return {
            "synthesiser": self.channel.synthesiser.name,
            "recogniser": self.channel.recogniser.name,
            "noise": self.channel.noise.name,
            "voices": list(self.speakers.voices),
            "normalisation": spoken.VERSION,
            "samples_a_second": RATE,
        }

    def plugins_used(self) -> Sequence[Chosen | None]:
        """Return the engines."""
        return [*self.engines.values()]

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Return the cache, and recordings of noise."""
        noise = self.noise
        return [("--cache", self.channel.cache), *([] if noise in KINDS else [("--noise", noise)])]

    def plan_lines(self, files: Sequence[DialogueFile]) -> Iterator[str]:
        """Yield the amount of speech, and its price."""
        synthesiser, recogniser = self.channel.synthesiser, self.channel.recogniser
        turns = [utterance for file in files for utterance, _ in spoken.occurrences_of(file, self.speakers)]
        texts = set(turns)
        characters, words = sum(len(each.text) for each in texts), sum(len(each.text.split()) for each in texts)
        recordings = len(texts) * len(self.ratios)
        hours = (spoken.SECONDS_A_WORD * words + spoken.SECONDS_AROUND * len(texts)) / 3600 * len(self.ratios)
        price = characters * synthesiser.dollars_per_million / 1e6
        yield f"{counted(len(turns), 'user turn')} to speak, {counted(len(texts), 'distinct text')}"
        yield f"text to speech: {counted(characters, 'character')} with {synthesiser.name}, ${price:,.2f}"
        yield (
            f"ASR: at most {counted(recordings, 'recording')}, about {hours:.1f} hours, with "
            f"{recogniser.name}, ${hours * recogniser.dollars_per_hour:,.2f}"
        )
        yield (
            "transcripts in the cache are not requested again; the prices are built in and may be outdated: check them"
        )

    def analyze(self, files: beam.PCollection[DialogueFile]) -> Analysis:
        """Transcribe all turns."""
        transcribed = transcribe(files, self.speakers, self.channel, self.targets, self.ratios, self.sample)
        states = (
            transcribed.turns
            | "By dialogue" >> beam.Map(lambda turn: ((turn.use.file, turn.use.dialogue), turn))
            | "Of a dialogue" >> beam.GroupByKey()
            | "State" >> beam.MapTuple(lambda place, turns: (place, {turn.use.turn: turn.outcomes for turn in turns}))
        )
        return Analysis(
            states,
            shared={"calibration": transcribed.calibration | "Shared" >> beam.Map(lambda value: ("", value))},
            reported={"calibration": transcribed.calibration, "curve": transcribed.curve},
            counts=transcribed.turns | "Count turns" >> beam.FlatMap(_counts),
            dead_letters=transcribed.turns | "Turns without a transcript" >> beam.FlatMap(_dead_letters),
            refused=transcribed.refused,
        )

    def state_of(self, place: Place, state: Mapping[int, Sequence[Outcome]] | None, shared: Shared) -> State:
        """Return the calibration, and the outcomes of the dialogue's turns."""
        return State(place, shared["calibration"][""], state or {})

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: State) -> Perturbed:
        """Return the dialogue with transcripts at the set's rate, and a row for every user turn.

        In a run of whole files with ``audio``, there is also the sound of its turns.
        """
        known = typed(dialogue)
        setting = state.calibration.settings[self.sets.index(set_name)]
        replaced, services = self._replaced(known, setting, state), corpora.services_in_turns(known)
        rows = [{"dialogue_id": known.dialogue_id, **turn.row} for turn in replaced]
        counts: Counter[Counted] = Counter()
        for row in rows:
            for key, n in replacing.turn_counts(row, services[row["turn"]]):
                counts[key] += n
        counts.update(dict(replacing.dialogue_counts(state.place, rows)))
        files, problems = self._sounds(setting, state.place, rows) if self.audio else ([], [])
        if self.audio:
            counts.update({"recordings": len(files), "lost_recordings": len(problems)})
        shown = [row for row in rows if row["wer"]]
        return Perturbed(replacing.with_turns(dialogue, replaced), rows, counts, problems, shown, files)

    def open(self) -> None:
        """Create a transcriber for the sound of turns; its engines are opened on first use."""
        self._transcriber = Transcriber(self.channel)

    def close(self) -> None:
        """Close the engines."""
        if self._transcriber:
            self._transcriber.close()

    def _replaced(self, dialogue: Dialogue, setting: Setting, state: State) -> list[replacing.Replaced]:
        """Return the user turns of a dialogue in one set."""
        speakers, noise = self.speakers, self.channel.noise.name
        voice = spoken.voice_of(dialogue.dialogue_id, speakers)
        replaced = []
        for turn in spoken.user_turns(dialogue, speakers):
            draw = spoken.draw_of(dialogue.dialogue_id, turn.position, speakers)
            snr_of = partial(state.calibration.chosen, setting, words=len(turn.words), draw=draw)
            outcomes = state.outcomes[turn.position] if turn.words else ()
            replaced.append(replacing.replaced_turn(turn, outcomes, snr_of, self.form, voice, noise))
        return replaced

    def _sounds(
        self, setting: Setting, place: Place, rows: Iterable[Mapping[str, Any]]
    ) -> tuple[list[tuple[str, bytes]], list[InputError]]:
        """Return the sound of each transcribed turn, and the errors of those without sound."""
        file, position = place
        transcriber = self._transcriber
        if transcriber is None:
            return [], []
        files, problems = [], []
        for row in rows:
            if row["status"] != "heard":
                continue
            # Ids may contain any characters; the position makes the name unique.
            safe_id = _UNSAFE.sub("_", row["dialogue_id"])[:60]
            folder = f"{setting.name}/audio/{file.removesuffix('.json')}"
            try:
                samples = transcriber.samples(spoken.Utterance(row["voice"], row["spoken"]), row["snr"])
            except (Refused, Stopped) as error:
                problems.append(InputError(f"no_audio: {error}", "", f"turns[{row['turn']}]"))
                continue
            path = f"{folder}/{position:04}_{safe_id}_{row['turn']:02}.{self.audio}"
            files.append((path, sound_bytes(samples, self.audio)))
        return files, problems

    # Counts and statistics.

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Return tallies of turns without a transcript, and of turns whose sound could not be written."""
        lost = counts.sum("lost_recordings")
        return [
            Tally("user turn", counts.sum("spoken_turns"), counts.sum("failed_turns")),
            *([Tally("recording", counts.sum("recordings") + lost, lost)] if self.audio else []),
        ]

    def invariants(self) -> Sequence[Invariant]:
        """Check that every turn that was spoken has a transcript in every set, or failed in every set."""
        return (*super().invariants(), Balance("spoken_turns", ("heard", "failed"), self.sets, is_early=True))

    def statistics(self, counts: Counts, reported: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Return the word error rates of the sets, the curve of the sample, and the settings they depend on."""
        (calibration,) = reported["calibration"]
        return {
            **replacing.statistics(counts, calibration.settings, reported["curve"]),
            "made_with": self.made_with,
        }

    def recorded_options(self) -> dict[str, object]:
        """Return the options that determine the content, and the settings that the word error rates depend on."""
        return {
            "wer": self.targets,
            "form": self.form,
            "audio": self.audio,
            "longest": self.longest,
            "seed": self.seed,
            "snr": self.ratios,
            "sample": self.sample,
            **self.made_with,
            **dict.fromkeys(("cache", *AZURE), ""),
        }

    def example(self, shown: Mapping[str, Any]) -> Example:
        """Show a turn with its recognition errors marked, and its lost slot values."""
        pairs = (word.partition(">") for word in shown["alignment"].split(" "))
        words: list[Part] = []
        for before, arrow, after in pairs:
            space = " " if words else ""
            words.append(Part(space, before, after) if arrow else Part(space + before))
        lines = [Line("original", [Part(shown["original"])]), Line("recognised", words)]
        lost = [f"{slot['slot']}: {slot['value']}" for slot in shown["slots"] if slot["status"] == "lost"]
        if lost:
            lines.append(Line("lost slot values", [Part(", ".join(lost))]))
        return Example(f"{place_of(shown)}: {percent(shown['wer'])} of the words wrong at {shown['snr']:g} dB", lines)


def _counts(turn: TurnOutcomes) -> Iterator[tuple[Any, int]]:
    yield tuple(CountKey("spoken_turns")), 1
    yield tuple(CountKey("failed_turns")), sum(1 for _ in _dead_letters(turn))


def _dead_letters(turn: TurnOutcomes) -> Iterator[tuple[str, list[DeadLetter]]]:
    """Yield (sort key, letters) of a turn without a transcript; the key sorts it after those of its file."""
    use = turn.use
    if failure := replacing.failure_of(turn.outcomes):
        split, _, name = use.file.rpartition("/")
        letter = DeadLetter("", split, name, use.dialogue_id, f"turns[{use.turn}]", failure.reason)
        yield f"{use.file}\0{use.dialogue:06}\0{use.turn:04}", [letter]
