"""Copies of a checkpoint: savepoints, written, listed and restored, and forks; savepoints out of tables."""
