"""Writes down what PyFlink's schemas make of the texts and rows in cases.py.

    python tests/golden/format_texts/record.py     # with apache-flink==2.3.0 installed and JAVA_HOME: pyflink.json

``RAISES`` is an error, of the schema or of making it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from format_texts import cases  # noqa: E402


def _read(schema: Any, text: str) -> str:
    try:
        found = schema.deserialize(text.encode())
    except Exception:
        return "RAISES"
    return "null" if found is None else str(found.toString())


def _java_rows(kind: str) -> list[Any]:
    """The rows as Java's: out of a collection's stream."""
    from pyflink.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rows = env.from_collection(cases.ROWS[kind], cases.TYPES[kind])._j_data_stream.executeAndCollect("rows")
    found = []
    while rows.hasNext():
        found.append(rows.next())
    rows.close()
    return found


def main() -> None:
    """See the module."""
    answers: dict[str, Any] = {}
    for name, (make, texts) in cases.readers().items():
        try:
            schema = make()._j_deserialization_schema
            schema.open(None)
        except Exception:
            answers[name] = "RAISES"
            continue
        answers[name] = [_read(schema, text) for text in texts]
    rows = {kind: _java_rows(kind) for kind in cases.ROWS}
    for name, (make, kind) in cases.writers().items():
        schema = make()._j_serialization_schema
        schema.open(None)
        answers[name] = [bytes(schema.serialize(row)).decode() for row in rows[kind]]
    text = json.dumps(answers, indent=0, ensure_ascii=False)
    (HERE / "pyflink.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
