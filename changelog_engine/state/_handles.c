/* The calls of state/handles_in_c.py, compiled: what state handles and timers do for each record. Each stands for a function
   in Python, its reference, and is made of the reference and of its parts, which Python gives by name.

   Invariants:
       * The table is a dict, and the log's columns are lists. Nothing of another kind comes here. Of a BUFFERED table the dict
         has those entries that wait to be written, None for removed ones: a key that is in it may have its entry set there,
         all others are the table's own to find and to set.
       * What is not as expected is left to the reference, before anything has changed and before a user's function was
         called: other arguments than the method has, values that do not fit, map keys of other classes.
       * A mutation is in the log before the table changes. What is raised between the two, the guard knows: signals and want
         of stack come where Python code runs in between.
       * Whatever is used after a call that may run Python code is held.
       * Only documented functions of CPython are called; where cursors have their key is asked of their __slots__. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <limits.h>
#include <time.h>

#ifndef SOURCE
#error "SOURCE is the checksum of this file, as setup.py gives it and the loader compares it"
#endif

/* The names under which Python gives the parts of a call (state/compiled_handles.py). */
#define PARTS(PART) \
    PART(TABLE, "table") PART(CURSOR, "cursor") \
    PART(LOG_KEYS, "log_keys") PART(LOG_VALUES, "log_values") PART(LOG_MAP_KEYS, "log_map_keys") \
    PART(LOG_OPERATIONS, "log_operations") PART(LOG_TIMES, "log_times") \
    PART(FIRST_OPERATION, "first_operation") PART(NEXT_OPERATION, "next_operation") PART(CLEARED, "CLEARED") \
    PART(EXACT, "exact") PART(EXACT_KEY, "exact_key") \
    PART(PLAIN, "plain") PART(FITS, "fits") PART(ADMIT, "admit") PART(PRESENT, "present") \
    PART(COPY, "copy") PART(QUICK_COPY, "quick_copy") PART(COPY_OUT, "copy_out") \
    PART(CELL_VALUE, "cell_value") PART(CELL_UPDATE, "cell_update") \
    PART(REDUCE, "reduce") PART(FUNCTION, "function") PART(ACCUMULATED, "accumulated") PART(CLEAR, "clear") \
    PART(GUARD, "guard") PART(BUFFERED, "buffered") PART(GET_ENTRY, "get_entry") PART(ADDED, "added") PART(ADD, "add") \
    PART(CLOCK, "clock") PART(TTL_MS, "ttl_ms") PART(RENEW, "renew") PART(SWEEP, "sweep")
#define AS_PLACE(place, name) place,
#define AS_NAME(place, name) name,

enum { PARTS(AS_PLACE) PART_COUNT };
static const char *const part_names[] = {PARTS(AS_NAME)};

typedef struct Call Call;

/* Does what a call is for; NULL without an exception leaves it to the reference. */
typedef PyObject *(*Function)(Call *call, PyObject *const *arguments);

struct Call {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Function function;
    Py_ssize_t count; /* of the arguments, the handle included */
    PyObject *reference;
    PyObject *parts[PART_COUNT]; /* NULL where the reference has None, or nothing */
    /* A test of values that needs no call: the class, and of ints the bounds. */
    PyTypeObject *wanted;
    int bounded;
    long long low, high;
};

static PyTypeObject *cursor_type, *timers_type;
static Py_ssize_t key_offset, timestamp_offset, until_offset;
static PyObject *key_name, *timestamp_name, *until_name, *append_name, *add_name, *create_name, *unfinished_name, *due_name, *zero;

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define HAS(call, part) ((call)->parts[part] != NULL)

/* A new reference to an attribute that is a slot in one class, and anything in others. */
static inline PyObject *
slot_of(PyObject *object, PyTypeObject *class, Py_ssize_t offset, PyObject *name)
{
    if (Py_IS_TYPE(object, class)) {
        PyObject *found = SLOT(object, offset);
        if (found != NULL) {
            return Py_NewRef(found);
        }
    }
    return PyObject_GetAttr(object, name);
}

static inline PyObject *
key_of(const Call *call)
{
    return slot_of(call->parts[CURSOR], cursor_type, key_offset, key_name);
}

/* What all calls do: arguments that are as many as the method has, all by their places, go to the function. */
static PyObject *
called(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names)
{
    Call *call = (Call *)self;
    int usual = PyVectorcall_NARGS(flags) == call->count && (names == NULL || PyTuple_GET_SIZE(names) == 0);
    PyObject *found = usual ? call->function(call, arguments) : NULL;
    return found != NULL || PyErr_Occurred() ? found : PyObject_Vectorcall(call->reference, arguments, flags, names);
}

/* Borrows what the table has of a key; NULL where it has nothing, or with an exception. */
static inline PyObject *
entry_of(const Call *call, PyObject *key)
{
    PyObject *entry = PyDict_GetItemWithError(call->parts[TABLE], key);
    return entry == Py_None ? NULL : entry;
}

