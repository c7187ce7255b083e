"""Out-of-domain utterances put into dialogues (RADDLE, Peng et al. 2021, section 4)."""
