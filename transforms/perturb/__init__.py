"""Perturbations of user turns: paraphrases, typos, speech errors, out-of-domain turns and unseen entities."""
