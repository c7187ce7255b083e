"""Times the training of models against a bare PyTorch loop with the same model and data, and trackers' predictions.

    python -m benchmarks.train [MODEL ...] [--corpus ROOT] [--checkpoint DIR] [--examples N] [--epochs 1]

Models have the names and settings of ``parapet train``; without names, all are timed. They are trained on the first
turns or frames of the bundled sample or a corpus, those for the bAbI tasks on simulated dialogues. Without a
checkpoint, models that start from one have a T5, BERT or GPT-2 with random weights and two layers of 128.
``benchmarks.training`` describes what is timed, and how.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import torch

from benchmarks import train_babi, train_classifier, train_dst, train_generation, train_soloist
from benchmarks.training import ALL, BARE, EPOCHS, TRACKED, rates_of
from parapet.evaluation.models.saving import BY_MODEL, DEVICES, device_of
from parapet.schemas.layout import sample_root

AIM = 0.9

# The models of `parapet train` that are trained by epochs.
MODELS = {
    **dict.fromkeys(("tiny_dst", "t5dst", "sgp_dst"), train_dst),
    **dict.fromkeys(("ft_t5", "pt_t5"), train_generation),
    "classifier": train_classifier,
    "soloist": train_soloist,
    **dict.fromkeys(("embeddings", "memn2n"), train_babi),
}


def main() -> int:
    """Prints the table; returns 1 if an epoch is slower than the target."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (default: all)")
    flags.add_argument("--corpus", default=str(sample_root()), metavar="ROOT")
    flags.add_argument("--checkpoint", metavar="DIR", help="of the one model that is named")
    flags.add_argument("--examples", type=int, metavar="N", help="turns, frames or dialogues (default: of each model)")
    flags.add_argument("--epochs", type=int, default=1)
    flags.add_argument("--batch_size", type=int, metavar="N", help="(default: of each model)")
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--device", choices=DEVICES, default="auto")
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    args = flags.parse_args()
    if strange := [name for name in args.models if name not in MODELS]:
        flags.error(f"{strange[0]}: none of {', '.join(MODELS)}")
    if args.checkpoint and not (len(args.models) == 1 and args.models[0] in BY_MODEL):
        flags.error(f"--checkpoint: name one model that begins with one, of {', '.join(BY_MODEL)}")
    args.device = device_of(args.device).type
    torch.set_num_threads(args.threads)
    logging.disable()  # no warnings about long inputs, which all ways cut
    print(f"examples a second; {args.epochs} epochs, {args.threads} threads, {args.device}")
    print(f"{'':30}{'examples':>18}{'bare loop':>11}{'epochs':>9}{'ratio':>7}{'all':>9}{'ratio':>7}{'frames':>9}")
    slow = False
    for model in args.models or MODELS:
        for case in MODELS[model].cases(model, args):
            examples, rates = rates_of(case, args)
            told = f"{case.name:30}{f'{examples:,} {case.unit}':>18}{rates[BARE]:11,.1f}"
            for way in (EPOCHS, ALL):
                told += f"{rates[way]:9,.1f}{rates[way] / rates[BARE]:7.2f}"
            print(told + (f"{rates[TRACKED]:9,.1f}" if TRACKED in rates else ""), flush=True)
            slow |= rates[EPOCHS] < AIM * rates[BARE]
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
