"""The frame of perturbations: the base class, its two drivers (of dialogues and of files), checks, pages, commands."""
