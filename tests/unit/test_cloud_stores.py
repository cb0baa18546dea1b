"""Azure's and Google's stores: how they are named and reached, and files on their emulators. What they promise as storage
is in test_storage_contract.py, tables on them in reliability/test_s3.py.
"""

from __future__ import annotations

import random
import subprocess
import sys
import uuid
from typing import Any

import pytest

from changelog_engine.config.layers import ConfigLayers, without_effect
from changelog_engine.connectors import SinkContext, files
from changelog_engine.errors import ConfigurationError, StorageError
from changelog_engine.storage.file_systems import FileSystems, options_in_use, public_uri, use_options
from changelog_engine.storage.opening import open_storage
from changelog_engine.testing.conformance import check_committing_sink, check_source
from changelog_engine.types import Row, Types

HOST = "dfs.core.windows.net"
KEY = "c2VjcmV0IGtleQ=="
URI = f"abfs://container@account.{HOST}/a/b"


class TestAzureNames:
    def test_options_and_variables_give_the_key_and_the_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        where = {"fs.azure.abfs.endpoint": "http://127.0.0.1:10000"}
        given = {**where, f"fs.azure.account.key.account.{HOST}": KEY}
        opened = FileSystems(given).open(URI)
        assert (opened.path, opened.shown) == ("container/a/b", URI)
        expected = {
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:10000/account",
            "ALLOW_HTTP": "true",
        }
        assert FileSystems(given).delta_options(URI) == expected
        assert FileSystems(given).says_all(URI)
        with pytest.raises(ConfigurationError, match="send no login over http"):
            FileSystems({**where, f"fs.azure.account.key.other.{HOST}": KEY}).open(URI)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
        assert FileSystems(where).delta_options(URI) == expected

    def test_keys_are_in_no_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = FileSystems({f"fs.azure.account.key.account.{HOST}": KEY})
        assert given.masked(f"refused {KEY} at {URI}", URI) == f"refused **** at {URI}"
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "of the environment")
        assert FileSystems({}).masked("key of the environment") == "key ****"

    @pytest.mark.parametrize("key", [KEY, "a/b+c=="])
    def test_a_key_in_the_place_of_a_container_is_in_no_error(self, key: str) -> None:
        """As pyarrow takes it."""
        with pytest.raises(ConfigurationError, match="does not name a container") as told:
            FileSystems({}).open(f"abfs://account:{key}@container/a")
        assert key not in str(told.value)

    def test_the_container_is_a_part_of_the_name(self) -> None:
        """Files of two containers are not one, though nothing else tells them apart."""
        assert public_uri(f"{URI}/") == URI
        assert public_uri(URI.replace("container", "other")) != URI

    @pytest.mark.parametrize(
        "uri",
        [
            "abfs://container/a",
            "abfs://account@container/a",
            "abfs://account.blob.core.windows.net/container/a",
            f"abfss://account.{HOST}/a",
            f"{URI}?x=1",
            "abfs:///a",
        ],
    )
    def test_names_that_libraries_read_each_in_its_own_way_are_refused(self, uri: str) -> None:
        with pytest.raises(StorageError, match=r"abfss?://CONTAINER@ACCOUNT\.dfs\.core\.windows\.net/FOLDER"):
            open_storage(uri)

    def test_a_key_that_is_none_does_not_end_the_process(self) -> None:
        """Pyarrow would end it, without Python."""
        text = read_in_a_process({f"fs.azure.account.key.account.{HOST}": "not ba/se64!"})
        assert "the key of the account account" in text
        assert "is not base64" in text
        assert "not ba/se64!" not in text

    def test_no_login_at_all_does_not_end_the_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_MSI_ENDPOINT", "http://127.0.0.1:9/nobody")
        assert f"Set fs.azure.account.key.account.{HOST}, in the program" in read_in_a_process({})

    def test_a_refused_key_is_told_with_what_to_do(self) -> None:
        told = FileSystems({}).told("Azure Error: [AuthenticationFailed] 403")
        assert "refuses the key, or got none. Set fs.azure.account.key.ACCOUNT.dfs.core.windows.net" in told


