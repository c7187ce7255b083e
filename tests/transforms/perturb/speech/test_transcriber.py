"""Transcribing with fake engines: a speaker that writes text into samples, and a listener that reads it there."""

import json
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from kit import cases, raised

pytest.importorskip("soundfile")

from parapet.transforms.core.fence import Refused, Stopped
from parapet.transforms.perturb.speech.alignment import Calibration
from parapet.transforms.perturb.speech.sound import make_noise
from parapet.transforms.perturb.speech.spoken import Utterance
from parapet.transforms.perturb.speech.transcribing import Channel, Outcome, Transcriber

CALIBRATION = Calibration((60.0, 55.0), (0.6,))  # dB: letters are told apart through either
LETTERS = " abcdefghijklmnopqrstuvwxyz"
TOP, STEP, HOLD = 30000, 2200, 64  # the first level, between two letters, and how many samples one lasts


class Engine:
    """One that counts how often it is opened and closed, and answers as the test says."""

    opened = closed = 0

    def answer(self, text):
        return text

    def open(self):
        self.opened += 1

    def close(self):
        self.closed += 1


class Speaker(Engine):
    """Each letter is a level, held for a while; the first level tells the scale."""

    def __init__(self, name="speaker", dollars=0.0, parallel=1):
        self.name, self.dollars_per_million, self.parallel = name, dollars, parallel
        self.asked: list[tuple[str, str]] = []

    def speak(self, text, voice):
        assert self.opened > 0
        self.asked.append((text, voice))
        self.answer(text)
        return np.repeat(np.array([TOP, *(TOP - STEP * (LETTERS.index(c) + 1) for c in text)], np.int16), HOLD)


class Listener(Engine):
    """Reads the levels; counts what it is asked."""

    def __init__(self, name="listener", dollars=0.0, parallel=1):
        self.name, self.dollars_per_hour, self.parallel = name, dollars, parallel
        self.heard: list[str] = []
        self.sounds: list[Any] = []
        self.lock = threading.Lock()

    def hear(self, sound):
        assert self.opened > 0
        inside = sound[4800:-4800].reshape(-1, HOLD).mean(axis=1)
        text = "".join(LETTERS[round((TOP - TOP * level / inside[0]) / STEP) - 1] for level in inside[1:])
        with self.lock:
            self.heard.append(text)
            self.sounds.append(sound)
        return self.answer(text)


def channel_of(place, speaker, listener, **other):
    given = {"noise": make_noise("white"), "seed": "0", "cache": str(place)}
    return Channel(speaker, listener, **{**given, **other})


def said(*texts):
    return [Utterance("v", text) for text in texts]


def transcribe(transcriber, utterances, shard="abc"):
    return transcriber.transcribe(shard, {one: [5000] for one in utterances}, CALIBRATION)


def hear(channel, utterances):
    transcriber = Transcriber(channel)
    outcomes = transcribe(transcriber, utterances)
    transcriber.close()
    return outcomes


def words(found):
    every = {}
    for utterance, outcome in found.items():
        assert outcome.failure or list(outcome.transcripts) == [60.0, 55.0]
        heard = {transcript.words for transcript in outcome.transcripts.values()}
        every[utterance.text] = {outcome.failure} if outcome.failure else heard
    return every


TEXTS = said("hello", "a table for two", "no")
ALL = {one.text: {one.text} for one in TEXTS}  # heard right


def stops(text):
    if text != "hello":
        raise Stopped("quota: used up")
    return text


def refuses(text):
    if text == "no":
        raise Refused("unavailable: try later")
    return text


