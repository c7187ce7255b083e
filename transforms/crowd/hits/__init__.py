"""Generate HIT pages from schemas or dialogues, and compute their cost. Only ``make_hits`` needs Beam."""
