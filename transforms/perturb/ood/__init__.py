"""Insert out-of-domain utterances into dialogues (RADDLE, Peng et al. 2021, section 4)."""

from parapet.transforms.core.options import option
from parapet.transforms.perturb.options import PerturbationOptions

OWN = "own"  # the source for the corpus's own requests to other services
CHAT = "chat"  # the source for small talk included in Parapet


class OutOfDomainOptions(PerturbationOptions):
    """The options of out-of-domain turns."""

    target = "parapet.transforms.perturb.ood.perturbation:OutOfDomain"
    description = (
        "Inserts out-of-domain user turns into dialogues, each followed by a fallback of the system: "
        "OUT/ood-10/train/dialogues_001.json, and a row for every user turn in OUT/ood-10/turns."
    )
    example = """\
  parapet ood --output my_ood                                # the sample
  parapet ood --source chat --rates 0.1 --output my_ood
  parapet ood --sgd sgd --split train,test --rates 0.1,0.5 --output my_ood
  parapet ood --sgd sgd --source own,chat,questions.txt --output my_ood"""
    group = "out-of-domain turns"
    records = "dialogues or rows of --source"
    done = "used"

    source: str = option(
        f"{OWN},{CHAT}",
        "utterances: own (the corpus's requests to other services), chat (small talk), files, folders",
        metavar="LIST",
        path=True,
    )
    rates: str = option("0.1,0.2,0.5", "inserted turns per user turn, a set for each rate", metavar="LIST")
