"""The log: rows, buffers and parts, and how rows become state again."""
