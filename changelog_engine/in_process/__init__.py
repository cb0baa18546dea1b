"""Jobs without Spark: epochs in this process, and programs whose job is taken instead of run."""
