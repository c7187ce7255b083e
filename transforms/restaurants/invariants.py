"""What must hold at the end of a run: as many dialogues in every set and format as were asked for."""

from __future__ import annotations

from parapet.transforms.restaurants.plan import Config, corpus_name


def check_counts(counts: dict[str, int], config: Config) -> dict[str, int]:
    """The counts as they are.

    Args:
      counts: summed.
      config: the options.

    Raises:
      RuntimeError: they do not balance.
    """
    asked: dict[str, int] = {}
    for task in config.tasks:
        for split, size in config.sizes:
            for plus in (False, True) if config.plus else (False,):
                for form in config.formats:
                    asked[f"{form}/{corpus_name(task, split, plus).removeprefix('sgd/')}/{split}"] = size
    written = {name: n for name, n in counts.items() if name != "files"}
    if written != asked:
        wrong = sorted(name for name in {*written, *asked} if written.get(name) != asked.get(name))
        raise RuntimeError(f"the counts do not balance for {', '.join(wrong)}: {counts}")
    return counts
