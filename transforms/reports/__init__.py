"""Pages, cards and charts, and how numbers and texts are put into words."""
