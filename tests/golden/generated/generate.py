"""Makes descriptions of random pipelines for pipelines.py, the same ones for the same seed."""

from __future__ import annotations

import json
import random

KINDS = ["T", "R", "U", "S", "I", "D", "B", "L", "M", "W", "N", "O"]
OF_KEY = ["T", "R", "U", "S", "L", "M", "W", "N", "O"]  # kinds that keep the key
KEYS = [
    "k",
    "k",
    "k",
    "mod",
    "int",
    "one",
    "bool",
    "half",
    "pair",
    "row",
    "named",
    "date",
    "stamp",
    "dec",
    "list",
]
CHANGES = ["same", "more", "less", "twice", "turn", "few", "big", "earlier"]
REDUCES = ["add", "last", "first", "max", "mix"]
MODES = ["paced", "paced", "paced", "whole", "batch"]  # of the jobs, in turns
STATE_TYPES = [
    "LONG",
    "STRING",
    "DOUBLE",
    "BOOLEAN",
    "TUPLE",
    "ROW",
    "LIST",
    "MAP",
    "ANY",
    "DEC",
    "DATE",
    "BYTES",
]
MAP_KEYS = ["LONG", "STRING", "TUPLE", "BOOLEAN", "DOUBLE", "DATE", "DEC"]
USES = {
    "value": ["get", "put", "clear"],
    "list": ["get", "each", "add", "add", "add_all", "put", "empty", "add_none", "clear"],
    "map": ["get", "one", "has", "keys", "values", "each", "add", "put", "add_all", "remove", "clear"],
    "reducing": ["get", "add", "add", "clear"],
    "aggregating": ["get", "add", "add", "clear"],
}

ROLLED = {"T": [1, 2], "R": ["t", 2, "t"], "U": [1, 2], "N": ["t", "n", 2, 1]}


