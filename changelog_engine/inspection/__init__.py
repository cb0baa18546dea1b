"""Questions about a job's folder, answered as plain data: the console shows them as tables, the page in the browser.

Invariants of the room:
    * It only reads: no folder, lock or table is made or changed, so it works beside the job that runs.
    * It prints nothing and loads neither click nor PySpark.
    * It is used on tables of other people: nothing is unpickled unless it is told to.
"""
