"""From service schemas to blind HIT pages: what is shown, how it looks, what it costs. Only ``make_hits`` needs Beam."""
