"""JDBC URLs: which database they mean, and what its Python driver is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote, unquote_plus

from changelog_engine.connectors.jdbc.options import ConnectionOptions
from changelog_engine.errors import ConfigurationError, NotSupportedError

_URL = re.compile(r"jdbc:(\w+):(.*)", re.DOTALL)
_HANDLED = ("postgresql", "mysql", "mariadb", "sqlite")

# Parameters of JDBC drivers that mean nothing to Python's: tuning, and what is always so here.
_IGNORED = frozenset(
    {
        "rewritebatchedinserts",
        "rewritebatchedstatements",
        "stringtype",
        "preparethreshold",
        "binarytransfer",
        "defaultrowfetchsize",
        "loglevel",
        "loggerlevel",
        "useunicode",
        "characterencoding",
        "servertimezone",
        "allowpublickeyretrieval",
        "autoreconnect",
        "usebulkstmts",
        "cacheprepstmts",
        "useserverprepstmts",
        "zerodatetimebehavior",
        "tinyint1isbit",
    }
)
_LIBPQ = frozenset(
    {
        "application_name",
        "channel_binding",
        "client_encoding",
        "connect_timeout",
        "gssencmode",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "krbsrvname",
        "options",
        "passfile",
        "require_auth",
        "service",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslpassword",
        "sslrootcert",
        "target_session_attrs",
        "tcp_user_timeout",
    }
)
_PRAGMAS = frozenset({"busy_timeout", "foreign_keys", "journal_mode", "synchronous"})
_MYSQL_TLS: dict[tuple[str, str], dict[str, Any]] = {  # by default TLS where the server has it
    ("usessl", "false"): {"ssl_disabled": True},
    ("sslmode", "disabled"): {"ssl_disabled": True},
    ("sslmode", "disable"): {"ssl_disabled": True},
    ("requiressl", "true"): {"ssl": {"check_hostname": False}},
    ("sslmode", "required"): {"ssl": {"check_hostname": False}},
    ("sslmode", "trust"): {"ssl": {"check_hostname": False}},
    ("sslmode", "verify_ca"): {"ssl_verify_cert": True},
    ("sslmode", "verify_identity"): {"ssl_verify_cert": True, "ssl_verify_identity": True},
    ("sslmode", "verify_full"): {"ssl_verify_cert": True, "ssl_verify_identity": True},
}
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

    Raises:
        ConfigurationError: a URL or a parameter that cannot be used.
    """
    database, rest = _parts(options)
    address, _, query = rest.partition("?")
    parameters = _parameters(query, options)
    return _READERS[database](address, parameters, options)


def _parts(options: ConnectionOptions) -> tuple[str, str]:
    found = _URL.fullmatch(options.url)
    if found is None:
        raise ConfigurationError(
            f"{options.shown_url!r} is no JDBC URL such as jdbc:postgresql://host:5432/database"
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
    arguments: dict[str, Any] = {}
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
            arguments.setdefault("sslmode", "prefer" if value.lower() == "false" else "verify-full")
        elif lowered == "targetservertype":
            arguments["target_session_attrs"] = {"master": "primary", "secondary": "standby"}.get(
                value, value
            )
        elif lowered in ("connecttimeout", "logintimeout"):
            arguments["connect_timeout"] = _whole(value, name, options)
        elif lowered == "sockettimeout":
            arguments["tcp_user_timeout"] = _whole(value, name, options) * 1000
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
    }
    for name, value in parameters.items():
        lowered = name.lower()
        if lowered in ("user", "password"):
            continue
        if lowered in ("usessl", "requiressl", "sslmode"):
            arguments |= _MYSQL_TLS.get((lowered, value.lower().replace("-", "_")), {})
        elif lowered == "connecttimeout":
            arguments["connect_timeout"] = max(1, _whole(value, name, options) // 1000)
        elif lowered == "sockettimeout":
            seconds = max(1, _whole(value, name, options) // 1000)
            arguments |= {"read_timeout": seconds, "write_timeout": seconds}
        else:
            _refuse_unless_ignored(name, options, ("useSSL", "connectTimeout", "socketTimeout"))
    return {name: value for name, value in arguments.items() if value is not None}


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
    return {"path": path, "pragmas": {name.lower(): value for name, value in parameters.items()}}


def _address(address: str, options: ConnectionOptions) -> tuple[list[tuple[str, str | None]], str]:
    """``//host:port,host:port/database`` or ``database``."""
    if not address.startswith("//"):
        return [], unquote(address.strip("/"))
    authority, _, database = address[2:].partition("/")
    if "@" in authority:
        raise ConfigurationError(
            f"{options.shown_url}: give user and password by with_user_name() and with_password(), or as parameters"
        )
    hosts = []
    for host in filter(None, authority.split(",")):
        found = re.fullmatch(r"(\[[^\]]+\]|[^:]*)(?::(\d+))?", host)
        if found is None:
            raise ConfigurationError(f"{options.shown_url}: {host!r} is no host and port")
        hosts.append((found[1].strip("[]") or "localhost", found[2]))
    return hosts, unquote(database)


def _whole(value: str, name: str, options: ConnectionOptions) -> int:
    if not value.isdigit():
        raise ConfigurationError(f"{options.shown_url}: the parameter {name!r} must be a whole number")
    return int(value)


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
