"""Whether everything in a job's folder is what was written, and the repair of its Delta logs."""