/* A new reference to what a table has of a key, wherever it lies; NULL as with entry_of. */
static inline PyObject *
entry_anywhere(const Call *call, PyObject *key)
{
    PyObject *entry = entry_of(call, key);
    if (entry == NULL && HAS(call, BUFFERED) && !PyErr_Occurred()) {
        entry = PyObject_CallOneArg(call->parts[GET_ENTRY], key);
        if (entry == Py_None) {
            Py_CLEAR(entry);
        }
        return entry;
    }
    return Py_XNewRef(entry);
}

/* A new reference to what the dict has of the current key; NULL as with entry_of. */
static inline PyObject *
current_entry(const Call *call)
{
    PyObject *key = key_of(call), *entry = key == NULL ? NULL : Py_XNewRef(entry_of(call, key));
    Py_XDECREF(key);
    return entry;
}

/* Whether the table has nothing where the dict had nothing. */
static inline int
is_absent(const Call *call)
{
    return !PyErr_Occurred() && !HAS(call, BUFFERED);
}

/* The value that a call of a part gives for one, which it takes over. */
static PyObject *
through(const Call *call, int part, PyObject *value)
{
    PyObject *found = PyObject_CallOneArg(call->parts[part], value);
    Py_DECREF(value);
    return found;
}

/* Set the entry of a key; 0, or -1 with an exception. */
static inline int
set_entry(const Call *call, PyObject *key, PyObject *entry)
{
    PyObject *table = call->parts[TABLE];
    if (HAS(call, BUFFERED)) {
        int waits = PyDict_Contains(table, key);
        if (waits <= 0) {
            return waits < 0 ? -1 : PyObject_SetItem(call->parts[BUFFERED], key, entry);
        }
    }
    return PyDict_SetItem(table, key, entry);
}

/* Remove what a call has found in the dict. */
static inline int
remove_entry(const Call *call, PyObject *key)
{
    PyObject *table = call->parts[TABLE];
    return HAS(call, BUFFERED) ? PyDict_SetItem(table, key, Py_None) : PyDict_DelItem(table, key);
}

/* Log a mutation, where there is a log; 0, or -1 with an exception. */
static inline int
log_mutation(const Call *call, PyObject *key, PyObject *map_key, PyObject *value, PyObject *operation)
{
    PyObject *const *parts = call->parts;
    if (parts[LOG_KEYS] == NULL) {
        return 0;
    }
    if (PyList_Append(parts[LOG_KEYS], key) < 0
        || (parts[LOG_MAP_KEYS] != NULL && PyList_Append(parts[LOG_MAP_KEYS], map_key) < 0)
        || PyList_Append(parts[LOG_VALUES], value) < 0
        || (parts[LOG_OPERATIONS] != NULL && PyList_Append(parts[LOG_OPERATIONS], operation) < 0)) {
        return -1;
    }
    if (parts[LOG_TIMES] != NULL) {
        PyObject *time = slot_of(parts[CURSOR], cursor_type, timestamp_offset, timestamp_name);
        int logged = time == NULL ? -1 : PyList_Append(parts[LOG_TIMES], time);
        Py_XDECREF(time);
        return logged;
    }
    return 0;
}

#ifdef __GNUC__
#define RARE __attribute__((cold, noinline))
#else
#define RARE
#endif

/* Tell the guard what was raised in the middle of a change, which goes on. Calls no Python code. */
RARE static void
tell_unfinished(const Call *call)
{
    if (!HAS(call, GUARD)) {
        return;
    }
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *error = PyErr_GetRaisedException();
    if (error != NULL && PyObject_SetAttr(call->parts[GUARD], unfinished_name, error) < 0) {
        PyErr_Clear();
    }
    PyErr_SetRaisedException(error);
#else
    PyObject *class, *error, *traceback;
    PyErr_Fetch(&class, &error, &traceback);
    PyErr_NormalizeException(&class, &error, &traceback);
    if (error != NULL && PyObject_SetAttr(call->parts[GUARD], unfinished_name, error) < 0) {
        PyErr_Clear();
    }
    PyErr_Restore(class, error, traceback);
#endif
}

/* Log a value of the current key, and put it into the table; takes it over, and NULL with an exception goes through. */
static int
put_value(const Call *call, PyObject *value)
{
    PyObject *key = value == NULL ? NULL : key_of(call);
    int put = -1;
    if (key != NULL && log_mutation(call, key, NULL, value, call->parts[FIRST_OPERATION]) == 0) {
        put = set_entry(call, key, value);
    }
    if (put < 0 && key != NULL) {
        tell_unfinished(call);
    }
    Py_XDECREF(key);
    Py_XDECREF(value);
    return put;
}

