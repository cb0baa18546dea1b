"""Numbers and names that programs share."""

__all__ = ["DEFAULT_OUTPUT_TAG", "MAX_LONG_VALUE", "MIN_LONG_VALUE"]

MAX_LONG_VALUE = 2**63 - 1
"""The largest number of 64 bits; the watermark at the end of a bounded input."""

MIN_LONG_VALUE = -(2**63)
"""The smallest number of 64 bits; the time of an element that has none."""

DEFAULT_OUTPUT_TAG = ""
"""The main output, where those on the side have tags."""
