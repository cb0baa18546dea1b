"""Flink's properties of Kinesis's connectors: which there are, and what they mean here.

Invariant: the repr of whatever holds a property never shows a secret value, so no log, error or plan can.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from changelog_engine.config.names import names_of
from changelog_engine.connectors.data_loss import DataLoss
from changelog_engine.connectors.properties import Properties, checked
from changelog_engine.errors import ConfigurationError, NotSupportedError

_BASIC = "aws.credentials.provider.basic."
_PROFILE = "aws.credentials.provider.profile."
_SECRET_NAMES = names_of("accesskeyid secretkey", _BASIC)
_CLIENT = _SECRET_NAMES | names_of(
    f"aws.region aws.endpoint aws.trust.all.certificates aws.credentials.provider {_PROFILE}name"
)
_SOURCE = names_of(
    "flink.stream.initpos flink.stream.initpos.timestamp flink.stream.recordpublisher "
    "flink.shard.discovery.intervalmillis flink.shard.getrecords.maxrecordcount "
    "flink.shard.getrecords.intervalmillis flink.shard.getrecords.maxretries "
    "flink.shard.getrecords.backoff.base flink.shard.getrecords.backoff.max "
    "flink.shard.getrecords.backoff.expconst changelog.on-data-loss"
)
# What tunes Flink's clients and threads, and does nothing here.
_LEFT_OUT = tuple(
    names_of(
        "aws.http-client. aws.http.protocol.version flink.describestreamsummary. flink.list.shards. "
        "flink.shard.adaptivereads flink.shard.consumer. flink.shard.getiterator. flink.shard.idle.interval "
        "flink.stream.describe. flink.watermark."
    )
)
_TIME_FORMAT = "flink.stream.initpos.timestamp.format"
_FANOUT = ("flink.stream.efo.", "flink.stream.registerstreamconsumer.", "flink.stream.deregisterstreamconsumer.",
    "flink.stream.describestreamconsumer.", "flink.shard.subscribetoshard.")  # fmt: skip
_PROVIDERS = ("AUTO", "BASIC", "ENV_VAR", "PROFILE")
_POSITIONS = ("LATEST", "TRIM_HORIZON", "AT_TIMESTAMP")


class ClientProperties(Properties):
    """Properties of a source or a sink, checked.

    Args:
        what: the class that they are of, for messages.
        source: whether those of sources are known.

    Raises:
        ConfigurationError: an unknown property, a value that cannot be used, or neither region nor endpoint.
        NotSupportedError: enhanced fan-out, a pattern of Java's, or a provider of credentials that only Java has.
    """

    def __init__(self, given: Mapping[str, Any], what: str, source: bool) -> None:
        super().__init__({}, what)
        known = _CLIENT | _SOURCE if source else _CLIENT
        for name, value in checked(given, what, _SECRET_NAMES).items():
            if name == _TIME_FORMAT:
                raise NotSupportedError(
                    f"{what}: property {name!r} is a pattern of Java's: leave it out, and write "
                    "'flink.stream.initpos.timestamp' in ISO 8601, such as 2024-01-31T12:00:00+00:00, or as seconds "
                    "since 1970"
                )
            if name.startswith(_FANOUT):
                raise NotSupportedError(
                    f"{what}: property {name!r}: enhanced fan-out is not part of this version; records are polled"
                )
            if name in known:
                self.given[name] = value
            elif not name.startswith(_LEFT_OUT):
                raise ConfigurationError(
                    f"{what}: property {name!r} is not known to Flink's Kinesis connectors"
                )
        self._check_client()
        if source:
            self.choice("flink.stream.recordpublisher", ("POLLING", "EFO"), "POLLING")
            if self.get("flink.stream.recordpublisher") == "EFO":
                raise NotSupportedError(
                    f"{what}: property 'flink.stream.recordpublisher': enhanced fan-out (EFO) is not part of this version; "
                    "leave it out, and records are polled"
                )
            self.loss = DataLoss(self)
            self.initial_position()

    def _check_client(self) -> None:
        if not self.get("aws.region") and not self.get("aws.endpoint"):
            raise ConfigurationError(f"{self.what}: property 'aws.region' is missing")
        self.choice("aws.trust.all.certificates", ("true", "false"), "false")
        provider = self.get("aws.credentials.provider") or "AUTO"
        if provider not in _PROVIDERS:
            raise NotSupportedError(
                f"{self.what}: property 'aws.credentials.provider' must be one of {', '.join(_PROVIDERS)}, got "
                f"{provider!r}. AUTO looks where boto3 does: environment, profiles (with roles), "
                "web identities, the machine's role"
            )
        pair = [self.get(_BASIC + name) for name in ("accesskeyid", "secretkey")]
        if (provider == "BASIC" or any(pair)) and not all(pair):
            raise ConfigurationError(
                f"{self.what}: credentials of kind BASIC need both properties '{_BASIC}accesskeyid' and '{_BASIC}secretkey'"
            )
        if provider == "PROFILE" and not self.get(f"{_PROFILE}name"):
            raise ConfigurationError(f"{self.what}: property '{_PROFILE}name' is missing")

    def initial_position(self) -> tuple[str, int | None]:
        """Where the job begins when it starts from nothing; with AT_TIMESTAMP, from which time on, in ms."""
        kind = self.choice("flink.stream.initpos", _POSITIONS, "LATEST")
        if kind != "AT_TIMESTAMP":
            return kind, None
        name = "flink.stream.initpos.timestamp"
        text = self.get(name)
        if text is None:
            raise ConfigurationError(f"{self.what}: AT_TIMESTAMP needs property {name!r}")
        return kind, self._time_ms(name, text)

    def _time_ms(self, name: str, text: str) -> int:
        try:
            seconds = float(text)
        except ValueError:
            try:
                when = datetime.fromisoformat(text)
            except ValueError:
                raise ConfigurationError(
                    f"{self.what}: property {name!r} must be seconds since 1970 or a date and time in ISO 8601, got {text!r}"
                ) from None
            seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        if not 0 <= seconds < 1e11:
            raise ConfigurationError(
                f"{self.what}: property {name!r} must be seconds since 1970, got {text!r}"
            )
        return round(seconds * 1000)

    @property
    def where(self) -> str:
        """Region or endpoint, for messages."""
        return self.get("aws.endpoint") or self.get("aws.region") or ""

    @property
    def profile(self) -> str | None:
        """Name of the profile, in AWS's files, that credentials are taken from."""
        return self.given.get(f"{_PROFILE}name")

    def arguments(self) -> dict[str, Any]:
        """Arguments of boto3's client."""
        names = {
            "aws.region": "region_name",
            "aws.endpoint": "endpoint_url",
            f"{_BASIC}accesskeyid": "aws_access_key_id",
            f"{_BASIC}secretkey": "aws_secret_access_key",
        }
        found: dict[str, Any] = {new: self.given[name] for name, new in names.items() if name in self.given}
        found.setdefault("region_name", "us-east-1")  # beside an endpoint it is part of the signature only
        if self.get("aws.trust.all.certificates") == "true":
            found["verify"] = False
        return found
