"""Times typos, rule-based paraphrases and replaced entities against nlpaug's KeyboardAug on the same turns.

    python -m benchmarks.perturb [--utterances 20000] [--sgd ROOT] [--folder bench-output]

The user turns of the bundled sample, or of ROOT, are repeated under new ids until there are enough. Three things are
timed in one run: nlpaug's KeyboardAug with its defaults, which returns text; our function, which returns text and moved
spans and keeps values; and the whole pipeline in one process, including files, for the kind typos, without and with its
three Env sets. The pipeline's time includes the start of Python and Beam, which is also shown, from a run over one
dialogue. CPU seconds are user and system time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measuring import measure
from parapet.schemas import layout
from parapet.schemas.dialogue import Dialogue
from parapet.schemas.errors import InputError
from parapet.transforms.core.seeding import key_of
from parapet.transforms.perturb.apply import fitted
from parapet.transforms.perturb.corpora import dialogues_of, read_corpus
from parapet.transforms.perturb.edits import edited, moved
from parapet.transforms.perturb.entities.choosing import replaced
from parapet.transforms.perturb.entities.perturbation import UnseenEntities
from parapet.transforms.perturb.paraphrase import rephrased
from parapet.transforms.perturb.typos import Rates, typo_operations
from parapet.transforms.perturb.user_turns import UserTurn, user_turns

DIALOGUES_A_FILE = 128
SEED = "0"
ROUNDS = 3  # of each function; the best one counts


def main() -> int:
    """Prints the table; returns 1 if nlpaug is not installed."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--utterances", type=int, default=20_000)
    flags.add_argument("--sgd", type=Path, default=layout.sample_root())
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    try:
        from nlpaug.augmenter.char import KeyboardAug
    except ImportError:
        print("nlpaug is not installed: pip install nlpaug", file=sys.stderr)
        return 1
    root = args.folder / "perturb"
    shutil.rmtree(root, ignore_errors=True)
    turns = make(args.sgd, root / "corpus", args.utterances)
    make(args.sgd, root / "one", 1)
    words = sum(len(said.utterance.split()) for said in turns) / len(turns)
    print(f"{len(turns):,} utterances of {words:.1f} words")
    print(f"{'':28}{'CPU':>9}{'utterances/CPU s':>18}{'ratio':>7}")
    keyboard = KeyboardAug()
    alone = best(lambda: [keyboard.augment(said.utterance) for said in turns])

    def line(what: str, cpu: float) -> None:
        print(f"{what:28}{cpu:7.2f} s{len(turns) / cpu:18,.0f}{alone / cpu:7.2f}", flush=True)

    line("nlpaug KeyboardAug", alone)
    line("typos, spans moved", best(lambda: ours(turns)))
    line("paraphrases, spans moved", best(lambda: [rephrased(said, b"%d" % i) for i, said in enumerate(turns)]))
    seconds, utterances = entities(args.sgd)
    rate = utterances / seconds
    print(f"{'entities of dialogues':28}{seconds:7.2f} s{rate:18,.0f}{rate * alone / len(turns):7.2f}", flush=True)
    start = pipeline(root / "one", root / "out-one", "none")
    for what, env in (("pipeline, one set", "none"), ("pipeline, with Env-1/2/3", "0.1,0.5,0.8")):
        cpu = pipeline(root / "corpus", root / f"out-{env}", env)
        line(what, cpu)
        line(f"  without its start, {start:.1f} s", cpu - start)
    return 0


def make(source: Path, corpus: Path, utterances: int) -> list[UserTurn]:
    """Writes a corpus with at least this number of user turns, and returns the turns."""
    found = [dialogue for split in layout.SPLITS for dialogue in dialogues(source, split)]
    turns: list[UserTurn] = []
    written: list[dict[str, Any]] = []
    while len(turns) < utterances:
        dialogue = {**found[len(written) % len(found)], "dialogue_id": f"1_{len(written):05}"}
        written.append(dialogue)
        turns += user_turns(msgspec.convert(dialogue, Dialogue))
    (corpus / "test").mkdir(parents=True)
    schemas = {service["service_name"]: service for split in layout.read_root(source) for service in split.raw}
    (corpus / "test" / "schema.json").write_bytes(layout.schema_bytes(list(schemas.values())))
    for i in range(0, len(written), DIALOGUES_A_FILE):
        path = corpus / "test" / f"dialogues_{i // DIALOGUES_A_FILE + 1:03}.json"
        path.write_bytes(layout.dialogue_bytes(written[i : i + DIALOGUES_A_FILE]))
    return turns[:utterances]


def dialogues(source: Path, split: str) -> list[dict[str, Any]]:
    """Reads the dialogues of a split."""
    return [dialogue for path in layout.dialogue_files(source, split) for dialogue in json.loads(path.read_bytes())]


def ours(turns: list[UserTurn]) -> None:
    """Applies typos to all turns, with default rates."""
    rates = Rates()
    for said in turns:
        key = key_of(SEED, "typos", said.dialogue_id, str(said.position))
        operations = typo_operations(said.utterance, said.ranges, said.values, rates, key)
        edited(said.utterance, operations)
        for start, end in said.ranges:
            moved(start, end, operations)


def entities(corpus: Path) -> tuple[float, int]:
    """Measures CPU seconds for replacing the entities of all dialogues of ROOT; also returns the number of turns."""
    work, utterances = [], 0
    for split in layout.read_root(corpus):
        files = read_corpus(corpus, [split.split])
        replacer = fitted(UnseenEntities(seed=SEED, training=corpus), files).of(("", 0))
        for _, raw, dialogue in (dialogue for file in files.files for dialogue in dialogues_of(file)):
            assert not isinstance(dialogue, InputError)
            work.append((raw, dialogue, replacer))
            utterances += len(dialogue.turns)
    return best(lambda: [replaced(*task) for task in work]), utterances


def best(work: Callable[[], Any]) -> float:
    """Measures CPU seconds of the quickest round."""
    found = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def pipeline(corpus: Path, output: Path, env: str) -> float:
    """Measures CPU seconds of the command on a corpus."""
    command = [sys.executable, "-m", "parapet", "language_variations", "--quiet", "--sgd", str(corpus)]
    command += ["--kinds", "typos", "--env", env, "--output", str(output)]
    return measure(command).cpu


if __name__ == "__main__":
    sys.exit(main())
