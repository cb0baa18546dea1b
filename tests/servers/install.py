"""``make servers``: fetch what the servers need into ``.servers``; say what is missing that only a system's packages have.

Nothing is fetched twice: each part is made in a folder beside its own, which then takes its place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers import kafka, mariadb, postgres, s3
from servers.process import CACHE, Server, ServerMissing, find_program, require_program

_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


def main() -> int:
    """The exit status: 0 when all servers can be started."""
    CACHE.mkdir(exist_ok=True)
    missing = []
    for server, install in SERVERS.items():
        try:
            if install is not None:
                install()
            server.check_installed()
        except ServerMissing as reason:
            missing.append(f"{server.name}: {reason}")
    for line in missing:
        print(line, file=sys.stderr)
    if not missing:
        print(f"servers: {', '.join(server.name for server in SERVERS)} are ready ({s3.kind()} is S3).")
    return 1 if missing else 0


def install_kafka() -> None:
    """The broker's jars, by Maven."""
    if not kafka.LIBRARIES.is_dir():
        _copy_kafka()
    if not kafka.CLASSES.is_file():
        _archive_classes()


def _copy_kafka() -> None:
    maven = require_program("mvn", package="maven")
    print(f"Fetching Kafka {kafka.VERSION} (43 MB) ...", flush=True)
    pom = Path(__file__).with_name("kafka.pom.xml")
    copy = [f"{_DEPENDENCY_PLUGIN}:copy-dependencies", f"-Dkafka.version={kafka.VERSION}"]
    _make(
        kafka.LIBRARIES,
        lambda folder: _run(
            [maven, "-q", "-B", "-Dstyle.color=never", "-f", str(pom), *copy, f"-DoutputDirectory={folder}"]
        ),
    )


def _archive_classes() -> None:
    """Run a broker once, and let its JVM keep what it loaded."""
    archive = kafka.CLASSES.with_suffix(".unfinished")
    archive.unlink(missing_ok=True)
    with kafka.KafkaServer(jvm_options=[f"-XX:ArchiveClassesAtExit={archive}"]) as broker:
        topic = broker.create_topic()
        producer = broker.producer(transactional_id="archive")
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, "record")
        producer.commit_transaction(60)
        broker.consume_committed(topic)
        written = broker.stop()  # the JVM writes at its end
    if written and archive.exists():
        archive.rename(kafka.CLASSES)


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
}

if __name__ == "__main__":
    sys.exit(main())
