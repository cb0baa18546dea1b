"""The job of cluster_job.py, whose program asks for other parallelisms itself: by ``JobClient.rescale``.

python asking_cluster_job.py NAME NUMBERS OUTPUT

Each file ``rescale-N`` in the driver's folder has the program ask for N, and print what came of it; the file is removed.
"""

import glob
import os
import sys
import time

from cluster_job import built


def main(name, numbers, output):
    client = built(numbers, output).execute_async(name)
    result = client.get_job_execution_result()
    while not result.done():
        for path in glob.glob("rescale-*"):
            os.remove(path)
            print(f"ASKED {path}", flush=True)
            try:
                print(f"ANSWER {client.rescale(int(path.rpartition('-')[2])).result()}", flush=True)
            except Exception as error:
                print(f"REFUSED {type(error).__name__}: {error}", flush=True)
        time.sleep(0.1)
    result.result()


if __name__ == "__main__":
    main(*sys.argv[1:4])
    print("THE JOB ENDED")
