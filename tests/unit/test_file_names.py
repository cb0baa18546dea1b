"""Part files: names, buckets, encoders, and base paths that cannot be written to."""

from __future__ import annotations

from collections import Counter

import pytest
from support.jobs import OneClock
from support.part_files import Clock, bucket_of, context, counter_of, finished, hidden, lines, sink_to
from support.unprivileged import closed_folder

from changelog_engine.connectors import CommittingSink
from changelog_engine.connectors.files import (
    ON_CHECKPOINT,
    DateTimeBuckets,
    ElementBuckets,
    FileNames,
    StringEncoder,
)
from changelog_engine.connectors.protocols import RestoredSink
from changelog_engine.errors import ConfigurationError, StorageError, TypeMismatchError
from changelog_engine.storage.opening import open_storage
from changelog_engine.types import Types


class TestNames:
    def test_of_a_writer(self, tmp_path):
        names = FileNames("out", ".txt")
        writer = sink_to(tmp_path, ON_CHECKPOINT, names=names).committing_writer(context())
        for value in "ab":
            writer.write([value])
            assert [path.name[0] for path in hidden(tmp_path)] == ["."]
            writer.commit(writer.prepare(False).committables)
        first, second = sorted(finished(tmp_path), key=counter_of)
        assert first.name.startswith("out-")
        assert (first.name[-6:], second.name[-6:]) == ("-0.txt", "-1.txt")
        assert first.name[:-6] == second.name[:-6]
        assert len(first.name) == len("out-") + 36 + len("-0.txt")

    def test_by_subtask_go_on_after_those_that_are_there(self, tmp_path):
        names = FileNames(by_subtask=True)
        for _ in range(2):
            for subtask in range(2):
                writer = sink_to(tmp_path, names=names).committing_writer(context(subtask, 2))
                writer.write(["x"])
                writer.commit(writer.prepare(True).committables)
        assert [path.name for path in finished(tmp_path)] == ["part-0-0", "part-0-1", "part-1-0", "part-1-1"]

    @pytest.mark.parametrize("ends", ["commits", "restores"])
    def test_by_subtask_of_two_jobs_take_nothing_from_each_other(self, tmp_path, caplog, ends):
        """Each counts by itself what it makes, so that both come to the same names."""
        names = FileNames(suffix=".txt", by_subtask=True)
        rolling = ON_CHECKPOINT if ends == "commits" else None
        writers = {
            job: sink_to(tmp_path, rolling, names=names).committing_writer(context(job=job)) for job in "ab"
        }
        prepared = {}
        for turn in range(3):
            for job, writer in writers.items():
                writer.write([f"{job}{turn}"])
            for job, writer in writers.items():
                prepared[job] = writer.prepare(False)
                if ends == "commits":
                    for _ in range(2):  # the second time after a crash
                        writer.commit(prepared[job].committables)
        if ends == "restores":
            for job, kept in prepared.items():
                kept.state["parts"][0][1] = "part-0-7.txt"
                for attempt in (2, 3):
                    again = context(attempt=attempt, restored=[RestoredSink(0, kept)], job=job)
                    sink_to(tmp_path, names=names).committing_writer(again)
        assert lines(tmp_path) == Counter(f"{job}{turn}" for job in "ab" for turn in range(3))
        assert all(path.name.startswith("part-0-") and path.suffix == ".txt" for path in finished(tmp_path))
        assert "was made by another job, which writes into the same folder" in caplog.text

    def test_no_folders(self):
        with pytest.raises(ConfigurationError, match="prefix of part files"):
            FileNames("a/b")


