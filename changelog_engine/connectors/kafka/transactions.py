"""What the cluster knows of transactions, and ending those that another process began.

librdkafka ends only transactions of its own. This speaks to the transaction coordinators itself, by kafka-python's protocol
layer: which transactions there are (KIP-664, Kafka 3.0), commit one by its producer's id and epoch, fence an id.

A transactional id is used for one transaction after the other, so its id alone doesn't name one; nor does the epoch, which
librdkafka keeps from one to the next. The time at which the coordinator saw it begin does, because an id is used again only
when the checkpoint after the one that has the transaction is durable, or when a job goes back and leaves that checkpoint:
then the transaction is aborted, and a transactional id of its own, which nobody writes with, says so to a job that restores
the checkpoint later.
"""

from __future__ import annotations

import enum
import logging
import re
import ssl
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from changelog_engine.clock import Deadline, monotonic_s
from changelog_engine.connectors.kafka.clients import REQUEST_TIMEOUT_S, Troubles, failure, make, named
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.packages import KAFKA, KAFKA_TRANSACTIONS
from changelog_engine.errors import ConnectorError, NotSupportedError, RefusedForGoodError

log = logging.getLogger("changelog_engine")

TOO_LONG = "property 'transaction.timeout.ms' is larger than the brokers' transaction.max.timeout.ms; set a smaller one"
_RETRY_S = 0.02
_LONGEST_RETRY_S = 0.5
_ENDED_TIMEOUT_S = 60.0
_CONNECT_S = 5.0  # then it is tried again
_NO_PRODUCER = -1
_LAST_END_VERSION = 4  # from the next one on the coordinator counts the epoch up with each transaction

Answer = TypeVar("Answer")


class Transaction(NamedTuple):
    """One transaction. Checkpoints keep its fields by their names.

    Args:
        producer_id, epoch: of the producer that began it.
        started_ms: when its coordinator saw it begin.
    """

    id: str
    producer_id: int
    epoch: int
    started_ms: int


class TransactionState(enum.Enum):
    """What became of a transaction."""

    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"
    LEFT = "left"  # aborted, as the job went back to a checkpoint before the one that has it
    UNKNOWN = "unknown"  # the coordinator has forgotten its transactional id


