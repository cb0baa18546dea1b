"""A job as bytes for the workers: the plan, and every function pickled by itself.

A function of the program's is what it was when the program gave it (``Node.given``), as in PyFlink: what a variable that
it closes over means later, such as the next one of a loop, does not matter.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

from changelog_engine.api_names import Names, names_here
from changelog_engine.codec import by_value
from changelog_engine.codec.unpicklable import holder
from changelog_engine.driver.plan_traits import stages_ahead
from changelog_engine.errors import HOW_TO_SHIP, NotLoadableError, NotSerializableError
from changelog_engine.graph.nodes import JobSettings, NodeKind
from changelog_engine.graph.plan import JobPlan
from changelog_engine.spark.files import enter, work_in
from changelog_engine.spark.logs import LoggingSetup, logging_here
from changelog_engine.spark.same_code import ImportPath, forget_changed, path_here


@dataclass(frozen=True)
class ShippedJob:
    """What a worker process gets once per run of a job.

    Args:
        plan: stages, without functions.
        functions: node id to the pickled function.
        folder: where parts go; None when checkpointing is off.
        search_path: the driver's import path, so that modules beside the user's script are found, and not others.
        ahead: the stages that may run ahead, which only functions tell; see ``stages_ahead``.
        names: what ``api`` and ``pyflink`` mean in the driver, and so in the workers.
        logs: what ``logging`` is set to in the driver, and so in the workers.
        works_in: see ``work_in``.
    """

    run: str
    plan: JobPlan
    functions: dict[int, bytes]
    settings: JobSettings
    folder: str | None
    search_path: ImportPath
    ahead: frozenset[int]
    names: Names
    logs: LoggingSetup
    works_in: str | None = None

    def with_plan(self, plan: JobPlan) -> ShippedJob:
        """The same job with another parallelism."""
        return replace(self, plan=plan.without_functions(), ahead=stages_ahead(plan, self.settings))

    def functions_of(self, nodes: set[int]) -> dict[int, Any]:
        """Fresh copies of the functions of some nodes.

        Raises:
            NotLoadableError: one of them needs a module that isn't there, or its pickled form does not fit.
        """
        self.names.use()
        self.logs.use()
        enter()
        self.search_path.use()
        work_in(self.works_in)
        forget_changed(self.run)
        return {node: self._load(node, data) for node, data in self.functions.items() if node in nodes}

    def _load(self, node: int, data: bytes) -> Any:
        try:
            return pickle.loads(data)
        except OSError:
            raise  # reading something while it is made: that may work next time
        except Exception as error:
            name = self.plan.graph.nodes[node].name
            raise NotLoadableError(
                f"the function of operator {name!r} cannot be loaded in a worker: {type(error).__name__}: {error}. "
                f"{HOW_TO_SHIP}"
            ) from error


def ship(run: str, plan: JobPlan, settings: JobSettings, folder: str | None) -> ShippedJob:
    """Pickle a job.

    Raises:
        NotSerializableError: a function cannot be pickled; the message names its operator and the reason.
    """
    functions: dict[int, bytes] = {}
    for node in plan.graph.nodes:
        if node.kind is NodeKind.UNION or node.function is None:
            continue
        if node.given is not None and node.given.function is node.function:
            functions[node.id] = node.given.pickled
            continue
        try:
            functions[node.id] = by_value.dumps(node.function)
        except NotSerializableError as error:  # a part of the program
            held = holder(node.function) or "a value"
            what = f"operator {node.label!r} ({node.kind.value})"
            raise NotSerializableError(f"the function of {what} uses {held}, which {error}") from None
        except Exception as error:
            held_by = holder(node.function)
            raise NotSerializableError(
                f"the function of operator {node.label!r} ({node.kind.value}) cannot be shipped to the workers: "
                f"{type(error).__name__}: {str(error).rstrip('.')}{held_by and f', held by {held_by}'}. "
                "Create locks, files, connections and sessions in open(), not in the function's constructor or in "
                "variables it closes over"
            ) from error
    return ShippedJob(
        run,
        plan.without_functions(),
        functions,
        settings,
        folder,
        path_here(),
        stages_ahead(plan, settings),
        names_here(),
        logging_here(),
    )