class Maker:
    """Makes one pipeline.

    Args:
        seed: of the pipeline's own.
        mode: "paced", each element with its watermark; "whole", none before the end; "batch", BATCH mode.
        shared: what pipelines of one job share: elements, time.
    """

    kinds, keys, state_types, map_keys, uses = KINDS, KEYS, STATE_TYPES, MAP_KEYS, USES
    rolled = ROLLED

    def __init__(self, seed, mode, shared):
        self.random = random.Random(seed)
        self.mode = mode
        self.seed = seed
        self.timed = shared["time"] is not None
        self.ordered = shared["ordered"]  # times never go back: sessions never bridge two others
        self.shared = shared
        self.single = True  # at most one element of the source is under way at a time
        self.kind = "T"
        self.ended = False

    def chance(self, share):
        return self.random.random() < share

    def one(self, values):
        return self.random.choice(values)

    def make(self):
        kind = "T" if self.mode == "paced" else self.one(self.kinds)
        self.kind = kind
        described = {
            "id": self.seed,
            "mode": self.mode,
            "elements": self.shared["elements"],
            "time": self.shared["time"],
            "kind": kind,
            "typed": self.chance(0.8),
        }
        steps = []
        for _ in range(self.random.randint(1, 4)):
            step = self.step()
            steps.append(step)
            if self.ended:
                break
        described["steps"] = steps
        if self.chance(0.15):
            described["end"] = "print"
        return described

    def into(self):
        """Kind and type of a step's results."""
        self.kind = self.one(self.kinds)
        return {"kind": self.kind, "typed": self.chance(0.7)}

    def step(self):
        weights = self.weights()
        what = self.random.choices(list(weights), list(weights.values()))[0]
        return getattr(self, f"_{what}")({"op": what})

    def weights(self):
        weights = {
            "map": 3, "flat_map": 2, "filter": 1, "mutate": 1, "partition": 1, "project": 1, "process": 2,
            "keyed": 8, "state_map": 1, "state_flat_map": 1, "state_filter": 1, "reduce": 2, "rolling": 3, "window": 8,
            "count_window": 2, "window_all": 2, "assign": 1,
        }  # fmt: skip
        if self.mode == "paced" and self.single:
            weights |= {"union": 2, "connect": 5, "broadcast": 4}
        if self.mode == "batch":
            weights["window_all"] = 0
        if not self.timed:
            weights |= {"assign": 0}
        if self.kind != "T":
            weights["project"] = 0
        return weights

    def _map(self, step):
        return step | {"f": self.one(CHANGES), "style": self.one(["", "class", "callable"])} | self.into()

    def _flat_map(self, step):
        self.single = False
        style = self.one(["", "class", "list", "tuple"])
        return step | {"f": self.one(CHANGES), "times": self.one([2, 3, 4]), "style": style} | self.into()

    def _filter(self, step):
        return step | {"by": self.one([2, 3, 4]), "style": self.one(["", "class", "callable"])}

    def _mutate(self, step):
        return (
            step | {"kind": self.kind, "typed": self.chance(0.7)}
            if self.kind in "LMRNU"
            else self._filter({"op": "filter"})
        )

    def _partition(self, step):
        return step | {"how": self.one(["rebalance", "rescale", "shuffle", "broadcast", "forward"])}

    def _project(self, step):
        self.kind = "T"
        return step | {"fields": [0, 1, 2]}

    def _assign(self, step):
        self.ordered = False
        return step | {
            "time": self.one([["monotonous"], ["bounded", 200]]),
            "shift": self.one([0, 1000, -50]),
        }

    def key(self):
        return {
            "key": self.one(self.keys),
            "typed_key": self.chance(0.7),
            "style": self.one(["", "class", "callable"]),
        }

    # -- scripts

    def states(self):
        states = {}
        for number in range(self.random.randint(0, 3)):
            kind = self.one(list(USES))
            state = {"kind": kind, "of": self.one(self.state_types)}
            if kind == "reducing":
                state |= {"of": "LONG", "f": self.one(REDUCES)}
            if kind == "aggregating":
                state["of"] = self.one(["TUPLE", "ANY"])
            if kind == "map":
                state["key"] = self.one(self.map_keys)
            if self.chance(0.15):
                state["ttl"] = self.one(["write", "read", "full"])
            states[f"s{number}"] = state
        return states

    def statements(self, step, depth=0, timers=False, firing=False, keyed=True):
        found = []
        for _ in range(self.random.randint(1, 4)):
            weights = {
                "use": 8 * bool(step["states"]),
                "if": 2 * (depth < 2),
                "timer": 3 * timers,
                "delete": timers and self.mode == "paced",
                "when": keyed is not None,
                "key": bool(keyed),
                "give": 1,
                "aside": bool(step.get("side")),
            }
            what = self.random.choices(list(weights), list(weights.values()))[0]
            if what == "use":
                name = self.one(list(step["states"]))
                found.append(["use", name, self.one(self.uses[step["states"][name]["kind"]])])
            elif what == "if":
                by = self.one([2, 3])
                inner = self.statements(step, depth + 1, timers, firing, keyed)
                found.append(["if", by, self.random.randrange(by), inner])
            elif what in ("timer", "delete"):
                ahead = self.one([1, 50, 100, 300, 300, 1000])
                if not firing and self.chance(0.15):
                    ahead = self.one([0, -1, -100])
                found.append([what, ahead, self.one([0, 0, 100, 500])])
            else:
                found.append([what])
        if (depth == 0 and not firing) or self.chance(0.3):
            found.append(["give"])
        return found

    def script(self, step, timers=True, keyed=True):
        timers = timers and self.timed
        step["states"] = self.states() if keyed or keyed is None else {}
        if self.chance(0.2) and keyed is not None:
            step["side"] = self.one(["typed", "untyped"])
            step["takes"] = "both" if self.mode == "paced" and self.chance(0.3) else "side"
        step |= self.into()
        step["element"] = self.statements(step, timers=timers, keyed=keyed)
        if timers:
            step["timer"] = [*self.statements(step, firing=True), ["give"]]
            step["domain"] = self.chance(0.3)
        if step.get("takes") == "both":
            self.ended = True
        elif step.get("side"):
            step["element"].append(["aside"])
            self.kind = "W"
        self.single = False
        return step

    def _process(self, step):
        return self.script(step, timers=False, keyed=False)

    def _keyed(self, step):
        return self.script(step | self.key())

    def _state_map(self, step):
        step = self.script(step | self.key(), timers=False, keyed=None)
        step["element"] = [each for each in step["element"] if each[0] != "give"]
        return step

    _state_filter = _state_map

    def _state_flat_map(self, step):
        return self.script(step | self.key(), timers=False, keyed=None)

    def _state_filter(self, step):
        kind = self.kind
        step = self._state_map(step)
        self.kind = kind
        return step

    def _reduce(self, step):
        return step | self.key() | {"f": self.one(REDUCES), "kind": self.kind}

    def _rolling(self, step):
        if self.kind not in self.rolled:
            return self._reduce({"op": "reduce"})
        fields = self.rolled[self.kind]
        how = self.one(["sum", "min", "max", "min_by", "max_by"])
        if self.kind == "N" and how == "sum":
            how = "max"
        return step | self.key() | {"how": how, "field": self.one(fields)}

    # -- windows

    def trigger(self, timed):
        found = self.one([
            ["count", self.one([1, 2, 3])],
            ["purging", ["count", 2]],
            ["scripted", self.one([1, 2, 3]), self.one(["FIRE", "FIRE_AND_PURGE", "PURGE", "CONTINUE"]),
             self.one([None, 0, 100, 250]) if timed else None, self.one(["FIRE", "FIRE_AND_PURGE", "CONTINUE", "PURGE"])],
        ])  # fmt: skip
        if timed and self.chance(0.4):
            found = self.one([["purging", ["event"]], ["event"]])
        return found

    def windowed(self, step, timed):
        step["input"] = self.kind
        if step["windows"] == ["global"] or self.chance(0.3):
            step["trigger"] = self.trigger(timed)
            timed_trigger = any(each in json.dumps(step["trigger"]) for each in ("event", "continuous"))
            if step["windows"][0] == "global" and timed_trigger:
                step["trigger"] = ["count", 2]
        if timed and self.chance(0.4):
            step["lateness"] = self.one([100, 500, 10_000])
        hows = ["reduce", "reduce_process", "aggregate", "aggregate_process", "process", "process", "apply"]
        step["how"] = self.one(hows)
        step["f"], step["style"] = self.one(REDUCES), step.get("style", "")
        step["told"] = self.one(["", "watermark", "state"]) if step["op"] != "window_all" else ""
        if timed and step["windows"][0] in ("session", "dynamic"):
            step["told"] = step["told"].replace("state", "")
        if timed and self.chance(0.25):
            step["late"] = self.one(["typed", "untyped"])
            self.ended = True
        before = self.kind
        step |= self.into()
        if step["how"] == "reduce":
            self.kind = step["kind"] = before
        self.single = False
        self.ordered = False
        return step

    def assigner(self):
        if not self.timed:
            return ["global"]
        kinds = [
            ["tumbling", self.one([100, 250, 500, 1000])],
            ["tumbling", 500, self.one([0, 20, 100])],
            ["sliding", 500, self.one([100, 250, 500])],
            ["sliding", 300, 200],
            ["sliding", 200, 300],
            ["sliding", 400, 200, 50],
            ["global"],
        ]
        if self.ordered and self.single:
            kinds += [["session", self.one([50, 100, 101, 300])], ["dynamic"]] * 3
        return self.one(kinds)

    def _window(self, step):
        return self.windowed(step | self.key() | {"windows": self.assigner()}, self.timed)

    def _count_window(self, step):
        return self.windowed(
            step | self.key() | {"windows": self.one([[1], [2], [3], [3, 1], [2, 3], [4, 2]])}, False
        )

    def _window_all(self, step):
        return self.windowed(step | {"windows": self.assigner()}, self.timed)

    # -- two inputs

    def _union(self, step):
        return step | {"f": self.one(CHANGES), "g": self.one(CHANGES)} | self.into()

    def _connect(self, step):
        step |= self.key() | {
            "f": self.one(CHANGES),
            "g": self.one(CHANGES),
            "how": self.one(["map", "flat_map", "process", "process", "process"]),
        }
        step["keyed"] = self.one([None, "both", "after", "both"])
        keyed = bool(step["keyed"])
        if step["how"] == "process":
            step = self.script(step, timers=keyed, keyed=keyed)
            step["other"] = self.statements(step, timers=keyed and self.timed, keyed=keyed)
            return step
        self.single = self.single and step["how"] == "map"
        return step | self.into()

    def _broadcast(self, step):
        step |= self.key()
        step["keyed"] = self.chance(0.7)
        step = self.script(step, timers=step["keyed"], keyed=step["keyed"])
        return step | {"rules": self.one(["LONG", "STRING", "TUPLE"]), "tells": self.chance(0.7)}


