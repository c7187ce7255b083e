"""From schemas, or dialogues, to HIT pages: what is shown, how it looks, its cost. Only ``make_hits`` needs Beam."""
