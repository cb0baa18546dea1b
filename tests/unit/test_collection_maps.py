"""Maps of from_collection: their entries come in the order in which Java reads them."""

from __future__ import annotations

import pytest

from api.common.typeinfo import Types
from changelog_engine.connectors.collection import CollectionSource
from changelog_engine.types import Row


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        # What a function behind from_collection saw in PyFlink 1.20.1: of one bucket, the last entry comes first.
        ("zeta mm b a", "mm zeta a b"),
        ("jpw fbiaxl fpp msa arzn bwft", "jpw arzn msa fbiaxl bwft fpp"),
        ("zz b a k9", "zz a b k9"),
    ],
)
def test_maps_of_a_collection_have_the_order_of_javas_reader_of_pickles(given: str, seen: str) -> None:
    string = Types.STRING()
    entries = dict.fromkeys(given.split(), 1)
    declared = Types.ROW_NAMED(
        ["m", "l"], [Types.MAP(string, Types.INT()), Types.LIST(Types.MAP(string, Types.INT()))]
    )
    read = CollectionSource([Row(m=entries, l=[entries])], declared)._elements[0]
    assert list(read.m) == seen.split() == list(read.l[0])
    assert list(entries) == given.split()