static PyObject *
none_of(int done)
{
    if (done < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Whether a predicate of the state's values is true of one: 1, 0, -1 with an exception. */
static inline int
passes(const Call *call, int predicate, PyObject *value)
{
    if (call->wanted != NULL) {
        if (!Py_IS_TYPE(value, call->wanted)) {
            return 0;
        }
        if (call->bounded) {
            int overflow;
            long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
            return !overflow && number >= call->low && number <= call->high;
        }
        return 1;
    }
    PyObject *answer = PyObject_CallOneArg(call->parts[predicate], value);
    int truth = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return truth;
}

static inline int
is_exact(const Call *call, int part, PyObject *value)
{
    return (PyObject *)Py_TYPE(value) == call->parts[part];
}

/* What is kept of a value that was given: a private copy of a mutable one. NULL without an exception where it does not fit. */
static PyObject *
kept_of(const Call *call, PyObject *value)
{
    if (HAS(call, QUICK_COPY)) {
        PyObject *copy = PyObject_CallOneArg(call->parts[QUICK_COPY], value);
        if (copy == Py_None) {
            Py_CLEAR(copy);
        }
        return copy;
    }
    int fits = value == Py_None ? 0 : passes(call, FITS, value);
    if (fits <= 0) {
        return NULL;
    }
    return HAS(call, COPY) ? PyObject_CallOneArg(call->parts[COPY], value) : Py_NewRef(value);
}

/* value() */
static PyObject *
cell_value(Call *call, PyObject *const *arguments)
{
    PyObject *found = current_entry(call);
    if (found == NULL) {
        return is_absent(call) ? Py_NewRef(Py_None) : NULL;
    }
    return HAS(call, COPY_OUT) ? through(call, COPY_OUT, found) : found;
}

/* update(value) of immutable values */
static PyObject *
cell_update(Call *call, PyObject *const *arguments)
{
    PyObject *value = arguments[1];
    if (!is_exact(call, EXACT, value)) {
        int fits = value == Py_None || !HAS(call, PLAIN) ? 0 : passes(call, PLAIN, value);
        if (fits <= 0) {
            return NULL;
        }
    }
    return none_of(put_value(call, Py_NewRef(value)));
}

/* Whether an object is an int of 64 bits, and which. */
static inline int
whole_of(PyObject *object, long long *number)
{
    int overflow = 1;
    if (PyLong_CheckExact(object)) {
        *number = PyLong_AsLongLongAndOverflow(object, &overflow);
    }
    return !overflow;
}

/* The time of an access to state with a time to live, also as a number. NULL without an exception where the reference has to
   look: something may have expired that the access cleans up first. */
static PyObject *
access_time(const Call *call, long long *now)
{
    PyObject *time = PyObject_CallNoArgs(call->parts[CLOCK]);
    int usual = time != NULL && whole_of(time, now);
    if (usual && HAS(call, SWEEP)) {
        long long due_ms;
        PyObject *due = PyObject_GetAttr(call->parts[SWEEP], due_name);
        usual = due != NULL && whole_of(due, &due_ms) && *now < due_ms;
        Py_XDECREF(due);
    }
    if (!usual) {
        Py_CLEAR(time);
    }
    return time;
}

/* value() of immutable values with a time to live, which lie in pairs with the time of the last access */
static PyObject *
expiring_value(Call *call, PyObject *const *arguments)
{
    long long now, since, ttl;
    PyObject *time = access_time(call, &now), *found = NULL;
    PyObject *entry = time == NULL ? NULL : current_entry(call);
    if (entry == NULL) {
        found = time != NULL && is_absent(call) ? Py_NewRef(Py_None) : NULL;
    }
    else if (PyTuple_CheckExact(entry) && PyTuple_GET_SIZE(entry) == 2 && whole_of(PyTuple_GET_ITEM(entry, 0), &since)
             && whole_of(call->parts[TTL_MS], &ttl) && since <= LLONG_MAX - ttl && since + ttl > now) {
        found = Py_NewRef(PyTuple_GET_ITEM(entry, 1));
        if (HAS(call, RENEW) && since != now && put_value(call, PyTuple_Pack(2, time, found)) < 0) {
            Py_CLEAR(found);
        }
    }
    Py_XDECREF(entry);
    Py_XDECREF(time);
    return found;
}

/* update(value) of immutable values with a time to live */
static PyObject *
expiring_update(Call *call, PyObject *const *arguments)
{
    long long now;
    int fits = arguments[1] != Py_None ? passes(call, FITS, arguments[1]) : 0;
    PyObject *time = fits > 0 ? access_time(call, &now) : NULL;
    if (time == NULL) {
        return NULL;
    }
    int done = put_value(call, PyTuple_Pack(2, time, arguments[1]));
    Py_DECREF(time);
    return none_of(done);
}

/* update(value) of mutable values */
static PyObject *
copying_update(Call *call, PyObject *const *arguments)
{
    PyObject *kept = kept_of(call, arguments[1]);
    if (kept == NULL) {
        return NULL;
    }
    return none_of(put_value(call, kept));
}

/* clear() of what is not a map */
static PyObject *
clear_entry(Call *call, PyObject *const *arguments)
{
    PyObject *key = key_of(call);
    if (key == NULL) {
        return NULL;
    }
    PyObject *entry = Py_XNewRef(entry_of(call, key));
    int done = entry == NULL && !is_absent(call) ? 1 : 0; /* 1: it may lie elsewhere, or an exception */
    if (entry != NULL) {
        done = log_mutation(call, key, NULL, call->parts[CLEARED], call->parts[FIRST_OPERATION]);
        done = done < 0 ? done : remove_entry(call, key);
        if (done < 0) {
            tell_unfinished(call);
        }
        Py_DECREF(entry);
    }
    Py_DECREF(key);
    return done > 0 ? NULL : none_of(done);
}

/* The value before, None where there is none; a new reference. */
static PyObject *
value_before(const Call *call)
{
    if (HAS(call, CELL_VALUE)) {
        return PyObject_CallNoArgs(call->parts[CELL_VALUE]);
    }
    PyObject *key = key_of(call), *found = key == NULL ? NULL : entry_anywhere(call, key);
    if (found == NULL && !PyErr_Occurred()) {
        found = Py_NewRef(Py_None);
    }
    Py_XDECREF(key);
    return found;
}

/* Give a value to the cell: its method where it has one of its own. Takes the value over. */
static int
give_to_cell(const Call *call, PyObject *value)
{
    if (!HAS(call, CELL_UPDATE)) {
        return put_value(call, value);
    }
    PyObject *given = value == NULL ? NULL : PyObject_CallOneArg(call->parts[CELL_UPDATE], value);
    Py_XDECREF(value);
    Py_XDECREF(given);
    return given == NULL ? -1 : 0;
}

/* A value as reducing state wants it, of one that it takes over; NULL with an exception. */
static PyObject *
reduced(const Call *call, PyObject *value)
{
    if (HAS(call, FITS)) {
        int fits = value == Py_None ? 0 : passes(call, FITS, value);
        if (fits > 0) {
            return value;
        }
        if (fits < 0) {
            Py_DECREF(value);
            return NULL;
        }
        return through(call, PRESENT, value);
    }
    if (is_exact(call, EXACT, value)) {
        return value;
    }
    if (value == Py_None) {
        return through(call, PRESENT, value); /* which raises */
    }
    int fits = HAS(call, PLAIN) ? passes(call, PLAIN, value) : 0;
    if (fits > 0) {
        return value;
    }
    if (fits < 0) {
        Py_DECREF(value);
        return NULL;
    }
    return through(call, ADMIT, value);
}

/* add(value) of reducing state: whether nothing was there before, -1 with an exception. */
static int
reducing_added(const Call *call, PyObject *value)
{
    PyObject *before = value_before(call);
    if (before == NULL) {
        return -1;
    }
    int first = before == Py_None;
    if (first) {
        Py_INCREF(value);
    }
    else {
        PyObject *both[] = {NULL, before, value};
        value = PyObject_Vectorcall(call->parts[REDUCE], both + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    Py_DECREF(before);
    value = value == NULL ? NULL : reduced(call, value);
    return give_to_cell(call, value) < 0 ? -1 : first;
}

/* add(value) of aggregating state, likewise */
static int
aggregating_added(const Call *call, PyObject *value)
{
    PyObject *before = value_before(call), *function = call->parts[FUNCTION];
    int first = before == Py_None;
    if (first) {
        Py_SETREF(before, PyObject_CallMethodNoArgs(function, create_name));
    }
    if (before == NULL) {
        return -1;
    }
    PyObject *all[] = {function, value, before};
    value = PyObject_VectorcallMethod(add_name, all, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (value == Py_None) {
        PyObject *after = PyObject_CallFunction(call->parts[ACCUMULATED], "OOs", before, value, "add");
        Py_CLEAR(value);
        if (after != NULL && !HAS(call, CELL_UPDATE)) {
            Py_SETREF(after, PyObject_CallNoArgs(call->parts[CLEAR]));
            Py_XDECREF(after);
            Py_DECREF(before);
            return after == NULL ? -1 : first;
        }
        Py_XDECREF(after);
        value = after == NULL ? NULL : Py_NewRef(Py_None);
    }
    else if (value != NULL && !HAS(call, CELL_UPDATE) && !is_exact(call, EXACT, value)) {
        int fits = HAS(call, PLAIN) ? passes(call, PLAIN, value) : 0;
        if (fits < 0) {
            Py_CLEAR(value);
        }
        else if (fits == 0) {
            value = through(call, ADMIT, value);
        }
    }
    Py_DECREF(before);
    return give_to_cell(call, value) < 0 ? -1 : first;
}

/* add(value) of a list, likewise */
static int
list_added(const Call *call, PyObject *value)
{
    PyObject *kept = kept_of(call, value);
    if (kept == NULL && !PyErr_Occurred()) {
        kept = PyObject_CallOneArg(call->parts[PRESENT], value);
        if (kept != NULL && HAS(call, COPY)) {
            kept = through(call, COPY, kept);
        }
    }
    PyObject *key = kept == NULL ? NULL : key_of(call);
    int first = -1;
    if (key != NULL && log_mutation(call, key, NULL, kept, call->parts[NEXT_OPERATION]) == 0) {
        PyObject *entry = entry_anywhere(call, key);
        if (entry != NULL) {
            first = 0;
        }
        else if (!PyErr_Occurred() && (entry = PyList_New(0)) != NULL) {
            first = 1;
        }
        if (first >= 0) {
            int appended = PyList_CheckExact(entry) ? PyList_Append(entry, kept) : -1;
            if (appended < 0 && !PyErr_Occurred()) {
                PyObject *done = PyObject_CallMethodOneArg(entry, append_name, kept);
                appended = done == NULL ? -1 : 0;
                Py_XDECREF(done);
            }
            if (appended == 0 && (first || HAS(call, BUFFERED))) {
                appended = set_entry(call, key, entry);
            }
            first = appended < 0 ? -1 : first;
        }
        Py_XDECREF(entry);
    }
    if (key != NULL && first < 0) {
        tell_unfinished(call);
    }
    Py_XDECREF(key);
    Py_XDECREF(kept);
    return first;
}

#define ADDING(name) \
    static PyObject *name##_add(Call *call, PyObject *const *arguments) \
    { \
        return none_of(name##_added(call, arguments[1])); \
    } \
    static PyObject *name##_begins(Call *call, PyObject *const *arguments) \
    { \
        int first = name##_added(call, arguments[1]); \
        return first < 0 ? NULL : PyBool_FromLong(first); \
    }

ADDING(reducing)
ADDING(aggregating)
ADDING(list)

/* get() of a list */
static PyObject *
list_get(Call *call, PyObject *const *arguments)
{
    PyObject *entry = current_entry(call), *found = NULL;
    if (entry == NULL) {
        return is_absent(call) ? PyList_New(0) : NULL;
    }
    if (PyList_CheckExact(entry)) {
        found = PyList_GetSlice(entry, 0, PyList_GET_SIZE(entry));
    }
    Py_DECREF(entry);
    for (Py_ssize_t index = 0; found != NULL && HAS(call, COPY_OUT) && index < PyList_GET_SIZE(found); index++) {
        PyObject *copy = PyObject_CallOneArg(call->parts[COPY_OUT], PyList_GET_ITEM(found, index));
        if (copy == NULL || PyList_SetItem(found, index, copy) < 0) {
            Py_CLEAR(found);
        }
    }
    return found;
}

/* A new list of what is kept of some values; NULL without an exception where one does not fit, or there is none. */
static PyObject *
all_kept(const Call *call, PyObject *values)
{
    PyObject *given, *all;
    if ((!PyList_CheckExact(values) && !PyTuple_CheckExact(values)) || PySequence_Fast_GET_SIZE(values) == 0) {
        return NULL;
    }
    given = PySequence_List(values);
    all = given == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t index = 0; all != NULL && index < PyList_GET_SIZE(given); index++) {
        PyObject *kept = kept_of(call, PyList_GET_ITEM(given, index));
        if (kept == NULL || PyList_Append(all, kept) < 0) {
            Py_CLEAR(all);
        }
        Py_XDECREF(kept);
    }
    Py_XDECREF(given);
    return all;
}

/* update(values) of a list */
static PyObject *
list_update(Call *call, PyObject *const *arguments)
{
    PyObject *all = all_kept(call, arguments[1]);
    if (all == NULL) {
        return NULL;
    }
    PyObject *key = key_of(call);
    int done = key == NULL ? -1 : 0;
    for (Py_ssize_t index = 0; done == 0 && index < PyList_GET_SIZE(all); index++) {
        PyObject *operation = call->parts[index == 0 ? FIRST_OPERATION : NEXT_OPERATION];
        done = log_mutation(call, key, NULL, PyList_GET_ITEM(all, index), operation);
    }
    if (done == 0) {
        done = set_entry(call, key, all);
    }
    if (key != NULL && done < 0) {
        tell_unfinished(call);
    }
    Py_XDECREF(key);
    Py_DECREF(all);
    return none_of(done);
}

/* get(map_key) of a map */
static PyObject *
map_get(Call *call, PyObject *const *arguments)
{
    PyObject *entry, *found = NULL;
    if (!is_exact(call, EXACT_KEY, arguments[1])) {
        return NULL;
    }
    entry = current_entry(call);
    if (entry == NULL) {
        return is_absent(call) ? Py_NewRef(Py_None) : NULL;
    }
    if (PyDict_CheckExact(entry)) {
        found = PyDict_GetItemWithError(entry, arguments[1]);
        found = found == NULL && PyErr_Occurred() ? NULL : Py_NewRef(found == NULL ? Py_None : found);
    }
    Py_DECREF(entry);
    return found != NULL && HAS(call, COPY_OUT) ? through(call, COPY_OUT, found) : found;
}

/* put(map_key, value) of a map */
static PyObject *
map_put(Call *call, PyObject *const *arguments)
{
    PyObject *map_key = arguments[1], *kept = is_exact(call, EXACT_KEY, map_key) ? kept_of(call, arguments[2]) : NULL;
    if (kept == NULL) {
        return NULL;
    }
    PyObject *key = key_of(call);
    int done = -1;
    if (key != NULL && log_mutation(call, key, map_key, kept, call->parts[FIRST_OPERATION]) == 0) {
        PyObject *entry = entry_of(call, key);
        if (entry != NULL) {
            Py_INCREF(entry);
            done = PyDict_CheckExact(entry) ? PyDict_SetItem(entry, map_key, kept) : PyObject_SetItem(entry, map_key, kept);
        }
        else if (!PyErr_Occurred() && (entry = PyDict_New()) != NULL) {
            done = PyDict_SetItem(entry, map_key, kept);
            done = done < 0 ? done : PyDict_SetItem(call->parts[TABLE], key, entry);
        }
        Py_XDECREF(entry);
    }
    if (key != NULL && done < 0) {
        tell_unfinished(call);
    }
    Py_XDECREF(key);
    Py_DECREF(kept);
    return none_of(done);
}

/* Set a timer of the current key, which is a number of 64 bits. */
static int
set_timer(const Call *call, PyObject *timestamp)
{
    PyObject *table = call->parts[TABLE], *key = key_of(call), *timer = NULL, *until = NULL;
    int done = -1, there = 1, later;
    if (key == NULL || (timer = PyTuple_Pack(2, timestamp, key)) == NULL || (there = PyDict_Contains(table, timer)) < 0) {
        goto end;
    }
    if (there) {
        done = 0;
        goto end;
    }
    if (log_mutation(call, key, NULL, timestamp, call->parts[FIRST_OPERATION]) < 0
        || (until = slot_of(table, timers_type, until_offset, until_name)) == NULL
        || (later = PyObject_RichCompareBool(timestamp, until, Py_GT)) < 0) {
        goto end;
    }
    if (later) {
        done = PyDict_SetItem(table, timer, zero) < 0 ? -1 : PyList_Append(call->parts[ADDED], timer);
    }
    else {
        PyObject *added = PyObject_CallOneArg(call->parts[ADD], timer);
        done = added == NULL ? -1 : 0;
        Py_XDECREF(added);
    }
end:
    if (done < 0 && there == 0) {
        tell_unfinished(call);
    }
    Py_XDECREF(until);
    Py_XDECREF(timer);
    Py_XDECREF(key);
    return done;
}

/* A function that sets a timer: not a method, so it has no handle before its argument. */
static PyObject *
timer_set(Call *call, PyObject *const *arguments)
{
    long long number;
    return whole_of(arguments[0], &number) ? none_of(set_timer(call, arguments[0])) : NULL;
}

/* Set a part of a cursor. */
static int
set_slot(PyObject *cursor, Py_ssize_t offset, PyObject *name, PyObject *value)
{
    if (!Py_IS_TYPE(cursor, cursor_type)) {
        return PyObject_SetAttr(cursor, name, value);
    }
    Py_XSETREF(SLOT(cursor, offset), Py_NewRef(value));
    return 0;
}

/* take(timer) while timers fire: whether it is still to fire, which is logged and removed from the table then. */
static PyObject *
timer_take(Call *call, PyObject *const *arguments)
{
    if (!PyTuple_CheckExact(arguments[0]) || PyTuple_GET_SIZE(arguments[0]) != 2) {
        return NULL;
    }
    PyObject *timer = arguments[0], *table = call->parts[TABLE], *cursor = call->parts[CURSOR];
    PyObject *number = PyDict_GetItemWithError(table, timer);
    if (number != zero) {
        if (number == NULL) {
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
        }
        return NULL;
    }
    PyObject *timestamp = PyTuple_GET_ITEM(timer, 0), *key = PyTuple_GET_ITEM(timer, 1); /* the caller holds the timer */
    if (set_slot(cursor, timestamp_offset, timestamp_name, timestamp) < 0
        || set_slot(cursor, key_offset, key_name, key) < 0
        || log_mutation(call, key, NULL, timestamp, call->parts[FIRST_OPERATION]) < 0
        || PyDict_DelItem(table, timer) < 0) {
        return NULL;
    }
    Py_RETURN_TRUE;
}

static int
call_traverse(PyObject *self, visitproc visit, void *arg)
{
    Call *call = (Call *)self;
    for (int part = 0; part < PART_COUNT; part++) {
        Py_VISIT(call->parts[part]);
    }
    Py_VISIT(call->reference);
    Py_VISIT(call->wanted);
    return 0;
}

/* Nothing is let go of here but the reference: a call that waits for the collector may still be called by a finalizer. What
   makes a cycle is in the reference's names, which the collector clears. */
static void
call_dealloc(PyObject *self)
{
    Call *call = (Call *)self;
    PyObject_GC_UnTrack(self);
    for (int part = 0; part < PART_COUNT; part++) {
        Py_XDECREF(call->parts[part]);
    }
    Py_XDECREF(call->reference);
    Py_XDECREF(call->wanted);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
call_bound(PyObject *self, PyObject *handle, PyObject *class)
{
    return handle == NULL || handle == Py_None ? Py_NewRef(self) : PyMethod_New(self, handle);
}

/* Name, signature and the like are the reference's. */
static PyObject *
call_attribute(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        found = PyObject_GetAttr(((Call *)self)->reference, name);
    }
    return found;
}

#define CALL_TYPE(variable, name, more_flags, bound) \
    static PyTypeObject variable = { \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "changelog_engine.state._handles." name, \
        .tp_basicsize = sizeof(Call), \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | more_flags, \
        .tp_vectorcall_offset = offsetof(Call, vectorcall), \
        .tp_call = PyVectorcall_Call, \
        .tp_traverse = call_traverse, \
        .tp_dealloc = call_dealloc, \
        .tp_getattro = call_attribute, \
        .tp_descr_get = bound, \
    }

CALL_TYPE(method_type, "Method", Py_TPFLAGS_METHOD_DESCRIPTOR, call_bound);
CALL_TYPE(call_type, "Call", 0, NULL);

/* What a call needs besides the table and the cursor, and what it has to be. */
typedef struct {
    const char *name;
    Function function;
    Py_ssize_t count;
    int needed[4]; /* up to the first -1 */
    int reads; /* and changes nothing */
} Kind;

static const Kind kinds[] = {
    {"cell_value", cell_value, 1, {-1}, 1},
    {"cell_update", cell_update, 2, {-1}},
    {"expiring_value", expiring_value, 1, {CLOCK, TTL_MS, -1}},
    {"expiring_update", expiring_update, 2, {CLOCK, FITS, -1}},
    {"copying_update", copying_update, 2, {FITS, COPY, -1}},
    {"clear_entry", clear_entry, 1, {CLEARED, -1}},
    {"reducing_add", reducing_add, 2, {REDUCE, PRESENT, -1}},
    {"reducing_begins", reducing_begins, 2, {REDUCE, PRESENT, -1}},
    {"aggregating_add", aggregating_add, 2, {FUNCTION, ACCUMULATED, -1}},
    {"aggregating_begins", aggregating_begins, 2, {FUNCTION, ACCUMULATED, -1}},
    {"list_add", list_add, 2, {FITS, PRESENT, -1}},
    {"list_begins", list_begins, 2, {FITS, PRESENT, -1}},
    {"list_get", list_get, 1, {-1}, 1},
    {"list_update", list_update, 2, {FITS, -1}},
    {"map_get", map_get, 2, {EXACT_KEY, -1}, 1},
    {"map_put", map_put, 3, {EXACT_KEY, FITS, -1}},
    {"timer_set", timer_set, 1, {ADDED, ADD, FIRST_OPERATION, -1}},
    {"timer_take", timer_take, 1, {FIRST_OPERATION, -1}},
    {NULL},
};

static inline int
of_timers(const Kind *kind)
{
    return kind->function == timer_set || kind->function == timer_take;
}

static int
take_test(Call *call, PyObject *test)
{
    if (test == NULL || test == Py_None) {
        return 1;
    }
    if (PyType_Check(test)) {
        call->wanted = (PyTypeObject *)Py_NewRef(test);
        return 1;
    }
    if (!PyTuple_Check(test)) {
        PyErr_SetString(PyExc_TypeError, "a test is a class or a pair of bounds");
        return 0;
    }
    if (!PyArg_ParseTuple(test, "LL", &call->low, &call->high)) {
        return 0;
    }
    call->bounded = 1;
    call->wanted = (PyTypeObject *)Py_NewRef(&PyLong_Type);
    return 1;
}

/* Whether the parts are all there, and of the classes that the functions above take them for. */
static int
are_complete(const Call *call, const Kind *kind)
{
    int timers = of_timers(kind);
    if (!HAS(call, TABLE) || !HAS(call, CURSOR)
        || !(timers ? Py_IS_TYPE(call->parts[TABLE], timers_type) : PyDict_CheckExact(call->parts[TABLE]))) {
        return 0;
    }
    if (HAS(call, BUFFERED) && (kind->function == map_put || !(HAS(call, GET_ENTRY) || HAS(call, CELL_VALUE)))) {
        return 0; /* a table of maps has its own way to set a large one */
    }
    for (const int *part = kind->needed; *part >= 0; part++) {
        if (!HAS(call, *part)) {
            return 0;
        }
    }
    if (HAS(call, ADDED) && !PyList_CheckExact(call->parts[ADDED])) {
        return 0;
    }
    for (int part = LOG_KEYS; part <= LOG_TIMES; part++) {
        if (HAS(call, part) && (!PyList_CheckExact(call->parts[part]) || !HAS(call, LOG_KEYS) || !HAS(call, LOG_VALUES))) {
            return 0;
        }
    }
    return kind->reads || !HAS(call, LOG_OPERATIONS) || (HAS(call, FIRST_OPERATION) && HAS(call, NEXT_OPERATION));
}

/* The arguments (kind, reference, names, test) as a call; the reference itself where something is not as expected. */
static PyObject *
call_of(PyObject *module, PyObject *arguments)
{
    const char *name;
    PyObject *reference, *given, *test;
    const Kind *kind = kinds;
    if (!PyArg_ParseTuple(arguments, "sOO!O", &name, &reference, &PyDict_Type, &given, &test)) {
        return NULL;
    }
    while (kind->name != NULL && strcmp(kind->name, name) != 0) {
        kind++;
    }
    if (kind->name == NULL || cursor_type == NULL) {
        PyErr_Format(PyExc_ValueError, "no call is named %s, or bind() was not called", name);
        return NULL;
    }
    PyTypeObject *class = of_timers(kind) ? &call_type : &method_type;
    Call *call = PyObject_GC_New(Call, class);
    if (call == NULL) {
        return NULL;
    }
    memset((char *)call + sizeof(PyObject), 0, sizeof(Call) - sizeof(PyObject));
    call->vectorcall = called;
    call->function = kind->function;
    call->count = kind->count;
    call->reference = Py_NewRef(reference);
    int taken = take_test(call, test);
    for (int part = 0; taken && part < PART_COUNT; part++) {
        PyObject *part_name = PyUnicode_FromString(part_names[part]);
        PyObject *found = part_name == NULL ? NULL : PyDict_GetItemWithError(given, part_name);
        call->parts[part] = found == NULL || found == Py_None ? NULL : Py_NewRef(found);
        Py_XDECREF(part_name);
        taken = found != NULL || !PyErr_Occurred(); /* a log that was not found for want of memory would log nothing */
    }
    int complete = taken && are_complete(call, kind);
    PyObject_GC_Track((PyObject *)call);
    if (!complete) {
        Py_DECREF(call);
        return taken ? Py_NewRef(reference) : NULL;
    }
    return (PyObject *)call;
}

/* The place of one of a class's __slots__; -1 with an exception. */
static Py_ssize_t
offset_of(PyObject *class, const char *name)
{
    PyObject *found = PyObject_GetAttrString(class, name);
    Py_ssize_t offset = -1;
    if (found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        offset = ((PyMemberDescrObject *)found)->d_member->offset;
    }
    else if (found != NULL) {
        PyErr_Format(PyExc_TypeError, "%s is not one of the __slots__ of %R", name, class);
    }
    Py_XDECREF(found);
    return offset;
}

static PyObject *
bind(PyObject *module, PyObject *arguments)
{
    PyObject *cursor, *timers;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyType_Type, &cursor, &PyType_Type, &timers)) {
        return NULL;
    }
    Py_ssize_t key = offset_of(cursor, "key"), timestamp = key < 0 ? key : offset_of(cursor, "timestamp");
    Py_ssize_t until = timestamp < 0 ? timestamp : offset_of(timers, "firing_until");
    if (until < 0) {
        return NULL;
    }
    key_offset = key;
    timestamp_offset = timestamp;
    until_offset = until;
    Py_XSETREF(cursor_type, (PyTypeObject *)Py_NewRef(cursor));
    Py_XSETREF(timers_type, (PyTypeObject *)Py_NewRef(timers));
    Py_RETURN_NONE;
}

/* The machine's wall clock in ms, as clock.wall_ms gives it. */
static PyObject *
wall_ms(PyObject *module, PyObject *unused)
{
    struct timespec now;
    if (timespec_get(&now, TIME_UTC) != TIME_UTC) {
        PyErr_SetString(PyExc_OSError, "the machine has no wall clock");
        return NULL;
    }
    return PyLong_FromLongLong((long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "Take the classes of cursors and of tables of timers on the heap."},
    {"call_of", call_of, METH_VARARGS, "A call in C for one in Python."},
    {"wall_ms", wall_ms, METH_NOARGS, "The machine's wall clock, in milliseconds since 1970."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "changelog_engine.state._handles",
    .m_doc = "The calls of state/handles_in_c.py, compiled.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit__handles(void)
{
    key_name = PyUnicode_InternFromString("key");
    timestamp_name = PyUnicode_InternFromString("timestamp");
    until_name = PyUnicode_InternFromString("firing_until");
    append_name = PyUnicode_InternFromString("append");
    add_name = PyUnicode_InternFromString("add");
    create_name = PyUnicode_InternFromString("create_accumulator");
    unfinished_name = PyUnicode_InternFromString("unfinished");
    due_name = PyUnicode_InternFromString("due_ms");
    zero = PyLong_FromLong(0);
    if (key_name == NULL || timestamp_name == NULL || until_name == NULL || append_name == NULL || add_name == NULL
        || create_name == NULL || unfinished_name == NULL || due_name == NULL || zero == NULL || PyType_Ready(&method_type) < 0 || PyType_Ready(&call_type) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddStringConstant(module, "SOURCE", SOURCE) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
