"""Speech errors as a perturbation: user turns become ASR transcripts at given word error rates.

Slot spans are located by the alignment of a transcript with its turn; a row records both.
"""

from __future__ import annotations

import copy
import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam
import msgspec

from parapet.schemas.dialogue import Dialogue, DialogueFile, Turn, typed
from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.rows import ASR_TURNS
from parapet.transforms.core import plugins
from parapet.transforms.core.counts import Balance, Counted, CountKey, Counts, DeadLetter, Invariant, Tally
from parapet.transforms.perturb import base, corpora
from parapet.transforms.perturb.corpora import ENGLISH
from parapet.transforms.perturb.speech import AUDIO, AZURE, LONGEST, RATIOS, alignment, spoken, transcribing
from parapet.transforms.perturb.speech.alignment import Calibration, Found, choose_ratio, set_name
from parapet.transforms.perturb.speech.engine import Recogniser, Synthesiser
from parapet.transforms.perturb.speech.sound import KINDS, make_noise, sound_bytes
from parapet.transforms.perturb.speech.spoken import SpokenTurn, joined
from parapet.transforms.report.numbers import Metric, Numbers
from parapet.transforms.report.text import counted

# (frame, slot entry) to the span in the new utterance; None if the value is lost
Spans = dict[tuple[int, int], Found | None]


class Replaced(msgspec.Struct, frozen=True):
    """A user turn of a set.

    Attributes:
      row: a row of ``ASR_TURNS``, without the dialogue's id.
      spans: (frame, slot entry) to the span in the new utterance, or None if the value is lost. Entries without a span
        (copied values) are left out.
    """

    row: dict[str, Any]
    spans: Spans


def with_turns(raw: Mapping[str, Any], replaced: Iterable[Replaced]) -> dict[str, Any]:
    """Returns a copy of a dialogue, in the format of its file, with some turns replaced."""
    turns = [*raw["turns"]]
    for new in replaced:
        position = new.row["turn"]
        turns[position] = copy.deepcopy(turns[position])
        write_into(turns[position], new)
    return {**raw, "turns": turns}


def recognised_turn(turn: SpokenTurn, transcript: transcribing.Transcript, sound: Mapping[str, object]) -> Replaced:
    """Returns a turn with its transcript.

    Args:
      turn: the original turn.
      transcript: the transcript of its spoken form.
      sound: voice, noise and signal-to-noise ratio, for the row.
    """
    reference, hypothesis = [word.text for word in turn.words], transcript.words.split()
    aligned = alignment.align(reference, hypothesis)
    errors, positions = alignment.word_errors(aligned), alignment.recognised_positions(aligned)
    original, values = turn.turn.utterance, _original_spans(turn.turn)
    utterance, ranges = alignment.written(original, turn.words, positions, hypothesis, values.values())
    spans: Spans = {}
    for place, (start, end) in values.items():
        is_inside = 0 <= start < end <= len(original)
        spans[place] = alignment.find_span(start, end, turn.words, positions, ranges) if is_inside else None
    row = {
        **_row(turn, "heard", "", utterance, spans),
        "hypothesis": transcript.words,
        "alignment": alignment.alignment_text(reference, hypothesis, aligned),
        "words": len(reference),
        "substitutions": errors["replace"],
        "deletions": errors["delete"],
        "insertions": errors["insert"],
        "wer": errors.total() / len(reference),
        **sound,
        "audio_sha256": transcript.audio,
        "seconds": transcript.seconds,
    }
    return Replaced(row, spans)


def unchanged_turn(turn: SpokenTurn, status: str, reason: str, voice: str, noise: str) -> Replaced:
    """Returns a turn that keeps its utterance: it is ``not_spoken``, or an engine ``failed``."""
    spans: Spans = {place: Found(*span) for place, span in _original_spans(turn.turn).items()}
    return Replaced({**_row(turn, status, reason, turn.turn.utterance, spans), "voice": voice, "noise": noise}, spans)


def _original_spans(turn: Turn) -> dict[tuple[int, int], tuple[int, int]]:
    """Returns (frame, slot entry) → (start, end) of entries with a span whose ends fit into a row."""
    return {
        (f, i): (span.start, span.exclusive_end)
        for f, frame in enumerate(turn.frames)
        for i, span in enumerate(frame.slots)
        if isinstance(span.start, int) and isinstance(span.exclusive_end, int)
        if max(abs(span.start), abs(span.exclusive_end)) < 1 << 63
    }


