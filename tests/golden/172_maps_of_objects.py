# topic: objects in and as maps
# checks: keys and values of MAP are any objects where their type is pickled; dicts of other classes, mappings and what
# has items() and a length are maps; other objects, rows and lists of pairs are not
import collections
import types

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __repr__(self):
        return f"Point({self.x},{self.y})"

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))


class Entries(collections.abc.Mapping):
    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


class Items:
    def __init__(self, entries):
        self.entries = entries

    def items(self):
        return self.entries.items()

    def __len__(self):
        return len(self.entries)


def case(name, make, made_type):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    try:
        made = env.from_collection([1], Types.INT()).map(make, made_type).key_by(lambda v: 0)
        made.map(lambda v: f"{type(v).__name__} {v}", Types.STRING()).print(name)
        env.execute()
    except Exception:
        print(name, "error")


OBJECT, TEXT, INT = Types.PICKLED_BYTE_ARRAY(), Types.STRING(), Types.INT()
NUMBERS = Types.MAP(TEXT, INT)
case("value", lambda v: {"a": Point(1, 2)}, Types.MAP(TEXT, OBJECT))
case("key", lambda v: {Point(1, 2): "a"}, Types.MAP(OBJECT, TEXT))
case("both", lambda v: {Point(1, 2): Point(3, 4)}, Types.MAP(OBJECT, OBJECT))
case("nested", lambda v: {"a": {"b": Point(1, 2)}}, Types.MAP(TEXT, Types.MAP(TEXT, OBJECT)))
case(
    "field",
    lambda v: Row(m={"a": Point(1, 2)}, n=1),
    Types.ROW_NAMED(["m", "n"], [Types.MAP(TEXT, OBJECT), INT]),
)
case("none", lambda v: {"a": None}, Types.MAP(TEXT, OBJECT))
case("ordered", lambda v: collections.OrderedDict(a=1), NUMBERS)
case("default", lambda v: collections.defaultdict(int, a=1), NUMBERS)
case("counter", lambda v: collections.Counter("aab"), NUMBERS)
case("proxy", lambda v: types.MappingProxyType({"a": 1}), NUMBERS)
case("user", lambda v: collections.UserDict({"a": 1}), NUMBERS)
case("mapping", lambda v: Entries({"a": 1}), NUMBERS)
case("items", lambda v: Items({"a": 1}), NUMBERS)
case("items-in-row", lambda v: Row(Items({"a": 1}), 1), Types.ROW([NUMBERS, INT]))
case("point", lambda v: Point(1, 2), NUMBERS)
case("point-in-row", lambda v: Row(Point(1, 2), 1), Types.ROW([NUMBERS, INT]))
case("row", lambda v: Row(a=1), NUMBERS)
case("pairs", lambda v: [("a", 1)], NUMBERS)
