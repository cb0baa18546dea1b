"""The Kafka sink that writes exactly once, by transactions.

Each subtask has a few transactional ids of its own, ``<prefix>-<job>-<uid>-<subtask>-<slot>``, and writes one transaction
after the other. The steps:
    1. Records go into the open transaction of a slot.
    2. At a barrier they are flushed; the checkpoint keeps which transaction it is (see transactions.py). It is closed for
       more: what follows goes into the transaction of another slot, so a checkpoint whose commit only seemed to fail holds
       exactly its own records.
    3. When the checkpoint is durable the transaction is committed. Its slot rests until the next one is.
A new writer first commits what the restored checkpoint keeps; only then it fences every id of its subtask, which aborts what
is open and shuts out processes of attempts before. Ids of subtasks that are no more belong to the subtask of that number
modulo the parallelism.

Invariants:
    * Nothing is fenced that a restored checkpoint keeps and that is not committed.
    * A slot is used again only when a later checkpoint than that of its last transaction is durable.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from changelog_engine.clock import Deadline, wall_ms
from changelog_engine.connectors.kafka.clients import named
from changelog_engine.connectors.kafka.producing import RecordProducer, RecordSchema
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.kafka.sink import KafkaSink, KafkaWriter, check_producer, first_partition
from changelog_engine.connectors.kafka.transactions import (
    TOO_LONG,
    Transaction,
    Transactions,
    TransactionState,
    admin_settings,
)
from changelog_engine.connectors.packages import KAFKA
from changelog_engine.connectors.protocols import (
    Committable,
    CommittingSink,
    CommittingWriter,
    Prepared,
    SinkContext,
)
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.connectors.still_ours import check_still_ours
from changelog_engine.errors import ConfigurationError, ConnectorError, RefusedForGoodError
from changelog_engine.graph.subtask_warnings import warn

log = logging.getLogger("changelog_engine")

_DEFAULT_TIMEOUT_MS = 900_000  # the most that brokers allow by default
_STEP_TIMEOUT_S = 60.0
_ABORT_TIMEOUT_S = 5.0
_LONGEST_PREFIX = 6_400
# Brokers forget an id that was not used for a week (transactional.id.expiration.ms)
_KNOWN_FOR_MS = 3_600_000
_SLOTS = 3  # one rests, one is prepared, one is open; more where commits fail


@dataclass(eq=False, repr=False)
class TransactionalKafkaSink(CommittingSink):
    """Writes to topics of Kafka exactly once: readers with ``isolation.level=read_committed`` see each record once.

    Args:
        properties: of the producer. ``transaction.timeout.ms`` is 15 minutes if it isn't given: after that time without a
            checkpoint, or without a restart, the brokers abort a transaction.
        prefix: of the transactional ids; the jobs of a cluster have different ones, or different names.
        timed: whether records get the elements' timestamps.
        one_partition: each subtask writes to one partition.
        only_log_lost: write to the log, instead of failing, when the brokers have aborted what a restored checkpoint keeps.
        plain_without_checkpoints: without checkpoints write without transactions; else all is committed at the end.

    Raises:
        ConfigurationError: a property or a prefix that cannot be used.
        NotSupportedError: a way to log in that transactions cannot be ended by.
    """

    schema: RecordSchema
    properties: ClientProperties
    prefix: str
    timed: bool = True
    one_partition: bool = False
    only_log_lost: bool = False
    plain_without_checkpoints: bool = False

    def __post_init__(self) -> None:
        properties = self.properties
        check_producer(properties)
        admin_settings(properties)
        if len(self.prefix.encode()) > _LONGEST_PREFIX:
            raise ConfigurationError(
                f"{properties.what}: the transactional id prefix has more than {_LONGEST_PREFIX} bytes"
            )
        if not properties.flag("enable.idempotence", True):
            raise ConfigurationError(
                f"{properties.what}: property 'enable.idempotence' must be true to write exactly once"
            )
        self.timeout_ms = properties.number("transaction.timeout.ms", _DEFAULT_TIMEOUT_MS, 1)

    def committing_writer(self, context: SinkContext) -> CommittingWriter:
        if not context.checkpoints:
            if self.plain_without_checkpoints:
                what = self.properties.what
                warn(what, "%s: without checkpoints it writes without transactions", what)
                return _PlainWriter(self, context.subtask)
            what = self.properties.what
            warn(what, "%s: without checkpoints nothing is committed before the input ends", what)
        return TransactionalWriter(self, context)


class _Slot:
    """A transactional id and its producer."""

    def __init__(self, sink: TransactionalKafkaSink, identity: str) -> None:
        self.id = identity
        settings = {"transactional.id": identity, "transaction.timeout.ms": str(sink.timeout_ms)}
        self._sink = sink
        self._trouble = Trouble(f"{named(sink.properties)}: transactional id {identity!r}")
        self.producer = RecordProducer(sink.properties, settings)
        self._client = self.producer.client
        self._call(self._client.init_transactions, f"taking transactional id {identity!r}", _STEP_TIMEOUT_S)

    def begin(self) -> None:
        self._call(self._client.begin_transaction, f"beginning transaction {self.id!r}")

    def commit(self) -> None:
        self._call(self._client.commit_transaction, f"committing transaction {self.id!r}", _STEP_TIMEOUT_S)

    def abort(self) -> None:
        self._call(
            self._client.abort_transaction, f"aborting transaction {self.id!r}", _ABORT_TIMEOUT_S, tries=1
        )

    def _call(self, call: Callable[..., Any], doing: str, *timeout_s: float, tries: int = 5) -> None:
        kafka = KAFKA.load()
        while True:
            try:
                self.producer.call(doing, call, *timeout_s)
            except kafka.KafkaException as failed:
                error = failed.args[0]
                tries -= 1
                if error.code() == kafka.KafkaError.INVALID_TRANSACTION_TIMEOUT:
                    raise ConfigurationError(
                        f"{self._sink.properties.what}: {TOO_LONG} than {self._sink.timeout_ms}"
                    ) from None
                why = self.producer.failure(doing, error)
                if not error.retriable() or tries <= 0:
                    raise why from None
                self._trouble.again(str(why))
            else:
                self._trouble.over()
                return


class TransactionalWriter(CommittingWriter):
    """Writes one subtask's elements in transactions."""

    def __init__(self, sink: TransactionalKafkaSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._transactions = Transactions(sink.properties)
        self._group = f"{sink.prefix}-{_slug(context.job)}-{_slug(context.uid)}-"
        self._slots: dict[int, _Slot] = {}
        self._open: int | None = None
        self._prepared: dict[str, int] = {}  # transactional id to slot
        self._resting: set[int] = set()
        self._final = False
        self._partition: int | None = None
        try:
            self._take_over()
            # A process that sleeps while another takes over must be shut out of all: an id that it takes later is its own.
            # Taking one may last half a second, so they come along with the first.
            with ThreadPoolExecutor(_SLOTS) as pool:
                slot, *_ = pool.map(self._slot, range(_SLOTS))
            if sink.one_partition:
                self._partition = first_partition(slot.producer, sink.schema, context.subtask)
        except BaseException:
            self._transactions.close()
            raise

    def _take_over(self) -> None:
        """Commit what the checkpoint keeps; then fence the ids of this subtask, and of those that are no more."""
        for restored in self._context.restored:
            self._commit_kept([Transaction(**kept) for kept in restored.prepared.committables])
        for identity in self._transactions.ids(self._group):
            place = self._place(identity)
            if place is not None and place[0] % self._context.parallelism == self._context.subtask:
                check_still_ours()  # or it would abort what its successor has prepared
                goes_back = self._context.attempt - 1 in self._context.branches
                if goes_back and self._transactions.leave(identity, self._sink.timeout_ms):
                    log.warning(
                        "%s: transaction %r is aborted, as the job goes back to a checkpoint before it; a checkpoint "
                        "that the job has left may keep it, and cannot be restored then",
                        named(self._sink.properties),
                        identity,
                    )
                self._transactions.fence(identity, self._sink.timeout_ms)
        check_still_ours()  # taking the ids, which follows, fences them, too

    def _commit_kept(self, transactions: Sequence[Transaction]) -> None:
        for transaction in transactions:
            state = self._transactions.commit(transaction)
            if state is TransactionState.UNKNOWN:
                self._unknown(transaction)
            if state is TransactionState.ABORTED:
                self._lost(
                    transaction,
                    f"was aborted: it was not committed within transaction.timeout.ms ({self._sink.timeout_ms}). Its "
                    "records are lost to readers",
                )
            if state is TransactionState.LEFT:
                self._lost(
                    transaction,
                    "was aborted when the job went back to a checkpoint before it. Its records are lost to readers",
                )
            place = self._place(transaction.id)
            if place is not None and place[0] == self._context.subtask:
                self._resting.add(place[1])

    def _unknown(self, transaction: Transaction) -> None:
        age_ms = max(0, wall_ms() - transaction.started_ms)
        if age_ms < _KNOWN_FOR_MS:
            self._lost(
                transaction,
                f"began {age_ms // 1000} s ago, and is not known to the brokers: they have lost their storage, or are "
                "another cluster's. Its records are lost, and perhaps those before it",
            )
        else:
            log.warning(
                "Kafka: transaction %r of the restored checkpoint is not known to the brokers any more; it was "
                "committed long ago, or aborted",
                transaction.id,
            )

    def _lost(self, transaction: Transaction, how: str) -> None:
        where = named(self._sink.properties)
        message = f"{where}: transaction {transaction.id!r}, which the restored checkpoint keeps, {how}"
        if not self._sink.only_log_lost:
            raise RefusedForGoodError(
                f"{message}. Restore an older checkpoint to write them again, start the job without its checkpoints, or let "
                "the sink ignore failures after a transaction's timeout"
            )
        log.error("%s", message)

    def _place(self, identity: str) -> tuple[int, int] | None:
        """Subtask and slot of a transactional id of this sink."""
        found = re.fullmatch(r"(\d+)-(\d+)", identity.removeprefix(self._group))
        return (int(found[1]), int(found[2])) if found and identity.startswith(self._group) else None

    def _free(self) -> list[int]:
        """The first slots that can be used now."""
        used = {*self._prepared.values(), *self._resting}
        return [slot for slot in range(len(used) + 2) if slot not in used]

    def _slot(self, number: int) -> _Slot:
        slot = self._slots.get(number)
        if slot is None:
            identity = f"{self._group}{self._context.subtask}-{number}"
            slot = self._slots[number] = _Slot(self._sink, identity)
        return slot

    def write(self, values: Sequence[Any]) -> None:
        self.write_timed(values, None, 0)

    def write_timed(self, values: Sequence[Any], timestamps: Sequence[int] | None, watermark: int) -> None:
        if not len(values):
            return
        if self._open is None:
            number = self._free()[0]
            self._slot(number).begin()
            self._open = number
        producer = self._slots[self._open].producer
        times = timestamps if self._sink.timed else None
        producer.send(self._sink.schema, values, times, self._partition)

    def end_epoch(self) -> None:
        if self._open is not None:
            self._slots[self._open].producer.poll()

    def prepare(self, final: bool) -> Prepared:
        self._final = final
        if self._open is None:
            return Prepared()
        slot = self._slots[self._open]
        slot.producer.flush()
        transaction = self._transactions.current(slot.id)
        self._prepared[slot.id] = self._open
        self._open = None
        return Prepared([transaction._asdict()])

    def commit(self, committables: Sequence[Committable]) -> None:
        committed: set[int] = set()
        for committable in committables:
            transaction = Transaction(**committable)
            number = self._prepared.get(transaction.id)
            if number is None:
                self._commit_kept([transaction])
                continue
            self._slots[number].commit()
            del self._prepared[transaction.id]
            committed.add(number)
            if self._final:
                self._await_end(transaction)
        self._resting = committed or self._resting

    def _await_end(self, transaction: Transaction) -> None:
        """When the job has ended, its last records can be seen."""
        deadline = Deadline(_STEP_TIMEOUT_S)
        while self._transactions.state(transaction) is TransactionState.COMMITTING and not deadline.passed:
            time.sleep(0.01)

    def close(self) -> None:
        if self._open is not None:
            try:
                self._slots[self._open].abort()
            except ConnectorError as error:  # the next writer does it, or has done it
                log.debug("%s", error)
        self._open = None
        self._slots.clear()
        self._transactions.close()


class _PlainWriter(KafkaWriter, CommittingWriter):
    """Writes without transactions where there are no checkpoints."""

    def __init__(self, sink: TransactionalKafkaSink, subtask: int) -> None:
        plain = KafkaSink(
            sink.schema, sink.properties, waits=False, timed=sink.timed, one_partition=sink.one_partition
        )
        super().__init__(plain, subtask)

    def end_epoch(self) -> None:
        self.flush()

    def prepare(self, final: bool) -> Prepared:
        return Prepared()

    def commit(self, committables: Sequence[Committable]) -> None:
        """See CommittingWriter."""


def _slug(name: str) -> str:
    """A name as part of an id. Names that would become the same stay apart."""
    plain = re.sub(r"[^A-Za-z0-9._]+", "_", name)
    return plain if plain == name else f"{plain}{hashlib.sha256(name.encode()).hexdigest()[:8]}"