def _row(turn: SpokenTurn, status: str, reason: str, utterance: str, spans: Spans) -> dict[str, Any]:
    """Returns the row of a turn with the columns that need no transcript, in the right order."""
    return {
        "turn": turn.position,
        "status": status,
        "reason": reason,
        "original": turn.turn.utterance,
        "utterance": utterance,
        "spoken": joined(turn.words),
        **dict.fromkeys(("hypothesis", "alignment"), ""),
        **dict.fromkeys(("words", "substitutions", "deletions", "insertions"), 0),
        **dict.fromkeys(("wer", "voice", "noise", "snr")),
        "audio_sha256": "",
        "seconds": None,
        "slots": _slot_rows(turn.turn, spans),
    }


def _slot_rows(turn: Turn, spans: Spans) -> list[dict[str, Any]]:
    rows = []
    for (f, i), (start, end) in _original_spans(turn).items():
        span, frame = spans[f, i], turn.frames[f]
        rows.append(
            {
                "service": frame.service,
                "slot": frame.slots[i].slot,
                "value": turn.utterance[start:end],
                "start": start,
                "exclusive_end": end,
                "status": "lost" if span is None else "kept",
                "heard_start": None if span is None else span.start,
                "heard_exclusive_end": None if span is None else span.end,
            }
        )
    return rows


def write_into(raw: dict[str, Any], replaced: Replaced) -> None:
    """Writes the new utterance and the remaining spans into a turn in the format of its file."""
    raw["utterance"] = replaced.row["utterance"]
    for f, frame in enumerate(raw["frames"]):
        if "slots" not in frame:
            continue
        kept = []
        for i, span in enumerate(frame["slots"]):
            if (f, i) not in replaced.spans:
                kept.append(span)
            elif (new := replaced.spans[f, i]) is not None:
                kept.append({**span, "start": new.start, "exclusive_end": new.end})
        frame["slots"] = kept


_ERRORS = ("substitutions", "deletions", "insertions")


def counts(rows: Iterable[Mapping[str, Any]]) -> Counter[Counted]:
    """Returns the counts of a dialogue: statuses of its turns, and sums over those with a transcript.

    Args:
      rows: the rows of ``ASR_TURNS`` of its user turns.
    """
    sums: Counter[Counted] = Counter(row["status"] for row in rows)
    for row in rows:
        if row["status"] == "heard":
            sums.update({name: row[name] for name in ("words", *_ERRORS)})
            sums["slots"] += len(row["slots"])
            sums["slots_kept"] += sum(slot["status"] == "kept" for slot in row["slots"])
            sums["perfect_turns"] += row["wer"] == 0
    return sums


def set_statistics(target: float, counts: Counts) -> dict[str, Any]:
    """Returns the numbers of a set, from the sums of :func:`counts`; rates without turns, words or slots are None."""
    set_name = alignment.set_name(target)
    names = ("words", *_ERRORS, "slots", "slots_kept", "perfect_turns")
    numbers = {name: counts.sum(name, set=set_name) for name in names}
    turns = counts.sum("heard", set=set_name)
    return {
        "target": target,
        "turns": turns,
        **numbers,
        "wer": _rate(sum(numbers[kind] for kind in _ERRORS), numbers["words"]),
        "slot_survival": _rate(numbers["slots_kept"], numbers["slots"]),
        "perfect": _rate(numbers["perfect_turns"], turns),
    }


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class State(NamedTuple):
    """The input of a dialogue's perturbation: its place, the run's calibration, and the outcomes of its turns."""

    place: base.Place
    calibration: Calibration
    outcomes: Mapping[int, transcribing.Outcome]


