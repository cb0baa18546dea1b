"""User graph to stages: nodes, chaining, uids, key groups."""
