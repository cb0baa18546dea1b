"""Corner programs that give something else here than in PyFlink, and stay so.

Each has what it gives here, and words of the line in docs/compatibility.md that says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Difference:
    """What a program gives here.

    Args:
        documented: words that stand in docs/compatibility.md.
        gives: its elements, as the recording script shows them; None where it raises.
        prints: what it prints.
        raises: the error's class, for which there are no elements.
    """

    documented: str
    gives: list[str] | None = None
    prints: list[str] = field(default_factory=list)
    raises: str = ""


DIFFERENCES: dict[str, Difference] = {
    "chaining.unused_side_tag": Difference(
        "An element for a tag that nobody reads goes nowhere.",
        gives=["1"],
    ),
    "flows.main_output_without_the_side": Difference(
        "An element for a tag that nobody reads goes nowhere.",
        gives=["2"],
    ),
    "flows.three_to_a_side_output": Difference(
        "What begins with an `OutputTag` and is not a pair of tag and element is an error",
        raises="JobExecutionError",
    ),
    "aggregations.reduce_gives_none_without_a_type": Difference(
        "A reduce function that gives None is an error, also where no type is declared",
        raises="JobExecutionError",
    ),
    "flows.side_output_of_a_map": Difference(
        "`get_side_output()` of an operator that has no side outputs is an error",
        raises="InvalidJobError",
    ),
    "flows.runtime_context": Difference(
        "`get_max_number_of_parallel_subtasks()` is 128 or what was set",
        gives=["'(1, 128, 0, 0)'"],
    ),
    "flows.task_names": Difference(
        "`get_task_name()` gives the operator's name",
        gives=["'Map / Map (1/1)#0 / told / told (1/1)#0 / 1'"],
    ),
    "watermarks.assigner_before_idleness": Difference(
        "PyFlink forgets one that was given before",
        gives=["'5 5'", "'7 7'"],
    ),
    "watermarks.assigner_before_alignment": Difference(
        "PyFlink forgets one that was given before",
        gives=["'5 5'", "'7 7'"],
    ),
    "two_inputs.undeclared_broadcast_state": Difference(
        "A broadcast state that `broadcast()` was not given is an error",
        raises="JobExecutionError",
    ),
    "keys.selector_of_whole_numbers_in_doubles": Difference(
        "A key selector gets elements of their declared type",
        gives=["'float 2.0 1'", "'float 0.5 1'", "'float 2.0 2'"],
    ),
    "declared_types.fraction_as_long": Difference(
        "1.5 in a LONG, which Flink cuts to 1",
        raises="JobExecutionError",
    ),
    "declared_types.tuple_too_long": Difference(
        "a tuple with more fields than declared, which PyFlink cuts off",
        raises="JobExecutionError",
    ),
    "declared_types.big_integers": Difference(
        "What PyFlink fails at, or makes zeros of, works: `CHAR`, a `BIG_INT` of any size",
        gives=["1267650600228229401496703205376", "-1267650600228229401496703205376", "0"],
    ),
    "declared_types.chars": Difference(
        "What PyFlink fails at, or makes zeros of, works: `CHAR`, a `BIG_INT` of any size",
        gives=["'x'", "'é'"],
    ),
    "declared_types.tuples_as_basic_array": Difference(
        "a tuple as an array",
        gives=["[1, 2]"],
    ),
    "declared_types.list_as_tuple": Difference(
        "a list as a `TUPLE`",
        gives=["(1, 'a')"],
    ),
    "declared_types.type_infos_are_equal": Difference(
        "Rows with other field names are other types.",
        gives=["True", "False", "True", "False", "True", "False"],
    ),
    "declared_types.float_collected": Difference(
        "A collected `FLOAT` is what its 24 bits hold",
        gives=["0.10000000149011612", "0.5"],
    ),
    "nulls.none_collected": Difference(
        "ends the other at the first None",
        gives=["None", "'two'"],
    ),
    "nulls.none_ahead_of_timestamps": Difference(
        "Ahead of a timestamp assigner they may be None here",
        gives=["'None'"],
    ),
    "declared_types.decimals_with_exponents": Difference(
        "A Decimal comes back as it went in, with its zeros and exponent",
        gives=[
            "Decimal('1E+3')",
            "Decimal('1.2E+6')",
            "Decimal('1.50')",
            "Decimal('1E-7')",
            "Decimal('0.000001')",
            "Decimal('-0')",
        ],
    ),
    "nulls.none_undeclared": Difference(
        "as in Flink, and undeclared",
        gives=["None", "2"],
    ),
    "nulls.none_in_tuples": Difference(
        "Inside an element None is a field without a value, in PyFlink in rows only.",
        gives=["('a', None)"],
    ),
    "nulls.none_as_a_text_in_tuples": Difference(
        "Inside an element None is a field without a value, in PyFlink in rows only.",
        gives=["(None, 1)"],
    ),
    "nulls.none_clears_a_value": Difference(
        "`update(None)` of a `ValueState` clears it, where PyFlink fails",
        gives=["\"(None, 'x')\"", "\"('x', None)\""],
    ),
    "nulls.none_into_a_map": Difference(
        "a map takes it as a value, which `contains()` finds",
        gives=["\"(None, True, ['k'], False)\"", "\"(None, True, ['k'], False)\""],
    ),
    "nulls.none_as_a_collection_element": Difference(
        "`from_collection` takes None in the same way",
        gives=["'a'", "None"],
    ),
    "ends.ints_in_a_collection_of_doubles": Difference(
        "`from_collection` whole numbers as DOUBLE",
        gives=["1.0", "2.5"],
    ),
    "ends.failing_close": Difference(
        "one in `close()` too, which is only logged in PyFlink",
        raises="JobExecutionError",
    ),
    "ends.keyed_stream_collected": Difference(
        "an undeclared key is itself there, in PyFlink its pickled bytes",
        gives=["INSERT Row(f0='a', f1=('a', 1))"],
    ),
    "keyed_state.state_touched_in_open": Difference(
        "Keyed state, timers and `get_current_key()` where there is no current key",
        raises="JobExecutionError",
    ),
    "nulls.none_as_long_through_key_by": Difference(
        "in PyFlink they may behind a `key_by`",
        raises="JobExecutionError",
    ),
    "declared_types.microseconds_of_a_timestamp": Difference(
        "A `SQL_TIMESTAMP` keeps its microseconds; PyFlink cuts them off.",
        gives=["'datetime.datetime(2024, 1, 1, 0, 0, 0, 123456)'"],
    ),
    "rows.tuple_as_row": Difference(
        "a tuple, list or dict as a `ROW`",
        gives=["INSERT Row(name='a', n=1)"],
    ),
    "rows.list_as_row": Difference(
        "a tuple, list or dict as a `ROW`",
        gives=["INSERT Row(name='a', n=1)"],
    ),
    "rows.dict_as_row": Difference(
        "a tuple, list or dict as a `ROW`",
        gives=["INSERT Row(name='a', n=1)"],
    ),
    "watermarks.of_a_source": Difference(
        "A strategy's timestamp assigner works in `from_source` too; PyFlink takes no notice of it there.",
        gives=["'1 10'", "'2 20'", "'3 30'"],
    ),
    "windows.aggregated_sessions": Difference(
        "An element that makes one session of two loses none of their elements",
        gives=["800.0"],
    ),
    "windows.continuous_event_time": Difference(
        "PyFlink fires those that triggers of windows set behind all that were due",
        gives=[
            "'a [0, 1000) [100, 700]'",
            "'a [0, 1000) [100, 700]'",
            "'a [0, 1000) [100, 700]'",
            "'a [0, 1000) [100, 700]'",
            "'a [0, 1000) [100, 700]'",
        ],
    ),
    "windows.window_and_key_share_a_name": Difference(
        "`window_state()` and `global_state()` may have states of one name, which are two",
        gives=["'0 1 10'", "'1000 1 20'", "'2000 1 30'", "'4000 1 40'"],
    ),
    "state_use.aggregating_add_none": Difference(
        "`AggregatingState.add(None)` gives None to the function; in PyFlink it clears the state.",
        gives=["'a 1'", "'b 1'", "'a 2'", "'a 3'", "'b 2'"],
    ),
    "state_use.value_past_a_long": Difference(
        "a job without checkpoints goes on with it, where PyFlink fails",
        gives=[f"'{key} 9223372036854775808'" for key in "abaab"],
    ),
    "aggregations.sum_past_a_long": Difference(
        "a job without checkpoints goes on with it, where PyFlink fails",
        gives=["'9223372036854775807'", "'9223372036854775812'"],
    ),
    "state_use.row_changed_in_place": Difference(
        "in PyFlink's process mode it stays for as long as Python caches the state",
        gives=["'a 1'", "'b 10'", "'a 1'", "'a 1'", "'b 10'"],
    ),
    "state_use.map_remove_while_iterating": Difference(
        "Iterators of `MapState` show the entries as they were at the call.",
        gives=[
            "\"a [('x', 1)]\"",
            "\"b [('x', 1)]\"",
            "\"a [('x', 1)]\"",
            "\"a [('x', 1)]\"",
            "\"b [('x', 1)]\"",
        ],
    ),
    "state_use.map_of_pickled_keys": Difference(
        "A map finds keys that are pickled",
        gives=[
            "\"a [True, 1, [((1, 'k'), 1)], True]\"",
            "\"b [True, 10, [((0, 'k'), 10)], True]\"",
            "\"a [True, 2, [((0, 'k'), 2)], True]\"",
            "\"a [True, 3, [((1, 'k'), 3)], True]\"",
            "\"b [True, 20, [((0, 'k'), 20)], True]\"",
        ],
    ),
    "timer_use.timer_deletes_a_later_one": Difference(
        "A timer that another one deletes doesn't fire, also where both are due",
        gives=["'a 10'", "'b 10'"],
    ),
    "timer_use.on_timer_is_not_there": Difference(
        "`on_timer` may return None, which fails in PyFlink.",
        gives=["'a'", "'b'", "'a'", "'b'"],
    ),
    "spread.join_within_a_time_with_a_side_output": Difference(
        "`MapState.is_empty()` is true when every entry was removed",
        gives=[
            "\"('b', 6)\"",
            "'a [1, 2]'",
            "'a [2, 3]'",
            "'a at 6 [False, False]'",
            "'a at 7 [False, True]'",
            "'a at 8 [True, True]'",
            "'b at 7 [True, True]'",
            "'c at 9 [True, True]'",
        ],
    ),
}