class SpeechErrors(base.Perturbation):
    """User turns are spoken, mixed with noise and recognised, so that each set has a given word error rate.

    Args:
      seed: of noise, voices and draws.
      wer: word error rates, one set each: ``SR-10``, ``SR-20``.
      noise: ``pink``, ``white``, or a folder of recordings.
      engine: the speech engine; ``embedded`` (Hibari and Moonshine, both neural) needs no network.
      speaker: the text-to-speech engine, if it is another.
      listener: the ASR engine, if it is another.
      engine_options: of the engines, such as ``{"azure_region": "westeurope"}``.
      voices: each dialogue has one of them; by default the engine's own.
      snr: signal-to-noise ratios that may be used, dB.
      longest: the maximum length of a turn that is spoken, in characters.
      audio: ``wav`` or ``flac``: a run of whole files also writes the sound that was recognised.
      cache: the folder in which transcripts are cached; required if workers run elsewhere. Default: a temporary one.
      transcripts: a file of transcripts that are used in place of new ones: the files of a cache in one.
      max_bad: the share of the turns that may have no transcript; these keep their utterance.
    """

    name = "speech_errors"
    languages = (ENGLISH,)
    row_schema = ASR_TURNS
    known_odd = "All users have one American voice without hesitations; at 30 % a few turns are beyond understanding."
    tables = (
        Numbers(
            "Word error rate by set",
            "sets/*",
            ("set",),
            (
                Metric(
                    "wer", "word error rate", percent=True, digits=2, shown_first=True,
                    meaning="Substituted, deleted and inserted words, divided by the words of the reference. Words are "
                    "lower case without punctuation, numbers spelled out.",
                ),
                Metric("target", "target", percent=True),
                Metric("words", "words", shown_first=True),
                Metric("turns", "turns", shown_first=True),
                Metric("substitutions", "substituted"),
                Metric("deletions", "deleted"),
                Metric("insertions", "inserted"),
                Metric(
                    "slot_survival", "slot values kept", percent=True, shown_first=True,
                    meaning="Values whose words were all recognised correctly and together. The others have no span.",
                ),
                Metric("perfect", "turns without error", percent=True),
            ),
            chart="dots",
        ),
    )  # fmt: skip
    links: ClassVar = {"SET/turns/": "a row for every user turn"}

    speakers: spoken.Speakers  # set by prepare(), as is the channel
    channel: transcribing.Channel
    try_engines = True  # once, before workers start
    _transcriber: transcribing.Transcriber | None = None  # on workers of a run of whole files

    def __init__(
        self,
        *,
        seed: int | str = 0,
        wer: base.Texts = (0.1, 0.2, 0.3),
        noise: str | Path = "pink",
        engine: str = "embedded",
        speaker: str = "",
        listener: str = "",
        engine_options: Mapping[str, str | int] | None = None,
        voices: base.Texts | None = None,
        snr: base.Texts | None = None,
        longest: int = LONGEST,
        audio: str = "",
        cache: str | Path | None = None,
        transcripts: str | Path = "",
        max_bad: float = 0.01,
    ) -> None:
        super().__init__(seed=seed)
        self.max_bad = base.share_of(max_bad, "--max_bad")
        self.cache = str(cache).rstrip("/") if cache else None
        self.transcripts = transcribing.read_transcripts(str(transcripts)) if transcripts else {}
        self.voices = tuple(corpora.listed(base.comma_separated(voices or "")))
        if voices is not None and not self.voices:
            raise InputError("must be one or more voices, such as heart,heart:1.1:0.9", "--voices")
        self.targets = parse_targets(base.comma_separated(wer))
        self.ratios = parse_ratios(base.comma_separated(snr or RATIOS))
        if not isinstance(longest, int) or longest < 1:
            raise InputError(f"{longest}: must be 1 or more", "--longest")
        self.longest = longest
        self.noise = str(noise)
        self.engines = {
            flag: plugins.choose(plugins.SPEECH_ENGINES, named or engine, f"--{flag}")
            for flag, named in (("speaker", speaker), ("listener", listener))
        }
        self.engine_options = dict(engine_options or {})
        check_packages(self.engines.values())
        if audio and audio not in AUDIO:
            raise InputError(f"{audio!r} must be one of {', '.join(AUDIO)}", "--audio")
        self.audio = audio

    @property
    def sets(self) -> tuple[str, ...]:
        """Returns the names of sets (``SR-10``), one for each rate."""
        return tuple(map(set_name, self.targets))

    def prepare(self, corpus: corpora.Corpus) -> None:
        """Creates the engines and the noise."""
        if (cache := self.cache) is None:
            cache = tempfile.mkdtemp(prefix="parapet-speech-")
            weakref.finalize(self, shutil.rmtree, cache, ignore_errors=True)
        synthesiser = self._engine("speaker", Synthesiser)
        voices = self.voices or tuple(corpora.listed(synthesiser.default_voice))
        self.speakers = spoken.Speakers(voices, self.seed, self.longest)
        recogniser = self._engine("listener", Recogniser)
        self.channel = transcribing.Channel(
            synthesiser, recogniser, make_noise(self.noise), self.seed, cache, self.transcripts
        )
        synthesiser.check([*voices])
        if self.try_engines:
            for tried in (synthesiser, recogniser):
                tried.open()
                tried.close()

    def _engine(self, flag: str, protocol: type) -> Any:
        """Creates a synthesiser or recogniser. Raises InputError if that fails, or a member is missing."""
        return plugins.make(self.engines[flag], plugins.members(protocol), protocol.__name__, self.engine_options)

    @property
    def made_with(self) -> dict[str, object]:
        """Returns what the word error rates depend on."""
        return {
            "synthesiser": self.channel.synthesiser.name,
            "recogniser": self.channel.recogniser.name,
            "noise": self.channel.noise.name,
            "voices": list(self.speakers.voices),
            "normalisation": spoken.VERSION,
        }

    def worker_inputs(self) -> Sequence[tuple[str, str]]:
        """Returns the cache, and recordings of noise."""
        noise = self.noise
        return [("--cache", self.channel.cache), *([] if noise in KINDS else [("--noise", noise)])]

    def plan_lines(self, files: Sequence[DialogueFile]) -> Iterator[str]:
        """Yields the amount of speech, and its price."""
        synthesiser, recogniser = self.channel.synthesiser, self.channel.recogniser
        uses = [use for file in files for use in spoken.occurrences_of(file, self.speakers) if isinstance(use, tuple)]
        texts = {utterance for utterance, _ in uses}
        characters = sum(len(utterance.text) for utterance in texts)
        hours = characters / spoken.CHARACTERS_AN_HOUR * len(self.ratios)
        price = characters * synthesiser.dollars_per_million / 1e6
        yield f"{counted(len(uses), 'user turn')} to speak, {counted(len(texts), 'distinct text')}"
        yield f"text to speech: {counted(characters, 'character')} with {synthesiser.name}, ${price:,.2f}"
        price = hours * recogniser.dollars_per_hour
        yield f"ASR: at most {hours:.1f} hours of sound with {recogniser.name}, ${price:,.2f}"
        yield "cached transcripts are not requested again; the prices are built in and may be outdated: check them"

    def analyze(self, files: beam.PCollection[DialogueFile]) -> base.Analysis:
        """Transcribes all turns."""
        calibration = Calibration(tuple(self.ratios), tuple(self.targets))
        turns, calibrated, refused = transcribing.transcribe(files, self.speakers, self.channel, calibration)
        states = (
            turns
            | "By dialogue" >> beam.MapTuple(lambda use, outcome: ((use.file, use.dialogue), (use.turn, outcome)))
            | "Of a dialogue" >> beam.GroupByKey()
            | "State" >> beam.MapTuple(lambda place, outcomes: (place, dict(outcomes)))
        )
        return base.Analysis(
            states,
            shared={"calibration": calibrated | "Shared" >> beam.Map(lambda value: ("", value)), base.REFUSED: refused},
            counts=turns | "Count turns" >> beam.FlatMapTuple(_counts),
            dead_letters=turns | "Turns without a transcript" >> beam.FlatMapTuple(_dead_letters),
        )

    def state_of(
        self, place: base.Place, state: Mapping[int, transcribing.Outcome] | None, shared: base.Shared
    ) -> State:
        """Returns the calibration, and the outcomes of the dialogue's turns."""
        return State(place, shared["calibration"][""], state or {})

    def perturb_set(self, dialogue: dict[str, Any], set_name: str, state: State) -> base.Perturbed:
        """Returns the dialogue with transcripts at the set's rate, and a row for every user turn.

        In a run of whole files with ``audio``, there is also the sound of its turns.
        """
        known = typed(dialogue)
        replaced = self._replaced(known, state.calibration.levels[self.sets.index(set_name)], state.outcomes)
        rows = [{"dialogue_id": known.dialogue_id, **turn.row} for turn in replaced]
        sounds = self._sounds(set_name, state.place, rows) if self._transcriber and self.audio else []
        return base.Perturbed(with_turns(dialogue, replaced), rows, counts(rows), files=sounds)

    def open(self) -> None:
        """Creates a transcriber for the sound of turns; its engines are opened on first use."""
        self._transcriber = transcribing.Transcriber(self.channel)

    def close(self) -> None:
        """Closes the engines."""
        if self._transcriber:
            self._transcriber.close()

    def _replaced(self, dialogue: Dialogue, level: int, outcomes: Mapping[int, transcribing.Outcome]) -> list[Replaced]:
        """Returns the user turns of a dialogue in the set with this level."""
        speakers, noise = self.speakers, self.channel.noise.name
        voice = spoken.voice_of(dialogue.dialogue_id, speakers)
        replaced = []
        for turn in spoken.user_turns(dialogue, speakers):
            if not turn.words:
                replaced.append(unchanged_turn(turn, "not_spoken", turn.reason, voice, noise))
                continue
            outcome = outcomes[turn.position]
            if outcome.failure:
                replaced.append(unchanged_turn(turn, "failed", outcome.failure, voice, noise))
                continue
            draw = spoken.draw_of(dialogue.dialogue_id, turn.position, speakers)
            snr = choose_ratio(outcome.errors, len(turn.words), draw, level)
            sound = {"voice": voice, "noise": noise, "snr": snr}
            replaced.append(recognised_turn(turn, outcome.transcripts[snr], sound))
        return replaced

    def _sounds(self, name: str, place: base.Place, rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, bytes]]:
        """Returns the sound of each transcribed turn, with the path of its file."""
        assert self._transcriber is not None
        file, position = place
        files = []
        for row in rows:
            if row["status"] == "heard":
                # Ids may contain any characters; the position makes the name unique.
                safe_id = _UNSAFE.sub("_", row["dialogue_id"])[:60]
                folder = f"{name}/audio/{file.removesuffix('.json')}"
                samples = self._transcriber.samples(spoken.Utterance(row["voice"], row["spoken"]), row["snr"])
                path = f"{folder}/{position:04}_{safe_id}_{row['turn']:02}.{self.audio}"
                files.append((path, sound_bytes(samples, self.audio)))
        return files

    # Counts and statistics.

    def analysis_tallies(self, counts: Counts) -> list[Tally]:
        """Returns a tally of turns without a transcript."""
        return [Tally("user turn", counts.sum("spoken_turns"), counts.sum("failed_turns"))]

    def invariants(self) -> Sequence[Invariant]:
        """Checks that every turn that was spoken has a transcript in every set, or failed in every set."""
        return (*super().invariants(), Balance("spoken_turns", ("heard", "failed"), self.sets, is_early=True))

    def statistics(self, counts: Counts) -> dict[str, Any]:
        """Returns the word error rates of the sets, and the settings they depend on."""
        sets = {set_name(target): set_statistics(target, counts) for target in self.targets}
        return {"sets": sets, "made_with": self.made_with}

    def recorded_options(self) -> dict[str, object]:
        """Returns the options that determine the content, and the settings that the word error rates depend on."""
        return {
            "wer": self.targets,
            "audio": self.audio,
            "longest": self.longest,
            "seed": self.seed,
            "snr": self.ratios,
            **self.made_with,
            **dict.fromkeys(("cache", "transcripts", *AZURE), ""),
        }