def read_in_a_process(options: dict[str, str]) -> str:
    script = (
        "from changelog_engine.storage.file_systems import use_options\n"
        "from changelog_engine.storage.opening import open_storage\n"
        f"use_options({options!r})\n"
        "try:\n"
        f"    open_storage({URI!r}).read('x')\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class TestGoogleNames:
    def test_a_store_without_a_login(self) -> None:
        given = FileSystems(
            {"gs.storage.root.url": "http://127.0.0.1:4443/", "gs.auth.type": "UNAUTHENTICATED"}
        )
        assert given.open("gs://bucket/a b/").path == "bucket/a b"
        options = given.delta_options("gs://bucket/a")
        assert '"gcs_base_url": "http://127.0.0.1:4443"' in options["GOOGLE_SERVICE_ACCOUNT_KEY"]
        assert given.says_all("gs://bucket/a")
        assert FileSystems({}).delta_options("gs://bucket/a") == {}
        assert not FileSystems({}).says_all("gs://bucket/a")

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"gs.auth.type": "NONE"}, "APPLICATION_DEFAULT or UNAUTHENTICATED, not 'NONE'"),
            ({"gs.storage.root.url": "http://x"}, "set gs.auth.type: UNAUTHENTICATED, too"),
        ],
    )
    def test_options_that_cannot_be(self, options: dict[str, str], says: str) -> None:
        with pytest.raises(ConfigurationError, match=says):
            FileSystems(options).open("gs://bucket/a")


def test_the_configuration_has_these_entries_and_knows_no_others() -> None:
    entries = {f"fs.azure.account.key.account.{HOST}": KEY, "gs.auth.type": "UNAUTHENTICATED"}
    assert ConfigLayers(file={**entries, "gs.other": "x"}).file_systems() == entries
    assert [without_effect(key) for key in entries] == [None, None]
    for key in ("gs.other", "fs.azure.other"):
        assert f"{key} has no effect here" in str(without_effect(key))


ROW = Types.ROW_NAMED(["n"], [Types.LONG()])
CSV = files.CsvSchema((files.CsvColumn("n", Types.LONG()),), header=True)
AVRO = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'
FORMATS: list[tuple[Any, Any]] = [
    (files.ColumnarFiles("parquet", files.arrow_schema(ROW)), files.ParquetRecords(ROW)),
    (files.CsvFiles(CSV), files.CsvRecords(CSV)),
    (files.AvroFiles(AVRO), files.AvroRecords(AVRO)),
]


@pytest.fixture(params=["azurite", "gcs"])
def server(request: pytest.FixtureRequest) -> Any:
    before = options_in_use()
    server = request.getfixturevalue(request.param)
    use_options(server.options)
    yield server
    use_options(before)


@pytest.mark.slow
def test_files(server: Any) -> None:
    """The sink shows each element once whatever crashes; a source reads both of two buckets, and hidden files of none."""
    roots = [server.create_bucket() for _ in range(2)]
    for root in roots:
        storage = open_storage(root)
        storage.write_durable("in/a b.txt", root.encode())
        storage.write_durable("in/below/empty.txt", b"")
        storage.write_durable("in/.hidden", b"hidden")
    assert sorted(check_source(files.FileSource([f"{root}/in" for root in roots]))) == sorted(roots)

    out = f"{roots[0]}/out {uuid.uuid4().hex}"
    sink = files.FileSink(out, files.StringEncoder(), files.BasePathBuckets())
    sink.check_before_start()
    shown = lambda: check_source(files.FileSource([out])) if open_storage(out).list() else []  # noqa: E731
    check_committing_sink(sink, shown, runs=2, seed=1)
    writer = sink.committing_writer(SinkContext("job", "sink", 0, 1, "run", 1, True, ()))
    writer.write(["left"])
    writer.prepare(False)
    assert "left" not in shown()

    rows = f"{roots[1]}/rows"
    for number, (writes, reads) in enumerate(FORMATS):
        writer = files.FileSink(f"{rows}{number}", writes, files.BasePathBuckets()).committing_writer(
            SinkContext("job", "sink", 0, 1, "run", 1, True, ())
        )
        writer.write([{"n": n} if isinstance(writes, files.AvroFiles) else Row(n=n) for n in range(9)])
        writer.commit(writer.prepare(False).committables)
        writer.close()
        assert [row["n"] for row in check_source(files.FileSource([f"{rows}{number}"], reads))] == [*range(9)]


@pytest.mark.slow
def test_a_blob_is_read_as_it_was_when_it_was_opened(azurite: Any) -> None:
    """In several requests, and not the bytes of another that has its name since."""
    before = options_in_use()
    use_options(azurite.options)
    try:
        storage = open_storage(azurite.create_bucket())
    finally:
        use_options(before)
    octets = random.Random(1).randbytes((8 << 20) + 9)
    storage.write_durable("d/a%25b c", octets)
    with storage.open("d/a%25b c") as stream:
        assert stream.read() == octets
        assert stream.seek(len(octets) - 3) == len(octets) - 3
        assert (stream.read(9), stream.read(9), stream.tell()) == (octets[-3:], b"", len(octets))
        assert stream.seek(5) == 5
        assert stream.read(5) == octets[5:10]
        storage.write_durable("d/a%25b c", octets[::-1])
        with pytest.raises(OSError, match="a%25b c was replaced while it was read"):
            stream.read(5)