class MoreMaker(Maker):
    """Makes what Maker does not: seeds that tests have chosen stay the pipelines that they were."""

    kinds = (*KINDS, "K", "V")
    keys = (*KEYS, "deep", "nest", "kinded", "time", "short", "real")
    state_types = (*STATE_TYPES, "KIND", "DEEP", "LISTS", "TIME", "STAMP", "NEST", "INTS")
    map_keys = (*MAP_KEYS, "NEST", "TIME", "STAMP", "BYTES")
    uses = USES | {
        "list": [*USES["list"], "trim", "grow"],
        "map": [*USES["map"], "drain", "rewrite", "put_all"],
    }
    rolled = ROLLED | {"K": ["n", "t", 1], "V": ["n", 2]}
    apart = False  # within a branch, whose elements others follow

    def weights(self):
        found = super().weights()
        if self.mode == "paced" and self.single:
            found |= {"branches": 6, "meet": 6}
        return found

    def key(self):
        return super().key() | {"again": self.chance(0.1)}

    def trigger(self, timed):
        found = super().trigger(timed)
        continuous = timed and self.mode == "paced" and self.chance(0.3)
        return ["continuous", self.one([50, 100, 300])] if continuous else found

    def windowed(self, step, timed):
        step = super().windowed(step, timed)
        if step["op"] != "window_all" and step["how"].endswith("process") and self.chance(0.3):
            step["aside"] = self.ended = True
        if "continuous" in json.dumps(step.get("trigger")):
            self.ended = True  # PyFlink's end of the input has the timers that it sets behind all others
        if self.apart:
            step.pop("late", None), step.pop("aside", None)
            self.ended = False
        return step

    def script(self, step, timers=True, keyed=True):
        step = super().script(step, timers, keyed)
        if step.get("takes") == "both" and self.apart:
            step["takes"], self.kind, self.ended = "side", "W", False
        elif step.get("takes") == "both" and self.chance(0.6):
            step["other_kind"] = self.one(self.kinds)
            step["element"].append(["other"])
        return step

    def _connect(self, step):
        step = super()._connect(step)
        if step["keyed"] and step["how"] != "process":
            gives = step["how"] == "flat_map"
            step |= {"how": f"state_{step['how']}", "states": self.states()}
            for name in ("element", "other"):
                found = self.statements(step, keyed=None)
                step[name] = [each for each in found if each[0] != "when" and (gives or each[0] != "give")]
            self.single = False
        return step

    def _broadcast(self, step):
        return super()._broadcast(step) | {"counts": self.chance(0.4)}

    def halves(self, step, whats):
        kind, self.apart = self.kind, True
        for name in ("left", "right"):
            self.kind, self.single, step[name] = kind, True, []
            for _ in range(self.random.randint(1, 2)):
                what = self.one(whats)
                step[name].append(getattr(self, f"_{what}")({"op": what}))
        self.apart = False
        return step

    def _branches(self, step):
        """Two streams, each with steps of its own, that become one again; in what order is left open."""
        step = self.halves(
            step,
            ["keyed", "state_map", "state_flat_map", "reduce", "rolling", "window", "count_window", "filter"],
        )
        self.ended = True
        return step | self.into()

    def _meet(self, step):
        """Two streams with steps of their own that give something for elements alone, connected by a key."""
        step = self.halves(step, ["state_map", "state_flat_map", "reduce", "rolling", "map", "count_window"])
        step = self.script(step | self.key())
        step["other"] = self.statements(step, timers=self.timed)
        return step


def shared(seed, mode):
    """What pipelines of one job have in common."""
    chance = random.Random(seed)
    ordered = chance.random() < 0.5
    times = [
        chance.randrange(0, 2000) // 10 * 10
        for _ in range(10 if mode == "paced" else chance.choice([5, 12, 40]))
    ]
    if ordered:
        times.sort()
    elements = [[chance.choice(["a", "b", "c", "é"]), chance.randrange(-3, 30), at] for at in times]
    strategy = chance.choice([["monotonous"], ["bounded", 100], ["bounded", 400]])
    return {"elements": elements, "time": strategy if chance.random() < 0.9 else None, "ordered": ordered}


def group(seed, mode, size):
    """Descriptions of a job's pipelines."""
    common = shared(seed, mode)
    return [MoreMaker(seed * 1000 + number, mode, common).make() for number in range(size)]
