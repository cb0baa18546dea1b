"""JDBC URLs: which database they mean, and what its Python driver is told."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote, unquote_plus

from changelog_engine.config.names import names_of
from changelog_engine.connectors.jdbc.options import ConnectionOptions
from changelog_engine.errors import ConfigurationError, NotSupportedError

_Meaning = TypeVar("_Meaning")
_URL = re.compile(r"jdbc:(\w+):(.*)", re.DOTALL)
CONNECT_S = 30
APPLICATION = "changelog-engine"
ANSWER_S = 300  # to each statement; waits for locks end sooner
# A machine that is gone is known sooner: its kernel answers no probe.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_LONGEST_S = 31_536_000  # that PyMySQL takes
_HANDLED = ("postgresql", "mysql", "mariadb", "sqlite")

# Parameters of JDBC drivers that mean nothing to Python's: tuning, and what is always so here.
_IGNORED = names_of(
    "rewritebatchedinserts rewritebatchedstatements stringtype binarytransfer defaultrowfetchsize loglevel "
    "loggerlevel useunicode characterencoding servertimezone allowpublickeyretrieval autoreconnect "
    "usebulkstmts cacheprepstmts useserverprepstmts zerodatetimebehavior tinyint1isbit"
)
_LIBPQ = names_of(
    "application_name channel_binding client_encoding connect_timeout gssencmode hostaddr keepalives "
    "keepalives_count keepalives_idle keepalives_interval krbsrvname options passfile require_auth service "
    "sslcert sslcrl sslkey sslmode sslpassword sslrootcert target_session_attrs tcp_user_timeout"
)
_PRAGMAS = frozenset({"busy_timeout", "foreign_keys", "journal_mode", "synchronous"})
_VERIFIED = {"ssl_verify_cert": True, "ssl_verify_identity": True}
_MYSQL_TLS: dict[str, dict[str, dict[str, Any]]] = {  # by default TLS where the server has it
    "useSSL": {"true": {}, "false": {"ssl_disabled": True}},
    "requireSSL": {"true": {"ssl": {"check_hostname": False}}, "false": {}},
    "sslMode": {
        "disabled": {"ssl_disabled": True},
        "disable": {"ssl_disabled": True},
        "preferred": {},
        "required": {"ssl": {"check_hostname": False}},
        "trust": {"ssl": {"check_hostname": False}},
        "verify_ca": {"ssl_verify_cert": True},
        "verify_identity": _VERIFIED,
        "verify_full": _VERIFIED,
    },
}
_MYSQL_TLS_NAMES = {name.lower(): name for name in _MYSQL_TLS}
_POSTGRESQL_TLS = {"true": "verify-full", "": "verify-full", "false": "prefer"}
_PRAGMA_VALUE = re.compile(r"\w+")


def database_of(options: ConnectionOptions) -> str:
    """``postgresql``, ``mysql`` or ``sqlite``.

    Raises:
        ConfigurationError: no JDBC URL.
        NotSupportedError: a database that is not at hand.
    """
    return _parts(options)[0]


def driver_arguments(options: ConnectionOptions) -> dict[str, Any]:
    """What the Python driver's ``connect`` is called with. Of SQLite: ``path``, and ``pragmas``.

    Of PostgreSQL also ``answer_s``: how long a statement waits for an answer; it is missing where there is no limit. And
    ``prepare_threshold``: after how many runs a statement is prepared on the server; 0 for never, missing for the driver's.
    Of MySQL also ``strict``: whether what does not fit a column is an error, whatever the server's own mode is.

    Raises:
        ConfigurationError: a URL or a parameter that cannot be used.
    """
    database, rest = _parts(options)
    if database != "sqlite" and options.has_login:
        raise _has_login(options)
    address, _, query = rest.partition("?")
    parameters = _parameters(query, options)
    return _READERS[database](address, parameters, options)


def _parts(options: ConnectionOptions) -> tuple[str, str]:
    found = _URL.fullmatch(options.url)
    if found is None:
        raise ConfigurationError(
            f"{options.shown_url!r} is not a JDBC URL such as jdbc:postgresql://host:5432/database"
        )
    database = found[1].lower()
    if database not in _HANDLED:
        raise NotSupportedError(
            f"no driver for jdbc:{database}: is part of this engine; use {', '.join(_HANDLED)}, or a sink of "
            "your own (changelog_engine.connectors.protocols)"
        )
    return ("mysql" if database == "mariadb" else database), found[2]


def _parameters(query: str, options: ConnectionOptions) -> dict[str, str]:
    parameters = {}
    for item in filter(None, query.split("&")):
        name, equals, value = item.partition("=")
        if not equals:
            raise ConfigurationError(f"{options.shown_url}: the parameter {name!r} has no value")
        parameters[unquote_plus(name)] = unquote_plus(value)
    return parameters


def _postgresql(address: str, parameters: dict[str, str], options: ConnectionOptions) -> dict[str, Any]:
    hosts, database = _address(address, options)
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT_S,
        "answer_s": ANSWER_S,
        "fallback_application_name": APPLICATION,
        **_KEEPALIVES,
    }
    if hosts:
        arguments["host"] = ",".join(host for host, _ in hosts)
        arguments["port"] = ",".join(port or "5432" for _, port in hosts)
    user = options.user or parameters.pop("user", None)
    password = options.password if options.password is not None else parameters.pop("password", None)
    if database or user:
        arguments["dbname"] = database or user
    arguments |= {"user": user, "password": password}
    settings = []
    for name, value in parameters.items():
        lowered = name.lower()
        if lowered in ("user", "password"):
            continue
        if lowered == "currentschema":
            settings.append("-c search_path=" + value.replace("\\", "\\\\").replace(" ", "\\ "))
        elif lowered == "ssl":
            arguments.setdefault("sslmode", _known(value, name, _POSTGRESQL_TLS, options))
        elif lowered == "targetservertype":
            arguments["target_session_attrs"] = {"master": "primary", "secondary": "standby"}.get(
                value, value
            )
        elif lowered in ("connecttimeout", "logintimeout"):
            arguments["connect_timeout"] = _whole(value, name, options)
        elif lowered == "sockettimeout":
            arguments["answer_s"] = _whole(value, name, options) or None
        elif lowered == "preparethreshold":
            arguments["prepare_threshold"] = _whole(value, name, options)
        elif lowered == "tcpkeepalive":
            arguments["keepalives"] = int(value.lower() == "true")
        elif lowered == "applicationname":
            arguments["application_name"] = value
        elif lowered == "options":
            settings.append(value)
        elif lowered in _LIBPQ:
            arguments[lowered] = value
        else:
            _refuse_unless_ignored(name, options, _LIBPQ)
    if settings:
        arguments["options"] = " ".join(settings)
    return {name: value for name, value in arguments.items() if value is not None}


def _mysql(address: str, parameters: dict[str, str], options: ConnectionOptions) -> dict[str, Any]:
    hosts, database = _address(address, options)
    if len(hosts) > 1:
        raise NotSupportedError(f"{options.shown_url}: the MySQL driver takes one host")
    host, port = hosts[0] if hosts else ("localhost", None)
    password = options.password if options.password is not None else parameters.get("password")
    arguments: dict[str, Any] = {
        "host": host,
        "port": int(port or 3306),
        "user": options.user or parameters.get("user"),
        "password": password,
        "database": database or None,
        "charset": "utf8mb4",
        "connect_timeout": CONNECT_S,
        "read_timeout": ANSWER_S,
        "write_timeout": ANSWER_S,
        "strict": True,
    }
    tls: dict[str, Any] = {}
    for name, value in parameters.items():
        lowered = name.lower()
        if lowered in ("user", "password"):
            continue
        if lowered in _MYSQL_TLS_NAMES:
            tls |= _known(value, name, _MYSQL_TLS[_MYSQL_TLS_NAMES[lowered]], options)
        elif lowered == "connecttimeout":
            arguments["connect_timeout"] = _seconds(value, name, options) or _LONGEST_S
        elif lowered == "sockettimeout":
            seconds = _seconds(value, name, options)
            arguments |= {"read_timeout": seconds, "write_timeout": seconds}
        elif lowered == "jdbccomplianttruncation":
            arguments["strict"] = _known(value, name, {"true": True, "false": False}, options)
        else:
            known = (*_MYSQL_TLS, "connectTimeout", "socketTimeout", "jdbcCompliantTruncation")
            _refuse_unless_ignored(name, options, known)
    if "ssl_disabled" in tls and len(tls) > 1:
        raise ConfigurationError(
            f"{options.shown_url}: one of {', '.join(_MYSQL_TLS)} switches TLS off and another asks for it; "
            "leave one of them out"
        )
    return {name: value for name, value in (arguments | tls).items() if value is not None}


def _sqlite(address: str, parameters: dict[str, str], options: ConnectionOptions) -> dict[str, Any]:
    path = unquote(address)
    if not path or path == ":memory:" or path.startswith("file:"):
        raise NotSupportedError(
            f"{options.shown_url}: name a file, as in jdbc:sqlite:/data/rows.db; a database in memory would be "
            "another one for each writer"
        )
    for name, value in parameters.items():
        if name.lower() not in _PRAGMAS or not _PRAGMA_VALUE.fullmatch(value):
            _refuse_unless_ignored(name, options, _PRAGMAS)
    whole = os.path.join(options.folder, path)
    return {"path": whole, "pragmas": {name.lower(): value for name, value in parameters.items()}}


def _address(address: str, options: ConnectionOptions) -> tuple[list[tuple[str, str | None]], str]:
    """``//host:port,host:port/database`` or ``database``."""
    if not address.startswith("//"):
        return [], unquote(address.strip("/"))
    authority, _, database = address[2:].partition("/")
    if "@" in authority:
        raise _has_login(options)
    hosts = []
    for host in filter(None, authority.split(",")):
        found = re.fullmatch(r"(\[[^\]]+\]|[^:()=]*)(?::(\d+))?", host)
        if found is None:
            raise ConfigurationError(
                f"{options.shown_url}: what stands before the database is not a host and port, or several with commas"
            )
        hosts.append((found[1].strip("[]") or "localhost", found[2]))
    return hosts, unquote(database)


