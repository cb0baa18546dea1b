"""Spark as what runs a job's epochs."""

from __future__ import annotations

from dataclasses import replace

from changelog_engine.graph.files import JobFiles
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.spark import files
from changelog_engine.spark.epoch_job import SparkEpochRunner
from changelog_engine.spark.files import StagedFiles
from changelog_engine.spark.jvm import said_when_ended
from changelog_engine.spark.jvm_options import JvmSettings
from changelog_engine.spark.masters import is_local
from changelog_engine.spark.session import active_context, spark_context
from changelog_engine.spark.shipping import ShippedJob


class SparkCluster:
    """The active SparkContext, or one that is made for the first job."""

    def stage(self, given: JobFiles) -> StagedFiles:
        """See Cluster; Spark is not started."""
        return files.stage(given)

    def starting(self, settings: JobSettings) -> str:
        """See Cluster."""
        context = active_context()
        master = settings.spark.get("spark.master", "") if context is None else context.master
        return f"starting Spark on {master}" if master and not is_local(master) else "starting Spark"

    def runner(self, job: ShippedJob, staged: StagedFiles) -> SparkEpochRunner:
        settings = job.settings
        jvm = JvmSettings(settings.jvm_options, settings.class_archive)
        context = spark_context(files.with_jars(settings), jvm, settings.folds_on_spark)
        with said_when_ended(context):
            job = replace(job, works_in=files.workers_directory(context))
            return SparkEpochRunner(context, job, files.add_archive(context, staged))
