"""Run jobs without Spark: the in-process epoch runner, the reference implementation of the runner's contract."""
