"""The file system (pyarrow.fs) and the Delta log: the one place that touches either."""
