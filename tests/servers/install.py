"""``make servers``: fetch what the servers need into ``.servers``; say what is missing that only a system's packages have.

Nothing is fetched twice: each part is made in a folder beside its own, which then takes its place. Of two runs at once the
second waits for the first, and says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.pop(0)  # this folder: pulsar is the client, not our module
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from changelog_engine.spark.class_archive import CACHE_VARIABLE
from changelog_engine.storage.locks import Lock, LockTakenError, lock_file
from servers import (
    azurite,
    cassandra_node,
    gcs,
    kafka,
    kinesis,
    mariadb,
    postgres,
    pulsar,
    rabbitmq,
    s3,
    search,
    spark_classes,
)
from servers.process import (
    CACHE,
    Server,
    ServerFailed,
    ServerMissing,
    classes_of,
    find_program,
    is_required,
    java,
    require_program,
)

_QUIETLY = ("-q", "-B", "-Dstyle.color=never")
_OPTIONAL = {azurite.AzuriteServer.name, gcs.GcsServer.name}
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"

AnyServer = TypeVar("AnyServer", bound=Server)


def main() -> int:
    """The exit status: 0 when all servers can be started, or all that ``SERVERS_REQUIRED`` names."""
    CACHE.mkdir(exist_ok=True)
    lock = _alone()
    try:
        return _install()
    finally:
        lock.release()


def _alone() -> Lock:
    """The lock of who installs; waits until nobody else does."""
    path = str(CACHE / "install.lock")
    try:
        lock = lock_file(path)
    except LockTakenError as taken:
        other = taken.note.decode(errors="replace") or "unknown"
        print(f"Another make servers (process {other}) fills {CACHE}; waiting for its end ...", flush=True)
        lock = lock_file(path, wait=True)
    lock.note(str(os.getpid()).encode())
    return lock


def _install() -> int:
    missing: dict[str, Exception] = {}
    for server, install in SERVERS.items():
        try:
            if install is not None:
                install()
            server.check_installed()
        except (ServerMissing, ServerFailed) as reason:
            missing[server.name] = reason
    _archive_spark()
    for name, reason in missing.items():
        print(f"{name}: {reason}", file=sys.stderr)
    ready = [server.name for server in SERVERS if server.name not in missing]
    print(f"servers: {', '.join(ready)} are ready ({s3.kind()} is S3).")
    asked = os.environ.get("SERVERS_REQUIRED")
    needed = missing.keys() if asked else missing.keys() - _OPTIONAL
    return 1 if any(not asked or is_required(name) for name in needed) else 0


def install_kafka() -> None:
    """The broker's jars, by Maven."""
    if not kafka.LIBRARIES.is_dir():
        _copy_kafka()
    _archive_classes(kafka.LIBRARIES, kafka.KafkaServer, _use_kafka)


def _copy_kafka() -> None:
    print(f"Fetching Kafka {kafka.VERSION} (43 MB) ...", flush=True)
    _make(
        kafka.LIBRARIES,
        lambda folder: _copy_jars("kafka.pom.xml", {"kafka.version": kafka.VERSION}, folder),
    )


def _copy_jars(pom: str, properties: dict[str, str], folder: Path) -> None:
    """What a pom beside this file names."""
    maven = require_program("mvn", package="maven")
    given = [f"-D{name}={value}" for name, value in properties.items()]
    copy = [f"{_DEPENDENCY_PLUGIN}:copy-dependencies", *given, f"-DoutputDirectory={folder}"]
    _run([maven, *_QUIETLY, "-f", str(Path(__file__).with_name(pom)), *copy])


def _archive_classes(
    libraries: Path, server: Callable[..., AnyServer], use: Callable[[AnyServer], None]
) -> None:
    """Run a server once, unless that was done, and let its JVM keep what it loaded."""
    kept = classes_of(libraries)
    if kept.is_file():
        return
    archive = kept.with_suffix(".unfinished")
    archive.unlink(missing_ok=True)
    with server(jvm_options=[f"-XX:ArchiveClassesAtExit={archive}"]) as running:
        use(running)
        written = running.stop()  # the JVM writes at its end
    if written and archive.exists():
        archive.rename(kept)


def _use_kafka(broker: kafka.KafkaServer) -> None:
    topic = broker.create_topic()
    producer = broker.producer(transactional_id="archive")
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "record")
    producer.commit_transaction(60)
    broker.consume_committed(topic)


def _archive_spark() -> None:
    """Spark's classes, for the drivers of tests, and those of Spark SQL."""
    command = [sys.executable, "-m", "changelog_engine", "class-archive"]
    os.environ[CACHE_VARIABLE] = str(CACHE / "cache")
    subprocess.run(command, check=False)
    with tempfile.TemporaryDirectory(prefix="spark-classes-") as folder:
        spark_classes.make(Path(folder))


def install_search(server: type[search.SearchServer]) -> None:
    """A product's jars, by Maven, and the program that makes a node of them."""
    if server.libraries().is_dir():
        return
    print(f"Fetching {server.name} {server.version} (40 MB) ...", flush=True)
    _make(server.libraries(), lambda folder: _copy_search(server, folder))


def _copy_search(server: type[search.SearchServer], folder: Path) -> None:
    versions = {
        "product": server.name,
        "product.version": server.version,
        "log4j.version": server.log4j_version,
    }
    _copy_jars("search.pom.xml", versions, folder)
    with tempfile.TemporaryDirectory() as made:
        copy = f"{_DEPENDENCY_PLUGIN}:copy"
        maven = require_program("mvn", package="maven")
        _run([maven, *_QUIETLY, copy, f"-Dartifact={search.COMPILER}", f"-DoutputDirectory={made}"])
        (compiler,) = Path(made).glob("*.jar")
        program = Path(made) / search.SOURCE.name
        program.write_text(server.source(), encoding="utf-8")
        jars = os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))
        into = ["-d", str(folder / "classes"), str(program)]
        _run([java(), "-jar", str(compiler), "-17", "-nowarn", "-encoding", "UTF-8", "-cp", jars, *into])


