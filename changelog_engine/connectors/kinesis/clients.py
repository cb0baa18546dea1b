"""Requests to Kinesis: a client that tries nothing by itself, and errors that say whether trying again may help."""

from __future__ import annotations

from functools import cache
from typing import Any

from changelog_engine.config.names import names_of
from changelog_engine.connectors.kinesis.properties import ClientProperties
from changelog_engine.connectors.packages import KINESIS
from changelog_engine.errors import ConfigurationError, ConnectorError, RefusedForGoodError

_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = 30
_BUSY = names_of(
    "ProvisionedThroughputExceededException LimitExceededException KMSThrottlingException ThrottlingException "
    "Throttling RequestLimitExceeded ResourceInUseException InternalFailure InternalFailureException "
    "ServiceUnavailable"
)
_LOGIN = names_of(
    "AccessDeniedException ExpiredTokenException IncompleteSignatureException InvalidClientTokenId "
    "InvalidSignatureException MissingAuthenticationTokenException UnrecognizedClientException"
)
EXPIRED_ITERATOR = "ExpiredIteratorException"
NOT_FOUND = "ResourceNotFoundException"


class RequestError(Exception):
    """A request failed.

    Args:
        code: Kinesis's name of the error, "" where it did not answer.
        may_pass: whether the same request may succeed later.
    """

    def __init__(self, code: str, text: str, may_pass: bool) -> None:
        super().__init__(text)
        self.code = code
        self.may_pass = may_pass


@cache
def _descriptions(folders: str | None) -> Any:
    """What AWS says of its services and where they are, for all clients of this process: reading it takes 70 ms."""
    return KINESIS.load().loaders.create_loader(folders)


class Client:
    """boto3's client of a region.

    Raises:
        ConfigurationError: boto3 is not installed, or it cannot use a property.
    """

    def __init__(self, properties: ClientProperties) -> None:
        self._properties = properties
        botocore = KINESIS.load()
        config = botocore.config.Config(
            retries={"total_max_attempts": 1},
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            max_pool_connections=1,
        )
        try:
            session = botocore.session.Session(profile=properties.profile)
            session.register_component("data_loader", _descriptions(session.get_config_variable("data_path")))
            self._client = session.create_client("kinesis", config=config, **properties.arguments())
        except Exception as error:  # botocore's have no class in common
            raise ConfigurationError(f"{properties.what}: {error}") from None

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Send one request.

        Args:
            operation: method of boto3's client.

        Raises:
            ConnectorError: Kinesis does not know the caller.
        """
        exceptions = KINESIS.load().exceptions
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**arguments)
            return answer
        except exceptions.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in _LOGIN:
                raise self._login(operation, f"{code}: {error}") from None
            raise RequestError(code, str(error), code in _BUSY or status >= 500) from None
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            raise self._login(operation, str(error)) from None
        except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
            raise RequestError("", f"Kinesis does not answer: {error}", True) from None
        except exceptions.BotoCoreError as error:
            raise RequestError("", f"{type(error).__name__}: {error}", False) from None

    def failure(self, what: str) -> ConnectorError:
        """An error that names region or endpoint, for what may pass."""
        return ConnectorError(f"Kinesis ({self._properties.where}): {what}")

    def refused(self, what: str) -> RefusedForGoodError:
        """An error that names region or endpoint, for what would come again."""
        return RefusedForGoodError(str(self.failure(what)))

    def check_stream(self, stream: str) -> dict[str, Any]:
        """A stream's description.

        Raises:
            ConnectorError: there is no such stream, or Kinesis does not answer.
        """
        try:
            found: dict[str, Any] = self.call("describe_stream_summary", StreamName=stream)
            return found
        except RequestError as error:
            if error.code == NOT_FOUND:
                raise self.refused(
                    f"there is no stream {stream!r} there: create it, or correct the name, 'aws.region' or 'aws.endpoint'"
                ) from None
            hint = (
                ""
                if error.code
                else "; check 'aws.region' and 'aws.endpoint', and whether it can be reached from here"
            )
            raise self.failure(f"looking for stream {stream!r} failed: {error}{hint}") from None

    def _login(self, operation: str, text: str) -> ConnectorError:
        return self.refused(
            f"{operation} was refused: {text}. Give credentials that may use the stream: by properties "
            "'aws.credentials.provider.basic.accesskeyid' and '...secretkey', or where boto3 looks for them"
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()
