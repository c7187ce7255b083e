"""What a run is told on the command line."""

import re

from kit import cases, raised

from parapet.schemas.errors import InputError
from parapet.transforms.perturb.speech.perturbation import parse_ratios, parse_targets

BAD = ["0", "1", "10", "-0.1", "nan"]
RATIOS = ["", "10", "10,10.0", "61,5", "5,-21", "5,nan"]


@cases(
    "parse given said",
    *((parse_targets, given, f"--wer: {given} is no") for given in BAD),
    (parse_targets, "0.1;0.2", "--wer: '0.1;0.2'"),
    *(
        (parse_targets, given, "--wer: each word error rate must appear once")
        for given in ("", ",", "0.1,0.10", "0.2,0.20000000000001")
    ),
    *((parse_ratios, given, "--snr: must be two or more different ratios") for given in RATIOS),
    (parse_ratios, "10dB,5", "--snr: '10dB,5'"),
)
def test_targets_and_ratios_that_are_none(parse, given, said):
    raised(InputError, parse, given, match=re.escape(said))
