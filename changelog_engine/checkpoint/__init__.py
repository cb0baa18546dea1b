"""Checkpoints: the driver's loop, the commit that acknowledges, lineage, and what restore reads."""