class Transactions:
    """The transaction coordinators of a cluster.

    Args:
        timeout_s: how long to try again while the cluster doesn't answer.
        clock, sleep: how to measure that, and to wait between two tries.
    """

    def __init__(
        self,
        properties: ClientProperties,
        timeout_s: float = _ENDED_TIMEOUT_S,
        clock: Callable[[], float] = monotonic_s,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._properties = properties
        self._clock = clock
        self._sleep = sleep
        self._timeout_s = timeout_s
        self._settings = admin_settings(properties)
        self._kafka = KAFKA_TRANSACTIONS.load()
        self._client: Any = None

    def close(self) -> None:
        """Let go of the connections."""
        client, self._client = self._client, None
        if client is not None:
            try:
                client.close()
            except Exception as error:  # of a connection that is gone anyway
                log.debug("closing a Kafka client: %s", error)

    def ids(self, prefix: str) -> list[str]:
        """The transactional ids that begin with a prefix."""
        pattern = re.escape(prefix) + ".*"

        def ask(client: Any) -> list[str]:
            try:
                found = client.list_transactions(transactional_id_pattern=pattern)
            except self._kafka.errors.UnsupportedVersionError:  # before Kafka 4.1
                found = client.list_transactions()
            return [each.transactional_id for listed in found.values() for each in listed]

        return sorted({each for each in self._ask("listing transactions", ask) if each.startswith(prefix)})

    def current(self, transactional_id: str) -> Transaction:
        """The open transaction of a transactional id.

        Raises:
            ConnectorError: the id has no open transaction.
        """
        found = self._describe(transactional_id)
        if found is None or found.state.value != "Ongoing":
            state = "unknown" if found is None else found.state.value
            raise ConnectorError(
                f"{named(self._properties)}: the broker has ended transaction {transactional_id!r} "
                f"(its state is {state}): it was open for longer than transaction.timeout.ms, or another job writes "
                "with the same transactional id prefix"
            )
        return _transaction(transactional_id, found)

    def leave(self, transactional_id: str, timeout_ms: int) -> bool:
        """Note that the open transaction of an id will be aborted although a checkpoint has it: `TransactionState.LEFT`.

        Args:
            timeout_ms: see `fence`.

        Returns:
            Whether it has one.
        """
        found = self._describe(transactional_id)
        if found is None or found.state.value != "Ongoing":
            return False
        self.fence(_left_id(_transaction(transactional_id, found)), timeout_ms)
        return True

    def state(self, transaction: Transaction) -> TransactionState:
        """What became of a transaction."""
        found = self._describe(transaction.id)
        if found is None:
            return TransactionState.UNKNOWN
        started = found.transaction_start_time_ms == transaction.started_ms
        if found.producer_id != transaction.producer_id or not started:
            # The id is used for others, which happens only after it
            return (
                TransactionState.COMMITTED
                if self._describe(_left_id(transaction)) is None
                else TransactionState.LEFT
            )
        state = found.state.value
        if state in ("PrepareAbort", "CompleteAbort", "PrepareEpochFence"):
            return TransactionState.ABORTED
        if state == "Ongoing":
            return TransactionState.OPEN
        return TransactionState.COMMITTING if state == "PrepareCommit" else TransactionState.COMMITTED

    def commit(self, transaction: Transaction) -> TransactionState:
        """Commit a transaction if it is open, and wait until its records can be seen.

        Returns:
            What became of it: COMMITTED, ABORTED, LEFT or UNKNOWN.

        Raises:
            ConnectorError: the cluster doesn't answer.
        """
        deadline = Deadline(self._timeout_s, self._clock)
        wait_s = _RETRY_S
        while True:
            state = self.state(transaction)
            if state not in (TransactionState.OPEN, TransactionState.COMMITTING):
                return state
            if state is TransactionState.OPEN:
                self._end(transaction)
            if deadline.passed:
                raise ConnectorError(
                    f"{named(self._properties)}: transaction {transaction.id!r} does not end within "
                    f"{self._timeout_s:g} s: its brokers may be starting or gone"
                )
            self._sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_RETRY_S)

    def fence(self, transactional_id: str, timeout_ms: int) -> None:
        """Shut out whoever writes with a transactional id, and abort what is open.

        Args:
            timeout_ms: ``transaction.timeout.ms`` of the producers.

        Raises:
            ConnectorError: the cluster doesn't answer, or refuses.
        """

        def ask(client: Any) -> None:
            request = self._kafka.protocol.producer.transaction.InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=_NO_PRODUCER,
                producer_epoch=_NO_PRODUCER,
                max_version=_LAST_END_VERSION,
            )
            answer = self._send(client, transactional_id, request)
            if answer.error_code:
                raise self._kafka.errors.for_code(answer.error_code)(f"fencing {transactional_id}")

        self._ask(f"fencing transactional id {transactional_id!r}", ask)

    def _end(self, transaction: Transaction) -> None:
        def ask(client: Any) -> int:
            request = self._kafka.protocol.producer.transaction.EndTxnRequest(
                transactional_id=transaction.id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.epoch,
                committed=True,
                max_version=_LAST_END_VERSION,
            )
            code: int = self._send(client, transaction.id, request).error_code
            return code

        code = self._ask(f"committing transaction {transaction.id!r}", ask)
        if code:  # its state says what happened
            log.debug("committing transaction %s gave error %d", transaction.id, code)
            self.close()

    def _describe(self, transactional_id: str) -> Any:
        def ask(client: Any) -> Any:
            try:
                return client.describe_transactions([transactional_id])[transactional_id]
            except self._kafka.errors.TransactionalIdNotFoundError:
                return None

        return self._ask(f"looking for transaction {transactional_id!r}", ask)

    def _send(self, client: Any, transactional_id: str, request: Any) -> Any:
        """Send a request to the coordinator of an id."""
        key_type = self._kafka.protocol.metadata.CoordinatorType.TRANSACTION

        async def send() -> Any:
            nodes = await client._find_coordinator_ids([transactional_id], key_type=key_type)
            return await client._manager.send(request, node_id=nodes[transactional_id])

        return client._manager.run(send)

    def _ask(self, doing: str, call: Callable[[Any], Answer]) -> Answer:
        """Ask until there is an answer."""
        deadline, errors = Deadline(self._timeout_s, self._clock), self._kafka.errors
        wait_s = _RETRY_S
        final = (
            errors.SaslAuthenticationFailedError,
            errors.ClusterAuthorizationFailedError,
            errors.TransactionalIdAuthorizationFailedError,
            errors.InvalidTransactionTimeoutError,
            errors.UnsupportedVersionError,
            errors.IncompatibleBrokerVersion,
        )
        while True:
            try:
                return call(self._connected())
            except final as error:
                raise RefusedForGoodError(str(self._failure(doing, error))) from None
            except errors.ConcurrentTransactionsError as error:
                failed: Exception = error  # one before it is ending
            except errors.KafkaError as error:
                failed = error
                if self._client is None:
                    self._check_login(doing)
                self.close()  # the next connection asks again who the coordinator is
            if deadline.passed:
                raise self._failure(doing, failed) from None
            self._sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_RETRY_S)

    def _check_login(self, doing: str) -> None:
        """Find out whether there is no connection because the brokers refuse it: kafka-python doesn't tell."""
        troubles = Troubles()
        client = make(KAFKA.load().Producer, self._properties, {}, troubles)
        try:
            client.list_topics(timeout=_CONNECT_S)
        except KAFKA.load().KafkaException:
            client.poll(0)
        if troubles.final is not None:
            raise failure(self._properties, doing, troubles.final)

    def _connected(self) -> Any:
        if self._client is None:
            self._client = self._kafka.admin.KafkaAdminClient(**self._settings)
        return self._client

    def _failure(self, doing: str, error: Exception) -> ConnectorError:
        errors = self._kafka.errors
        text = self._properties.redacted(f"{type(error).__name__}: {error}")
        if isinstance(error, errors.InvalidTransactionTimeoutError):
            text = TOO_LONG
        elif isinstance(error, errors.UnsupportedVersionError | errors.IncompatibleBrokerVersion):
            text += "; writing exactly once needs brokers of Kafka 3.0 or newer"
        return ConnectorError(f"{named(self._properties)}: {doing} failed: {text}")


