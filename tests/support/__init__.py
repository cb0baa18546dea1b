"""What tests share: jobs that run in this process with chosen epochs, checkpoints and crashes, and a plain-dict model."""
