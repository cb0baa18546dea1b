"""The log: rows, buffers, parts, and the logging wrapper round any state backend."""