def _transaction(transactional_id: str, found: Any) -> Transaction:
    return Transaction(
        transactional_id, found.producer_id, found.producer_epoch, found.transaction_start_time_ms
    )


def _left_id(transaction: Transaction) -> str:
    """The transactional id that says that a transaction was left."""
    return f"{transaction.id}-left-{transaction.producer_id}-{transaction.started_ms}"


def admin_settings(properties: ClientProperties) -> dict[str, Any]:
    """What kafka-python's client needs to reach the same cluster in the same way.

    Raises:
        ConfigurationError: kafka-python is not installed.
        NotSupportedError: a way to log in that it can't go.
    """
    with warnings.catch_warnings():  # it reads its schemas in a way that Python will give up some day
        warnings.simplefilter("ignore")
        KAFKA_TRANSACTIONS.load()
    given = properties.settings
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    settings: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in properties.bootstrap_servers.split(",")],
        "client_id": given.get("client.id", "changelog-engine"),
        "security_protocol": protocol,
        "bootstrap_timeout_ms": int(_CONNECT_S * 1000),
        "request_timeout_ms": int(REQUEST_TIMEOUT_S * 1000),
    }
    if protocol.startswith("SASL"):
        mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI"
        settings["sasl_mechanism"] = mechanism
        if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            settings["sasl_plain_username"] = given.get("sasl.username")
            settings["sasl_plain_password"] = given.get("sasl.password")
        elif mechanism == "GSSAPI":
            settings["sasl_kerberos_service_name"] = given.get("sasl.kerberos.service.name", "kafka")
        else:
            raise NotSupportedError(
                f"{properties.what}: writing exactly once cannot log in by {mechanism}; use PLAIN, SCRAM or GSSAPI"
            )
    if protocol.endswith("SSL"):
        settings["ssl_context"] = _ssl_context(properties)
        settings["ssl_check_hostname"] = settings["ssl_context"].check_hostname
    return settings


def _ssl_context(properties: ClientProperties) -> ssl.SSLContext:
    given = properties.settings
    if "ssl.keystore.location" in given:
        raise NotSupportedError(
            f"{properties.what}: writing exactly once needs the client's certificate as PEM files "
            "(ssl.certificate.location, ssl.key.location)"
        )
    context = ssl.create_default_context(
        cafile=given.get("ssl.ca.location"),
        cadata=str(given["ssl.ca.pem"]) if "ssl.ca.pem" in given else None,
    )
    if given.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    password = given.get("ssl.key.password")
    if "ssl.certificate.location" in given:
        context.load_cert_chain(given["ssl.certificate.location"], given.get("ssl.key.location"), password)
    elif "ssl.certificate.pem" in given:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # Python reads them from files only
            file.write(f"{given['ssl.certificate.pem']}\n{given.get('ssl.key.pem', '')}\n")
            file.flush()
            context.load_cert_chain(file.name, None, password)
    return context
