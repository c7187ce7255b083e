"""Names of the files of the bAbI dialog tasks, as they were published."""

from __future__ import annotations

TASKS = {1: "API-calls", 2: "API-refine", 3: "options", 4: "phone-address", 5: "full-dialogs"}
SPLITS = {"train": "trn", "dev": "dev", "test": "tst", "oov": "tst-OOV"}
CANDIDATES = "dialog-babi-candidates.txt"
FACTS = "dialog-babi-kb-all.txt"


def dialogues_name(task: int, split: str, part: int = 1, parts: int = 1) -> str:
    """``dialog-babi-task1-API-calls-trn.txt``; where a set has several files, ``...-trn-00002-of-00010.txt``."""
    numbered = f"-{part:05}-of-{parts:05}" if parts > 1 else ""
    return f"dialog-babi-task{task}-{TASKS[task]}-{SPLITS[split]}{numbered}.txt"
