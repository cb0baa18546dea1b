"""Windows: what they are, which elements belong to them, and when they fire. Pure Python, no state of its own."""
