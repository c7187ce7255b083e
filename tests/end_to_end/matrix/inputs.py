"""Every flag that reads a file or folder, in a command line that works but for its value: the columns of the matrix."""

from collections.abc import Iterator

VALUE = "{value}"  # what is tried

Key = tuple[str, str, str]  # command, action (or model, or task), flag

# What names another command's output and is no flag that is checked at the start: positions, entries of files.
MORE: tuple[Key, ...] = (
    ("compare", "", "--systems"),
    ("release", "verify", "PATH"),
    ("release", "show", "PATH"),
    ("release", "diff", "OLD"),
    ("release", "diff", "NEW"),
    ("release", "push", "PATH"),
    ("release", "build", "corpora.path"),
    ("release", "build", "tables.path"),
    ("suite", "", "corpus.sgd"),
    ("suite", "", "variants.path"),
    ("suite", "", "FILE"),
    ("ood", "", "--source"),
    ("unseen_entities", "", "--values"),
)
# Of these nothing can be tried without MTurk, or a server that takes its place: tests/pipelines/test_mturk.py has them.
SERVICES = {("mturk", action) for action in ("collect", "topup", "sandbox-workers")}


def command_lines(place: str) -> dict[Key, list[str]]:
    """For each input a command line with :data:`VALUE`, without ``--output``.

    Args:
      place: where :func:`matrix.producers.produce` wrote.
    """
    return {(command, action, flag): line for command, action, flag, line in _lines(place, f"{place}/out")}