class TestBuckets:
    @pytest.mark.parametrize(
        ("pattern", "zone", "bucket"),
        [
            ("yyyy-MM-dd--HH", "UTC", "2024-03-09--23"),
            ("yyyy-MM-dd--HH", "Europe/Berlin", "2024-03-10--00"),
            ("yyyy-MM-dd--HH", "GMT-08:00", "2024-03-09--15"),
            ("yyyy-MM-dd--HH", "PST", "2024-03-09--15"),
            ("'year='yyyy/'month='MM/dd", "UTC", "year=2024/month=03/09"),
            ("yy-M-d h:mm:ss.SSS a", "UTC", "24-3-9 11:05:07.089 PM"),
            ("EEE MMM D ''", "UTC", "Sat Mar 69 '"),
        ],
    )
    def test_by_time(self, pattern, zone, bucket):
        buckets = DateTimeBuckets(pattern, zone)
        assert buckets.bucket_at(1_710_025_507_089) == bucket  # 2024-03-09T23:05:07.089Z
        assert list(buckets.assign(["a", "b"], 1_710_025_507_089)) == [(bucket, ["a", "b"])]

    @pytest.mark.parametrize(
        ("pattern", "zone", "message"),
        [
            ("yyyy'x", "UTC", "quote"),
            ("yyyy-QQ", "UTC", "letter 'Q'"),
            ("yyyy", "Mars/North", "unknown time zone"),
        ],
    )
    def test_bad_patterns(self, pattern, zone, message):
        with pytest.raises(ConfigurationError, match=message):
            DateTimeBuckets(pattern, zone)

    def test_by_element(self, tmp_path):
        writer = sink_to(tmp_path, buckets=ElementBuckets(bucket_of)).committing_writer(context())
        writer.write([str(number) for number in range(8)])
        writer.commit(writer.prepare(True).committables)
        found = {
            str(path.parent.relative_to(tmp_path)): path.read_text().split() for path in finished(tmp_path)
        }
        assert found == {".": ["0", "4"], "b0/deep": ["3", "6"], "b1/deep": ["1", "7"], "b2/deep": ["2", "5"]}

    @pytest.mark.parametrize("bucket", ["../x", "/x", "a/../../x", 5, None])
    def test_buckets_stay_below_the_base_path(self, tmp_path, bucket):
        writer = sink_to(tmp_path, buckets=ElementBuckets(lambda value: bucket)).committing_writer(context())
        with pytest.raises(TypeMismatchError, match="bucket"):
            writer.write(["x"])
        assert list(tmp_path.iterdir()) == []

    def test_a_new_hour(self, tmp_path):
        clock = Clock(0)
        sink = sink_to(tmp_path, buckets=DateTimeBuckets(zone_id="UTC"), clock=OneClock(clock))
        writer = sink.committing_writer(context())
        for hour in range(3):
            clock.now_ms = hour * 3_600_000
            writer.write([str(hour)])
        writer.commit(writer.prepare(True).committables)
        files = finished(tmp_path)
        assert [(path.parent.name, counter_of(path), path.read_text()) for path in files] == [
            (f"1970-01-01--0{hour}", hour, f"{hour}\n") for hour in range(3)
        ]
        assert len({path.name.rsplit("-", 1)[0] for path in files}) == 1, (
            "one writer numbers them over all hours"
        )


class TestEncoder:
    def test_elements_look_as_in_flink(self):
        typed = StringEncoder().for_type(Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
        assert typed.encode([("a", 1e20)]) == [b"(a,1.0E20)\n"]
        assert StringEncoder().for_type(Types.STRING()).encode(["ü"]) == ["ü\n".encode()]
        with pytest.raises(TypeMismatchError, match="an element is None"):
            StringEncoder().for_type(Types.STRING()).encode(["a", None])
        assert StringEncoder().encode([("a", 1), None]) == [b"('a', 1)\n", b"None\n"]
        assert StringEncoder("latin-1").encode(["ü☂"]) == [b"\xfc?\n"]

    @pytest.mark.parametrize("charset", ["UTF-8", "latin-1", "ascii", "utf-16", "utf-8-sig", "cp037"])
    @pytest.mark.parametrize("values", [[""], ["a", "", "ü☂", "\ud800", "b\nc"], ["a", None, 1, ("b",)]])
    def test_many_elements_are_as_one_after_the_other(self, charset, values):
        encoder = StringEncoder(charset)
        assert encoder.joined(values) == b"".join(encoder.encode(values))
        typed = encoder.for_type(Types.STRING())
        if None in values:
            with pytest.raises(TypeMismatchError, match="an element is None"):
                typed.joined(values)
        else:
            assert typed.joined(values) == encoder.joined(values)


class TestBadPaths:
    def test_folder_under_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigurationError, match=f"cannot write to the folder {tmp_path}/file/out"):
            sink_to(tmp_path / "file" / "out").check_before_start()

    def test_no_permission(self):
        with closed_folder() as closed, pytest.raises(ConfigurationError, match="Permission denied"):
            sink_to(closed).check_before_start()

    def test_unknown_file_system(self):
        with pytest.raises(ConfigurationError, match="cannot open 'nosuch://bucket/x'"):
            sink_to("nosuch://key:geheim@bucket/x").check_before_start()

    @pytest.mark.parametrize("uri", ["s3://", "s3:x", "s3a:///x", "gs://", "s3://key:geheim@/x"])
    def test_no_bucket(self, uri):
        said = "names no bucket, as (s3a?|gs)://BUCKET/FOLDER does"
        with pytest.raises(ConfigurationError, match=said) as error:
            sink_to(uri).check_before_start()
        assert "geheim" not in str(error.value)

    @pytest.mark.parametrize("uri", ["s3://bucket/a//b", "s3://key:geheim@bucket//a", "gs://bucket/a//b/"])
    def test_a_folder_without_a_name(self, uri):
        said = f"'{uri.replace('key:geheim@', '').rstrip('/')}' has a folder without a name: leave out one of two slashes"
        with pytest.raises(ConfigurationError, match=said):
            sink_to(uri).check_before_start()
        with pytest.raises(StorageError, match=said):
            open_storage(uri)

    def test_a_check_leaves_nothing(self, tmp_path):
        sink_to(tmp_path / "new").check_before_start()
        assert list((tmp_path / "new").iterdir()) == []
        assert isinstance(sink_to(tmp_path), CommittingSink)
