"""Out-of-domain utterances put into dialogues (RADDLE, Peng et al. 2021, section 4)."""

OWN = "own"  # the source where foreign utterances are the corpus's own