def _lines(place: str, out: str) -> Iterator[tuple[str, str, str, list[str]]]:
    sgd, crowd = f"{place}/sgd", f"{place}/sgd/crowd"
    answers = [f"{crowd}/names.csv", f"{crowd}/descriptions.csv"]
    typos = f"typos={out}/language_variations/typos"
    set_of_value, v = f"tried={VALUE}", VALUE

    def lines(
        command: str, flags: dict[str, list[str]], *base: str, action: str = ""
    ) -> Iterator[tuple[str, str, str, list[str]]]:
        for flag, given in flags.items():
            yield command, action, flag, [command, *([action] if action else []), *base, flag, *given]

    yield from lines("hits", {"--schemas": [v], "--shortfall": [v]}, "--task", "schemas")
    yield from lines("hits", {"--dialogues": [v]}, "--task", "rewrites", "--turns", "2")
    yield from lines("hits", {"--scores": [v]}, "--task", "ratings", "--faithful", "2")
    yield from lines("hits", {"--sets": [set_of_value]}, "--task", "validity", "--pairs", "2")
    yield "mturk", "publish", "--hits", ["mturk", "publish", "--hits", v, "--dry_run"]
    block = [f"{out}/hits"]
    yield "mturk", "publish", "--block_list", ["mturk", "publish", "--hits", *block, "--block_list", v, "--dry_run"]
    for flag in ("--audit", "--bonuses", "--rejections"):
        yield "mturk", "pay", flag, ["mturk", "pay", flag, v, "--dry_run"]
    site = {"--audit": f"{out}/compose", "--results": answers[0]}
    for flag in ("--audit", "--results", "--rejections"):
        line = [text for name, value in {**site, flag: v}.items() for text in (name, value)]
        yield "mturk", "site-csv", flag, ["mturk", "site-csv", *line]
    yield from lines("compose", {"--schemas": [v, "--responses", *answers]}, "--allow_partial")
    yield from lines("compose", {"--responses": [v]}, "--allow_partial", "--schemas", sgd)
    yield from lines("compose", {"--decisions": [v]}, "--allow_partial", "--schemas", sgd, "--responses", *answers)
    rewrites = ["--sgd", sgd, "--responses", f"{crowd}/rewrites.csv"]
    yield from lines("compose_variations", {"--sgd": [v, *rewrites[2:]]})
    yield from lines("compose_variations", {"--responses": [v]}, *rewrites[:2])
    yield from lines("compose_variations", {"--decisions": [v], "--hits": [v]}, *rewrites)
    yield from lines("back_translate", {"--schemas": [v, "--memory", f"{sgd}/translations.csv"]})
    yield from lines("back_translate", {"--memory": [v]}, "--schemas", sgd)
    yield from lines("statistics", {"--sgd": [v, "--variants", f"{out}/compose"], "--variants": [v, "--sgd", sgd]})
    yield from lines(
        "rewrite",
        {"--sgd": [v, "--variants", f"{out}/compose"], "--variants": [v, "--sgd", sgd]},
        "--max_bad",
        "30%",
        "--mapping",
        "position",
    )
    yield from lines("language_variations", {"--sgd": [v]}, "--kinds", "typos", "--env", "0.5")
    yield from lines("language_variations", {"--rewritten": [v]}, "--kinds", "verbose", "--sgd", sgd)
    yield from lines("language_variations", {"--memory": [v]}, "--kinds", "paraphrase", "--sgd", sgd)
    speech = ["--language_model", "own", "--longest", "14", "--wer", "0.4", "--snr", "25,-15"]
    yield from lines(
        "speech_errors",
        {"--sgd": [v], "--calibration": [v], "--normalisation": [v]},
        *speech,
        "--cache",
        f"{out}/speech_errors/.heard",
    )
    yield from lines("unseen_entities", {"--sgd": [v], "--training": [v], "--values": [v]}, "--least_changed", "0")
    yield from lines("ood", {"--sgd": [v], "--source": [v]}, "--rates", "0.1")
    yield "perturb", "", "--sgd", ["perturb", "typos", "--sgd", v]
    yield from lines(
        "augment",
        {
            "--sgd": [v, "--sets", "none,corrupted"],
            "--backtrans": [v, "--sets", "backtrans"],
            "--oracle": [v, "--sets", "oracle"],
        },
        "--max_bad",
        "30%",
    )
    yield from lines("few_shot", {"--sgd": [v]}, "--sizes", "2", "--test", "2")
    yield from lines("unseen_services", {"--sgd": [v]})
    yield from lines("restaurants", {"--ontology": [v]}, "--tasks", "1", "--sizes", "2")
    yield from lines(
        "babi_task6",
        {"--logs": [v], "--kb": [v, "--logs", f"{place}/dstc2"], "--ontology": [v, "--logs", f"{place}/dstc2"]},
    )
    yield from lines("anonymise", {"--chats": [v], "--entities": [v, "--chats", f"{sgd}/chats.jsonl"]})
    yield from _training(place, out, sgd)
    yield from _predicting(place, out, sgd)
    yield from _evaluating(place, out, sgd, typos)
    yield "compare", "", "--systems", ["compare", "--systems", f"a={VALUE}", f"b={VALUE}", "--replicates", "10"]
    for action in ("verify", "show"):
        yield "release", action, "PATH", ["release", action, v]
    yield "release", "diff", "OLD", ["release", "diff", v, f"{out}/release/sample"]
    yield "release", "diff", "NEW", ["release", "diff", f"{out}/release/sample", v]
    yield "release", "push", "PATH", ["release", "push", v, "--repo", "a/b", "--dry_run"]
    yield "release", "build", "--config", ["release", "build", "--config", v]
    yield "release", "build", "corpora.path", ["release", "build", "--config", "{corpora}"]
    yield "release", "build", "tables.path", ["release", "build", "--config", "{tables}"]
    yield "leaderboard", "", "--release", ["leaderboard", "--template", "--release", v]
    board = ["--release", f"{out}/release/sample/1.0.0"]
    yield from lines("leaderboard", {"--submissions": [v]}, *board)
    for flag in ("--private", "--ood"):
        yield "leaderboard", "", flag, ["leaderboard", *board, "--submissions", f"{place}/submissions", flag, v]
    yield "suite", "", "corpus.sgd", ["suite", "{suite corpus}"]
    yield "suite", "", "variants.path", ["suite", "{suite variants}"]
    yield "suite", "", "FILE", ["suite", v, "--dry_run"]


