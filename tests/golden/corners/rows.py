"""Row: making, reading, changing and printing one."""

from __future__ import annotations

from pyflink.common import Row, RowKind, Types

_PAIR = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])


def fields_by_name_and_number(env):
    """Attribute, name and number give the same field."""
    rows = env.from_collection([Row("a", 1)], _PAIR)
    return rows.map(lambda r: (r.name, r["name"], r[0], r[-1], len(r)))


def missing_attribute(env):
    """A field that isn't there, by attribute."""
    return env.from_collection([Row("a", 1)], _PAIR).map(lambda r: r.nothing)


def missing_field_by_name(env):
    """A field that isn't there, by name."""
    return env.from_collection([Row("a", 1)], _PAIR).map(lambda r: r["nothing"])


def unpacking(env):
    """A row unpacks, iterates and slices like a tuple."""

    def use(row):
        name, n = row
        return [name, n, list(row), row[0:1], [*row]]

    return env.from_collection([Row("a", 1)], _PAIR).map(use)


def setting_fields(env):
    """Fields are set by name and number."""

    def use(row):
        row["name"] = "x"
        row[1] = 7
        return sorted(row.as_dict().items())

    return env.from_collection([Row(name="a", n=1)], _PAIR).map(use)


def setting_an_attribute(env):
    """Fields are not set by attribute."""

    def use(n):
        row = Row(a=n)
        row.a = 5
        return row.a

    return env.from_collection([1]).map(use)


def as_dict_of_nested_rows(env):
    """as_dict(recursive) goes into rows in rows."""

    def use(n):
        row = Row(a=n, inner=Row(b=2))
        return row.as_dict(True), type(row.as_dict()["inner"]).__name__

    return env.from_collection([1]).map(use)


def as_dict_without_names(env):
    """as_dict of a row without names is an error."""
    return env.from_collection([1]).map(lambda n: Row(n).as_dict())


def set_field_names_of_a_row(env):
    """set_field_names names the fields of a row that has none."""

    def use(n):
        row = Row(n, "x")
        row.set_field_names(["a", "b"])
        return row.a, row["b"], sorted(row.as_dict())

    return env.from_collection([1]).map(use)


def get_fields_by_names(env):
    """Some fields, in the order they are asked for."""
    return env.from_collection([1]).map(lambda n: Row(a=1, b=2, c=3).get_fields_by_names(["c", "a"]))


def equality_of_rows(env):
    """Rows are equal by their values; names and kind count as PyFlink has it."""

    def use(n):
        deleted = Row(1, 2)
        deleted.set_row_kind(RowKind.DELETE)
        return [
            Row(1, 2) == Row(1, 2),
            Row(1, 2) == Row(2, 1),
            Row(a=1, b=2) == Row(a=1, b=2),
            Row(a=1, b=2) == Row(1, 2),
            Row(a=1, b=2) == Row(b=1, a=2),
            Row(a=1, b=2) == Row(b=2, a=1),
            Row(a=1, b=2) == Row(a=1, b=2, c=3),
            Row(a=Row(x=1, y=2), b=[Row(p=1, q=2)]) == Row(b=[Row(q=2, p=1)], a=Row(y=2, x=1)),
            Row(1, 2) == deleted,
            Row(1, 2) == (1, 2),
        ]

    return env.from_collection([1]).map(use)


def texts_of_rows(env):
    """str and repr, with names and without."""
    return env.from_collection([1]).map(lambda n: [str(Row(1, "a")), repr(Row(a=1, b="x")), str(Row())])


def hash_of_rows(env):
    """Equal rows have one hash: they are keys of dicts."""
    return env.from_collection([1]).map(lambda n: len({Row(1, 2): 1, Row(1, 2): 2, Row(1, 3): 3}))


def contains(env):
    """``in`` looks at names where there are some, at values where there are none."""
    return env.from_collection([1]).map(
        lambda n: ["a" in Row(a=1), "b" in Row(a=1), 1 in Row(1, 2), 3 in Row(1, 2)]
    )


def row_class_with_names(env):
    """Row("a", "b") is a class of rows when it is called."""

    def use(n):
        made = Row("a", "b")(n, "x")
        return made.a, made.b, made["a"]

    return env.from_collection([1]).map(use)


def row_class_with_wrong_count(env):
    """A class of rows of two fields, called with three values."""
    return env.from_collection([1]).map(lambda n: Row("a", "b")(1, 2, 3))


def positional_and_named(env):
    """Values with and without names in one row."""
    return env.from_collection([1]).map(lambda n: Row(1, b=2))


def row_from_json(env):
    """A row out of a parsed document, with a whole number in a DOUBLE."""
    import json

    row = Types.ROW_NAMED(["id", "amount"], [Types.STRING(), Types.DOUBLE()])
    documents = env.from_collection(
        ['{"id": "a", "amount": 10}', '{"amount": 2.5, "id": "b"}'], Types.STRING()
    )
    return documents.map(lambda text: Row(**json.loads(text)), row)


def fields_in_another_order(env):
    """A row with the declared names in another order."""
    return env.from_collection([1], Types.INT()).map(lambda n: Row(n=n, name="a"), _PAIR)


def row_without_names_for_a_named_type(env):
    """A row without names where a named type is declared takes them by position."""
    found = env.from_collection([1], Types.INT()).map(lambda n: Row("a", n), _PAIR)
    return found.map(lambda r: f"{r.name} {r.n}", Types.STRING())


def row_named_unlike_its_type(env):
    """A row with other names than the declared ones."""
    return env.from_collection([1], Types.INT()).map(lambda n: Row(x="a", y=n), _PAIR)


def tuple_as_row(env):
    """A tuple where a ROW is declared."""
    return env.from_collection([1], Types.INT()).map(lambda n: ("a", n), _PAIR)


def list_as_row(env):
    """A list where a ROW is declared."""
    return env.from_collection([1], Types.INT()).map(lambda n: ["a", n], _PAIR)


def dict_as_row(env):
    """A dict where a ROW is declared."""
    return env.from_collection([1], Types.INT()).map(lambda n: {"name": "a", "n": n}, _PAIR)


def nested_rows(env):
    """Rows in rows, in lists and as values of maps, read in a function behind a shuffle."""
    inner = Types.ROW_NAMED(["x"], [Types.INT()])
    outer = Types.ROW_NAMED(
        ["one", "many", "named"], [inner, Types.LIST(inner), Types.MAP(Types.STRING(), inner)]
    )
    found = env.from_collection([1], Types.INT()).map(
        lambda n: Row(one=Row(x=n), many=[Row(x=2), Row(x=3)], named={"k": Row(x=4)}), outer
    )
    return found.key_by(lambda r: 0).map(lambda r: (r.one.x, [each.x for each in r.many], r.named["k"].x))


def print_rows(env):
    """print() of rows, nested, with None."""
    inner = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
    outer = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), inner, Types.INT()])
    env.from_collection([Row("one", Row(1.5), 3), Row(None, None, None)], outer).print()
    env.execute("print_rows")


def of_kind(env):
    """Row.of_kind makes a row of another kind."""
    rows = env.from_collection([1]).map(lambda n: Row.of_kind(RowKind.DELETE, "a", n), _PAIR)
    return rows.map(lambda r: (r.get_row_kind().name, r.name))
