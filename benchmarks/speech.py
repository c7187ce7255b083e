"""Times ``parapet speech_errors`` against Moonshine alone on the same sounds, and on two processes.

    python -m benchmarks.speech [--utterances 300] [--sgd ROOT] [--snr 6,1] [--folder bench-output]

Dialogues of the bundled sample, or of ROOT, are used until they have enough distinct texts (the sample has some 240).
Each text is recognised with two noises. The loop has its sounds and its model in memory, and only recognition is timed;
the pipeline reads, speaks, adds noise, recognises, aligns and writes; it leaves out the second noise where that cannot
bring a turn closer to its share of errors. A second run into the same folder finds all transcripts cached, so its time
is not recognition. Both must recognise the same words. CPU seconds are user and system time of the program and its
children.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import measure
from benchmarks.rewrite import TWO_PROCESSES
from parapet.schemas import layout

SEED, VOICE = "0", "heart"


def main() -> int:
    """Prints the table; returns 1 if the two transcripts differ."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--utterances", type=int, default=300)
    flags.add_argument("--sgd", type=Path, default=layout.sample_root())
    flags.add_argument("--snr", default="6,1", help="two ratios, dB")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    flags.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    args = flags.parse_args()
    if args.alone:
        alone(args.alone)
        return 0
    root = args.folder / "speech"
    shutil.rmtree(root, ignore_errors=True)
    splits = take(args.sgd, root / "corpus", args.utterances)
    texts, seconds = prepare(root, splits, parse_ratios(args.snr))
    return compare(root, splits, args.snr, texts, seconds)


def parse_ratios(given: str) -> tuple[float, float]:
    """Parses two ratios; returns that of the quieter noise first."""
    loud, quiet = sorted(float(part) for part in given.split(","))
    return quiet, loud


def take(source: Path, corpus: Path, utterances: int) -> list[str]:
    """Copies dialogues until they have enough distinct user turns. Returns the splits with dialogues."""
    texts: set[str] = set()
    splits = []
    for split in layout.SPLITS:
        chosen = []
        for dialogue in dialogues(source, split):
            if len(texts) >= utterances:
                break
            chosen.append(dialogue)
            texts |= {turn["utterance"] for turn in dialogue["turns"] if turn["speaker"] == "USER"}
        if chosen:
            (corpus / split).mkdir(parents=True)
            (corpus / split / "dialogues_001.json").write_bytes(layout.dialogue_bytes(chosen))
            shutil.copy(source / split / "schema.json", corpus / split)
            splits.append(split)
    return splits


def dialogues(source: Path, split: str) -> Iterator[dict[str, Any]]:
    """Yields the dialogues of a split, file by file."""
    for path in layout.dialogue_files(source, split):
        yield from json.loads(path.read_bytes())


def prepare(root: Path, splits: list[str], ratios: tuple[float, float]) -> tuple[int, float]:
    """Writes the sounds of all texts. Returns the number of texts, and the total duration in seconds."""
    import numpy as np

    from parapet.transforms.perturb.corpora import read_corpus
    from parapet.transforms.perturb.speech.embedded import Hibari, Moonshine
    from parapet.transforms.perturb.speech.engine import RATE
    from parapet.transforms.perturb.speech.sound import make_noise
    from parapet.transforms.perturb.speech.spoken import Speakers, occurrences_of
    from parapet.transforms.perturb.speech.transcribing import Channel, Transcriber

    speakers = Speakers((VOICE,), SEED, 1000)
    files = read_corpus(root / "corpus", splits).files
    transcriber = Transcriber(Channel(Hibari(), Moonshine(), make_noise("pink"), SEED, ""))
    utterances = sorted({utterance for file in files for utterance, _ in occurrences_of(file, speakers)})
    sounds = {f"{snr:g} {one.text}": transcriber.samples(one, snr) for one in utterances for snr in ratios}
    np.savez(root / "sounds.npz", **{str(i): sound for i, sound in enumerate(sounds.values())})
    (root / "sounds.json").write_text(json.dumps(list(sounds)))
    return len(utterances), sum(map(len, sounds.values())) / RATE


