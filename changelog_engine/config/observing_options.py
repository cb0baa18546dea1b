"""Options of how a running job shows what it does."""

from __future__ import annotations

from changelog_engine.config.option import (
    ChoiceOption,
    DurationOption,
    IntOption,
    Option,
    choices,
    options_in,
)

PROGRESS = ChoiceOption(
    "changelog.progress.show",
    "auto",
    "Show on standard error what a job does: auto, unless the program collects the results itself, or pytest runs; always; "
    "never, as `run --quiet`.",
    choices=choices("auto", "always", "never"),
)
PROGRESS_INTERVAL = DurationOption(
    "changelog.progress.interval",
    10_000,
    "Time between two lines of progress if standard error is not a terminal; a run of less than a second prints none there.",
    minimum=1,
)
METRICS_PORT = IntOption(
    "metrics.reporter.prometheus.port",
    None,
    "Port at which Prometheus finds the metrics of the process's jobs; unset: none. 0: any that is free; the log names it.",
    minimum=0,
)
METRICS_HOST = Option(
    "metrics.reporter.prometheus.host",
    "127.0.0.1",
    "Address to listen at for it: this machine alone, unless another is given.",
)
LOG_FORMAT = ChoiceOption(
    "changelog.log.format",
    "text",
    "text leaves the log to the program; json writes the engine's records, of INFO and above, to standard error as lines of "
    "JSON.",
    choices=choices("text", "json"),
)

OBSERVING_OPTIONS = options_in(globals())
