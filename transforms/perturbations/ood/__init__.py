"""Insert out-of-domain utterances into dialogues (RADDLE, Peng et al. 2021, section 4)."""

from parapet.transforms.perturbation import Command, Option

OWN = "own"  # the source for the corpus's own utterances
CHAT = "chat"  # the source for small talk included in Parapet
PLACES = ("append", "between")

_TURNS = "out-of-domain turns"
COMMAND = Command(
    "parapet.transforms.perturbations.ood.perturbation:OutOfDomain",
    "Inserts out-of-domain user turns into dialogues, each followed by a fallback of the system: "
    "OUT/ood-10/train/dialogues_001.json, and a row for every user turn in OUT/ood-10/turns.",
    """\
  parapet ood --output my_ood                                # the sample, with turns of its own other domains
  parapet ood --source chat --rates 0.1 --output my_ood
  parapet ood --sgd sgd --split train,test --rates 0.1,0.5 --place append --output my_ood
  parapet ood --sgd sgd --source kvret_train_public.json --output my_ood""",
    {
        _TURNS: (
            Option(
                "source",
                "utterances: own (the corpus' turns in other domains), chat (small talk), a file or folder, "
                "or a plug-in",
                "SOURCE",
                default=OWN,
                apart=True,
            ),
            Option("rates", "inserted turns per user turn, a set for each rate", "LIST", default="0.1,0.2,0.5"),
            Option(
                "place",
                "at the end of the dialogue, or between a system turn and the next user turn",
                default="between",
                choices=PLACES,
            ),
        ),
    },
    records="dialogues or rows of --source",
    done="used",
)