def alone(root: Path) -> None:
    """Runs the recogniser alone: prints its CPU seconds and seconds, and saves its transcripts."""
    import numpy as np

    from parapet.transforms.perturb.speech.alignment import respelled
    from parapet.transforms.perturb.speech.embedded import Moonshine
    from parapet.transforms.perturb.speech.spoken import spoken_words

    names = json.loads((root / "sounds.json").read_text())
    with np.load(root / "sounds.npz") as stored:
        sounds = [stored[str(i)] for i in range(len(names))]
    moonshine = Moonshine()
    moonshine.open()
    started, cpu = time.monotonic(), time.process_time()
    heard = [moonshine.hear(sound) for sound in sounds]
    print(json.dumps([time.process_time() - cpu, time.monotonic() - started]))
    words = [[word.text for word in spoken_words(text)] for text in heard]
    spelled = [" ".join(respelled(name.split()[1:], one)) for name, one in zip(names, words, strict=True)]
    (root / "heard.json").write_text(json.dumps(dict(zip(names, spelled, strict=True))))


def compare(root: Path, splits: list[str], snr: str, texts: int, seconds: float) -> int:
    """Runs the loop, then the pipeline on one process, again, and on two."""
    this = [sys.executable, "-m", "benchmarks.speech", "--alone", str(root)]
    loop, wall = json.loads(subprocess.run(this, stdout=subprocess.PIPE, check=True).stdout)
    heard = json.loads((root / "heard.json").read_text())
    print(f"{texts:,} texts through {snr} dB: {len(heard):,} sounds, {seconds:,.0f} s")
    print(f"{'':28}{'CPU':>9}{'ratio':>7}{'texts/CPU s':>13}{'wall':>9}")

    def line(what: str, cpu: float, wall: float, note: str = "") -> None:
        print(f"{what:28}{cpu:7.1f} s{cpu / loop:7.2f}{texts / cpu:13.2f}{wall:7.1f} s{note}", flush=True)

    line("Moonshine alone", loop, wall)
    command = [
        *(sys.executable, "-m", "parapet", "speech_errors", "--workers=1", "--quiet", "--sgd", str(root / "corpus")),
        *("--split", ",".join(splits), "--voices", VOICE, "--seed", SEED),
        *("--snr", snr, "--wer", between(heard, parse_ratios(snr)), "--output"),
    ]
    one, one_wall, *_ = measure([*command, str(root / "one")])
    line("one process", one, one_wall)
    again, again_wall, *_ = measure([*command, str(root / "one")])
    line("  all heard already", again, again_wall)
    line("  the rest", one - again, one_wall - again_wall)
    two, two_wall, *_ = measure([*command, str(root / "two"), *TWO_PROCESSES])
    line("two processes", two, two_wall, f"  {one_wall / two_wall:.2f} times one process")
    if wrong := differences(root / "one", heard) + differences(root / "two", heard):
        print(f"{wrong} turns were not heard as the recogniser alone hears them", file=sys.stderr)
    return wrong > 0


def between(heard: dict[str, str], ratios: tuple[float, float]) -> str:
    """Returns a word error rate between those of the two noises, so that the pipeline needs both."""
    from parapet.transforms.perturb.speech.alignment import align, word_errors

    rates = []
    for ratio in ratios:
        of_ratio = [(key.split()[1:], words.split()) for key, words in heard.items() if key.split()[0] == f"{ratio:g}"]
        rates.append(
            sum(word_errors(align(*pair)).total() for pair in of_ratio) / sum(len(said) for said, _ in of_ratio)
        )
    return f"{sum(rates) / 2:.3f}"


def differences(output: Path, heard: dict[str, str]) -> int:
    """Counts turns whose transcripts in the set and in the loop differ."""
    import pyarrow.parquet as pq

    (turns,) = output.glob("SR-*/turns")
    rows = [row for file in turns.rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    spoken = [row for row in rows if row["status"] == "heard"]
    return sum(heard[f"{row['snr']:g} {row['spoken']}"] != row["hypothesis"] for row in spoken)


if __name__ == "__main__":
    sys.exit(main())
