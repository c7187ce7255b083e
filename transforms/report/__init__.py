"""Pages, cards and charts, and the formatting of numbers and texts in them."""
