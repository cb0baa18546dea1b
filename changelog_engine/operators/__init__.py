"""What runs inside a task: operators on batches of elements, and the stage that drives them. Pure Python, no Spark."""
