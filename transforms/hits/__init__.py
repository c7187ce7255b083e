"""From service schemas to blind HIT pages: what is shown, how it looks, its cost. Only ``make_hits`` needs Beam."""
