"""System utterances from acts: a T5 that is fine-tuned, or frozen with trained prefixes, with templates as input."""