def install_cassandra() -> None:
    """The node's jars, by Maven."""
    if not cassandra_node.LIBRARIES.is_dir():
        print(f"Fetching Cassandra {cassandra_node.VERSION} (66 MB) ...", flush=True)
        versions = {"cassandra.version": cassandra_node.VERSION}
        _make(cassandra_node.LIBRARIES, lambda folder: _copy_jars("cassandra.pom.xml", versions, folder))
    _archive_classes(cassandra_node.LIBRARIES, cassandra_node.CassandraServer, _use_cassandra)


def _use_cassandra(node: cassandra_node.CassandraServer) -> None:
    table = node.create_table("k int PRIMARY KEY, v text")
    node.execute(f"INSERT INTO {table} (k, v) VALUES (1, 'a')")
    node.execute(f"SELECT * FROM {table}")


def install_pulsar() -> None:
    """The broker's jars, by Maven."""
    if not pulsar.LIBRARIES.is_dir():
        print(f"Fetching Pulsar {pulsar.VERSION} (190 MB) ...", flush=True)
        versions = {"pulsar.version": pulsar.VERSION}
        _make(pulsar.LIBRARIES, lambda folder: _copy_jars("pulsar.pom.xml", versions, folder))
    _archive_classes(pulsar.LIBRARIES, pulsar.PulsarServer, _use_pulsar)


def _use_pulsar(broker: pulsar.PulsarServer) -> None:
    topic = broker.create_topic()
    broker.put(topic, ["record"])
    broker.values(topic)


def install_by_npm(folder: Path, packages: tuple[str, ...], size: str) -> None:
    """An emulator by npm. What of it is in C comes built."""
    if folder.is_dir():
        return
    npm = require_program("npm", package="npm")
    print(f"Fetching {packages[0]} ({size}) ...", flush=True)
    quietly = [
        "--loglevel=error",
        "--no-audit",
        "--no-fund",
        "--no-save",
        "--ignore-scripts",
        "--fetch-retries=1",
    ]
    # Node has certificates of its own, and does not look at the system's unless it is told.
    certificates = (
        {}
        if os.environ.get("NODE_EXTRA_CA_CERTS") or not _CERTIFICATES.is_file()
        else {"NODE_EXTRA_CA_CERTS": str(_CERTIFICATES)}
    )
    _make(
        folder,
        lambda into: _run([npm, "install", *quietly, "--prefix", str(into), *packages], certificates),
    )


def install_gcs() -> None:
    """Our program round the emulator, by Go."""
    if gcs.PROGRAM.is_file():
        return
    go = require_program("go", s3.GO_FOLDERS, package="golang-go")
    print(f"Building fake-gcs-server {gcs.VERSION} (3 minutes) ...", flush=True)
    _make(gcs.PROGRAM.parent, lambda folder: _go_build(go, folder))


def _go_build(go: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        shutil.copy(gcs.SOURCE, made)
        Path(made, "go.mod").write_text(f"module gcs\n\ngo 1.25\n\nrequire {gcs.PACKAGE} {gcs.VERSION}\n")
        build = ["build", "-C", made, "-mod=mod", "-ldflags=-s -w", "-o", str(folder / gcs.PROGRAM.name)]
        _run([go, *build, "."])


def install_s3() -> None:
    """The gateway by Go; where that is not to be had, moto, in an environment of its own, by pip."""
    if s3.kind() is not None:
        return
    go = find_program("go", s3.GO_FOLDERS)
    if go is not None:
        print(f"Building versitygw {s3.VERSITYGW_VERSION} (2 minutes) ...", flush=True)
        try:
            _make(s3.VERSITYGW.parent, lambda folder: _go_install(go, folder))
            return
        except ServerMissing as reason:
            print(f"versitygw: {reason}; taking moto instead", file=sys.stderr)
    print(f"Fetching moto {s3.MOTO_VERSION} ...", flush=True)
    _make(s3.MOTO, _pip_install)


def _go_install(go: str, folder: Path) -> None:
    package = f"{s3.VERSITYGW_PACKAGE}@{s3.VERSITYGW_VERSION}"
    _run([go, "install", "-ldflags=-s -w", package], {"GOBIN": str(folder)})


def _pip_install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--target", str(folder), f"moto[server]=={s3.MOTO_VERSION}"])


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    """Let a folder be there in full or not at all."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    make(unfinished)
    unfinished.rename(folder)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, cwd=CACHE, check=False)
    if done.returncode:
        raise ServerMissing(f"'{' '.join(command)}' ended with status {done.returncode}")


SERVERS: dict[type[Server], Callable[[], None] | None] = {
    kafka.KafkaServer: install_kafka,
    postgres.PostgresServer: None,
    s3.S3Server: install_s3,
    mariadb.MariaDBServer: None,
    rabbitmq.RabbitMQServer: None,
    cassandra_node.CassandraServer: install_cassandra,
    pulsar.PulsarServer: install_pulsar,
    kinesis.KinesisServer: lambda: install_by_npm(kinesis.FOLDER, kinesis.PACKAGES, "15 MB"),
    azurite.AzuriteServer: lambda: install_by_npm(azurite.FOLDER, (azurite.PACKAGE,), "186 MB"),
    gcs.GcsServer: install_gcs,
    search.OpenSearchServer: lambda: install_search(search.OpenSearchServer),
    search.ElasticsearchServer: lambda: install_search(search.ElasticsearchServer),
}

if __name__ == "__main__":
    sys.exit(main())
