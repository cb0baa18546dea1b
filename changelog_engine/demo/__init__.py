"""``changelog-engine demo``: a job of payments that is killed, goes on, and is compared with a plain loop."""
