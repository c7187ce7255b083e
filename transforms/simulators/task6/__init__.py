"""DSTC2's logs and labels as dialog bAbI task 6, and as a corpus in the SGD layout."""
