"""Schema variants (SGD-X, Lee et al. 2022): their names matched with the original's, and dialogues renamed to them."""
