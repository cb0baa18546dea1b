"""The ledger: one reading of a job's log, which everybody who uses its files asks first, and its one writer at a time."""
