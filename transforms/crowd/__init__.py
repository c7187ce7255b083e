"""The crowd: pages to ask it, Mechanical Turk, and the way from its answers to schema variants."""