def parse_targets(text: str) -> list[float]:
    """Parses word error rates such as ``0.1,0.2``. Raises InputError unless they are distinct rates."""
    targets = _numbers(text, "--wer", "0.1,0.2,0.3")
    for target in targets:
        if not 0 < target < 1:
            raise InputError(f"{target:g} is not a word error rate: must be between 0 and 1 (example: 0.2)", "--wer")
    if not targets or len({set_name(target) for target in targets}) < len(targets):
        raise InputError("each word error rate must appear once (example: 0.1,0.2,0.3)", "--wer")
    return sorted(targets)


def parse_ratios(text: str) -> list[float]:
    """Parses signal-to-noise ratios such as ``20,12,5``, sorted from the quietest noise. Raises InputError."""
    ratios = _numbers(text, "--snr", "20,12,5")
    if len(set(ratios)) < max(2, len(ratios)) or not all(-20 <= ratio <= 60 for ratio in ratios):
        raise InputError("must be two or more different ratios from -20 to 60 dB (example: 20,12,5)", "--snr")
    return sorted(ratios, reverse=True)


def _numbers(text: str, flag: str, example: str) -> list[float]:
    try:
        return [float(part) for part in corpora.listed(text)]
    except ValueError:
        raise InputError(f"{text!r} must be numbers (example: {example})", flag) from None


def check_packages(engines: Iterable[plugins.Chosen]) -> None:
    """Raises MissingExtra if a package that every engine needs is not installed."""
    extras = {extra for chosen in engines if chosen.plugin.built_in for extra in chosen.plugin.extras}
    for package in ("num2words", "scipy", "soundfile"):
        if find_spec(package) is None:
            raise MissingExtra(package, ",".join(sorted(extras or {"speech"})))


def _counts(use: spoken.Occurrence, outcome: transcribing.Outcome) -> Iterator[tuple[Any, int]]:
    yield tuple(CountKey("spoken_turns")), 1
    yield tuple(CountKey("failed_turns")), int(bool(outcome.failure))


def _dead_letters(use: spoken.Occurrence, outcome: transcribing.Outcome) -> Iterator[tuple[str, list[DeadLetter]]]:
    """Yields (sort key, letters) of a turn without a transcript; the key sorts it after those of its file."""
    if outcome.failure:
        split, _, name = use.file.rpartition("/")
        letter = DeadLetter("", split, name, use.dialogue_id, f"turns[{use.turn}]", outcome.failure)
        yield f"{use.file}\0{use.dialogue:06}\0{use.turn:04}", [letter]
