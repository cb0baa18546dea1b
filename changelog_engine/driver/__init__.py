"""The driver: where a job starts, its loop of attempts and epochs, what a checkpoint keeps, and what a failure leads to."""