def _training(place: str, out: str, sgd: str) -> Iterator[tuple[str, str, str, list[str]]]:
    nets = {
        "tiny_dst": [],
        "t5dst": ["--checkpoint", f"{place}/t5", "--max_length", "64"],
        "sgp_dst": ["--checkpoint", f"{place}/bert"],
        "ft_t5": ["--checkpoint", f"{place}/t5", "--max_input", "32"],
        "pt_t5": ["--checkpoint", f"{place}/t5", "--max_input", "32"],
        "soloist": ["--checkpoint", f"{place}/gpt2", "--max_length", "320"],
        "damd": [],
    }
    v = VALUE
    for model, flags in nets.items():
        base = [*flags, "--steps", "1"]
        yield "train", model, "--train", ["train", model, "--train", v, *base]
        for flag in (
            "--dev",
            *(["--templates"] if model in ("ft_t5", "pt_t5") else []),
            *(["--knowledge_base"] if model in ("soloist", "damd") else []),
        ):
            yield "train", model, flag, ["train", model, "--train", sgd, flag, v, *base]
    base = ["--steps", "1", "--buckets", "64"]
    yield "train", "classifier", "--train", ["train", "classifier", "--train", v, *base]
    for flag in ("--dev", "--foreign"):
        yield "train", "classifier", flag, ["train", "classifier", "--train", sgd, flag, v, *base]
    task = f"{out}/restaurants/dialog-babi-task1-API-calls"
    texts, facts = f"{out}/restaurants/dialog-babi-candidates.txt", f"{out}/restaurants/dialog-babi-kb-all.txt"
    usual = {
        "rules": {"--train": f"{task}-trn.txt", "--match": facts},
        "tfidf": {"--train": f"{task}-trn.txt", "--candidates": texts},
        "nearest": {"--train": f"{task}-trn.txt"},
        "embeddings": {"--train": f"{task}-trn.txt", "--dev": f"{task}-dev.txt", "--candidates": texts},
        "memn2n": {"--train": f"{task}-trn.txt", "--dev": f"{task}-dev.txt", "--candidates": texts},
    }
    more = {
        "rules": ["--dev", "--candidates", "--ontology"],
        "tfidf": ["--dev", "--match"],
        "embeddings": ["--match"],
        "memn2n": ["--match"],
    }
    for model, given in usual.items():
        for flag in (*given, *more.get(model, ())):
            line = [text for name, value in {**given, flag: v}.items() for text in (name, value)]
            if flag == "--ontology":
                line = ["--ontology", v]
            yield (
                "train",
                model,
                flag,
                ["train", model, *line, *(["--steps", "1"] if model in ("embeddings", "memn2n") else [])],
            )


def _predicting(place: str, out: str, sgd: str) -> Iterator[tuple[str, str, str, list[str]]]:
    v = VALUE
    for model in ("tiny_dst", "t5dst", "sgp_dst", "ft_t5", "pt_t5", "classifier", "soloist", "damd"):
        base = ["--checkpoint", f"{place}/t5"] if model == "pt_t5" else []  # prompts alone are trained
        usual = ["--model", f"{out}/train {model}", "--reference", sgd, *base]
        yield "predict", model, "--model", ["predict", model, "--model", v, *usual[2:]]
        yield "predict", model, "--reference", ["predict", model, *usual[:2], "--reference", v, *base]
        yield "predict", model, "--sets", ["predict", model, *usual, "--sets", f"tried={v}"]
        more = [
            "--variants",
            *(["--templates", "--also"] if model in ("ft_t5", "pt_t5") else []),
            *(["--knowledge_base"] if model in ("soloist", "damd") else []),
        ]
        for flag in more:
            extra = ["--rerank", "lexical", "--candidates", "2"] if flag == "--also" else []
            yield "predict", model, flag, ["predict", model, *usual, flag, v, *extra]
    test = f"{out}/restaurants/dialog-babi-task1-API-calls-tst.txt"
    for model in ("rules", "tfidf", "nearest", "embeddings", "memn2n"):
        yield "predict", model, "--model", ["predict", model, "--model", v, "--reference", test]
        yield "predict", model, "--reference", ["predict", model, "--model", f"{out}/train {model}", "--reference", v]
        yield "predict", model, "--sets", ["predict", model, "--model", f"{out}/train {model}", "--sets", f"tried={v}"]


