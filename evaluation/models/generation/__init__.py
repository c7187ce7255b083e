"""System utterances from their acts: a T5 that is fine-tuned, or frozen with trained prefixes; templates as input."""