def test_what_failed_is_not_kept_and_asked_again(tmp_path):
    listener = Listener()
    listener.answer = refuses
    outcomes = transcribe(Transcriber(channel_of(tmp_path, Speaker(), listener)), TEXTS)
    assert outcomes[TEXTS[2]] == Outcome({}, "unavailable: try later")
    assert words(outcomes)["hello"] == {"hello"}
    del listener.answer
    listener.heard.clear()
    assert (words(hear(channel_of(tmp_path, Speaker(), listener), TEXTS)), listener.heard) == (ALL, ["no", "no"])
    speaker, listener = Speaker(), Listener()
    speaker.answer = refuses
    found = hear(channel_of(tmp_path / "unspoken", speaker, listener), TEXTS)
    assert words(found) == {**ALL, "no": {"unavailable: try later"}}
    assert "no" not in listener.heard, "what cannot be spoken is not listened to"
    assert Counter(speaker.asked)["no", "v"] == 1


@cases("who", "speaker", "listener")
@cases("dollars", 0.0, 1.0)
def test_once_it_is_of_no_use_nobody_is_asked_any_more(who, dollars, tmp_path):
    speaker, listener = Speaker(dollars=dollars), Listener(dollars=dollars)
    (speaker if who == "speaker" else listener).answer = stops
    transcriber = Transcriber(channel_of(tmp_path, speaker, listener))
    outcomes = transcribe(transcriber, TEXTS)
    assert words(outcomes) == {"hello": {"hello"}, "a table for two": {"quota: used up"}, "no": {"quota: used up"}}
    asked = len(speaker.asked), len(listener.heard)
    assert asked == ((2, 2) if who == "speaker" else (2, 3))
    assert words(transcribe(transcriber, said("more"), "def")) == {"more": {"quota: used up"}}
    assert (len(speaker.asked), len(listener.heard)) == asked
    assert words(transcribe(transcriber, TEXTS[:1])) == {"hello": {"hello"}}, "kept"
    fresh = Listener(dollars=dollars)
    found = hear(channel_of(tmp_path, Speaker(dollars=dollars), fresh), TEXTS)
    assert (words(found), Counter(fresh.heard)) == (ALL, {"a table for two": 2, "no": 2})


@cases("paid", "speaker", "listener")
def test_what_was_paid_for_is_kept_after_each_utterance(paid, tmp_path):
    listener = Listener(dollars=float(paid == "listener"))
    channel = channel_of(tmp_path, Speaker(dollars=float(paid == "speaker")), listener)

    def killed(text):
        if text == "no":
            raise KeyboardInterrupt
        return text

    listener.answer = killed
    raised(KeyboardInterrupt, hear, channel, TEXTS)
    (file,) = (tmp_path / "heard").iterdir()
    assert (len(json.loads(file.read_bytes())), file.name) == (4, "abc.json")
    fresh = Listener(dollars=listener.dollars_per_hour)
    again = Speaker(dollars=channel.synthesiser.dollars_per_million)
    assert (words(hear(channel_of(tmp_path, again, fresh), TEXTS)), fresh.heard) == (ALL, ["no", "no"])
    assert again.asked == ([] if paid == "speaker" else [("no", "v")]), "paid for: on disk before it is heard"


@cases("dollars", 0.0, 1.0)
def test_several_at_a_time_hear_what_one_hears_and_stop_together(dollars, tmp_path):
    many = said(*(f"text {chr(97 + i)}" for i in range(24)))
    alone = hear(channel_of(tmp_path / "one", Speaker(dollars=dollars), Listener(dollars=dollars)), many)
    together = threading.Barrier(4, timeout=20)
    listener = Listener(dollars=dollars, parallel=4)
    listener.answer = lambda text: together.wait() * 0 or text  # four at a time, or it breaks
    speaker = Speaker(dollars=dollars, parallel=4)
    assert hear(channel_of(tmp_path / "four", speaker, listener), many) == alone
    assert (speaker.opened, listener.opened, Counter(listener.heard)) == (1, 1, {one.text: 2 for one in many})
    (one,), (four,) = ((tmp_path / name / "heard").iterdir() for name in ("one", "four"))
    assert one.read_bytes() == four.read_bytes()
    listener.heard.clear()
    listener.answer = stops
    stopped = words(hear(channel_of(tmp_path / "stop", Speaker(parallel=4), listener), many))
    assert stopped == {one.text: {"quota: used up"} for one in many}
    assert len(listener.heard) <= 4