def _evaluating(place: str, out: str, sgd: str, typos: str) -> Iterator[tuple[str, str, str, list[str]]]:
    v, keywords = VALUE, ["--model", "parapet.evaluation.dst.baseline:Keywords"]

    def of(task: str, flag: str, *line: str) -> tuple[str, str, str, list[str]]:
        return "evaluate", task, flag, ["evaluate", "--task", task, *line]

    yield of("dst", "--predictions", "--predictions", v, "--reference", sgd)
    yield of("dst", "--reference", "--reference", v, *keywords)
    yield of("dst", "--variants", "--reference", sgd, "--variants", v, *keywords)
    yield of("dst", "--sets", "--reference", sgd, "--sets", f"tried={v}", *keywords)
    intents = ["--predictions", f"{out}/predict classifier/predictions"]
    yield of("intent", "--predictions", "--reference", sgd, "--predictions", v)
    yield of("intent", "--reference", *intents, "--reference", v)
    # A model's predictions of every set are in its output: those of the original stand for the set that is tried.
    both = ["--predictions", f"{place}/intents_of_sets"]
    yield of("intent", "--variants", *both, "--reference", sgd, "--variants", v)
    yield of("intent", "--sets", *both, "--reference", sgd, "--sets", f"tried={v}")
    yield of("intent", "--intents", *intents, "--reference", sgd, "--intents", v)
    verdicts = ["--predictions", f"{place}/verdicts"]
    yield of("ood", "--predictions", "--reference", sgd, "--predictions", v)
    yield of("ood", "--reference", *verdicts, "--reference", v)
    yield of("ood", "--variants", *verdicts, "--reference", sgd, "--variants", v)
    yield of("ood", "--sets", *verdicts, "--reference", sgd, "--sets", f"tried={v}")
    yield of("ood", "--dev", *verdicts, "--reference", sgd, "--dev", v, "--dev_split", "test")
    test, answers = f"{out}/restaurants/dialog-babi-task1-API-calls-tst.txt", f"{out}/predict/predictions"
    yield of("ranking", "--reference", "--reference", v, "--predictions", answers)
    yield of("ranking", "--sets", "--reference", test, "--sets", f"tried={v}", "--predictions", answers)
    yield of("ranking", "--predictions", "--reference", test, "--predictions", v)
    yield of("ranking", "--candidates", "--reference", test, "--predictions", answers, "--candidates", v)
    for task in ("response", "generation"):
        yield of(task, "--predictions", "--predictions", v, "--reference", sgd)
        yield of(task, "--reference", "--predictions", "reference", "--reference", v)
        yield of(task, "--variants", "--predictions", "reference", "--reference", sgd, "--variants", v)
        yield of(task, "--sets", "--predictions", "reference", "--reference", sgd, "--sets", f"tried={v}")
    for flag in ("--knowledge_base", "--goals", "--responses"):
        yield of("response", flag, "--predictions", "reference", "--reference", sgd, flag, v)
    yield of("ratings", "--hits", "--hits", v, "--responses", f"{place}/batch")
    yield of("ratings", "--responses", "--hits", f"{out}/hits ratings", "--responses", v)
    yield of("validity", "--reference", "--reference", v, "--sets", typos)
    yield of("validity", "--sets", "--reference", sgd, "--sets", f"tried={v}")
    yield of("validity", "--classifier", "--reference", sgd, "--sets", typos, "--classifier", v)
    yield of("validity", "--hits", "--reference", sgd, "--sets", typos, "--hits", v, "--responses", f"{place}/batch")
    yield of(
        "validity",
        "--responses",
        "--reference",
        sgd,
        "--sets",
        typos,
        "--hits",
        f"{out}/hits validity",
        "--responses",
        v,
    )