def _has_login(options: ConnectionOptions) -> ConfigurationError:
    return ConfigurationError(
        f"{options.shown_url}: give user and password by with_user_name() and with_password(), or as parameters; an @ in "
        "the name of a database is written as %40"
    )


def _known(value: str, name: str, known: Mapping[str, _Meaning], options: ConnectionOptions) -> _Meaning:
    """What a value of a parameter means; one that is not known is refused: a guess could drop a check that it asks for."""
    found = value.lower().replace("-", "_")
    if found not in known:
        raise ConfigurationError(
            f"{options.shown_url}: the parameter {name!r} is {value!r}; known are {', '.join(filter(None, known))}"
        )
    return known[found]


def _whole(value: str, name: str, options: ConnectionOptions) -> int:
    if not value.isdigit():
        raise ConfigurationError(f"{options.shown_url}: the parameter {name!r} must be a whole number")
    return int(value)


def _seconds(value: str, name: str, options: ConnectionOptions) -> int | None:
    """The whole seconds of a number of milliseconds, at least one; None for 0, which is no bound."""
    milliseconds = _whole(value, name, options)
    return max(1, milliseconds // 1000) if milliseconds else None


def _refuse_unless_ignored(name: str, options: ConnectionOptions, known: Iterable[str]) -> None:
    if name.lower() not in _IGNORED:
        raise ConfigurationError(
            f"{options.shown_url}: unknown parameter {name!r}; known are {', '.join(sorted(known))}"
        )


_READERS: dict[str, Callable[[str, dict[str, str], ConnectionOptions], dict[str, Any]]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "sqlite": _sqlite,
}
