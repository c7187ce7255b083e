"""Numbers in words."""

_ONES = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]

# Small ones, as people say how many they are.
NUMBERS = {word: str(i) for i, word in enumerate(_ONES, 1)}
