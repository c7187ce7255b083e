"""The records of Parapet and how they are read and written. Imports nothing else of the project."""

import csv

# The csv module refuses cells over 128 KB with an error that ends the file. The limit is the process's, so it is set
# in one place; whoever reads a file says which cells are too large for what they hold.
csv.field_size_limit(1 << 30)
