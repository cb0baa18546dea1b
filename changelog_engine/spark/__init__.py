"""The one place that touches PySpark: the session, the epoch as a Spark job, the pinned workers."""
