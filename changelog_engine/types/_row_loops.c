/* The loops of types/row_loops.py, compiled. Each does what a function in Python does, which it is made with, its reference.

   Invariants:
       * What is not as expected is left to the reference: classes derived from others, names in another order, values of
         another class or out of range, half-made rows. All that is decided here is that everything is as expected.
       * No Python code runs while a reference is borrowed: what allocates may collect garbage and so run some, so it
         comes before values are looked at, or after they are held.
       * Only documented functions of CPython are called; where a Row has its parts is asked of its __slots__. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#ifndef SOURCE
#error "SOURCE is the checksum of this file, as setup.py gives it and types/row_loops.py compares it"
#endif
#define MOST_FIELDS 64

static PyTypeObject *row_type;
static PyObject *insert_kind;
static PyObject *immutable; /* a frozenset of classes whose values nobody can change */
static Py_ssize_t list_offset, names_offset, kind_offset;

#define PART(row, offset) (*(PyObject **)((char *)(row) + (offset)))

/* What the value of one field has to be, if it is not None. */
typedef struct {
    PyTypeObject *wanted;
    int bounded;
    long long low, high;
} FieldTest;

/* What loops over rows or tuples of one type are made for. */
typedef struct {
    PyObject_HEAD
    PyObject *reference;
    PyObject *shared;   /* the list of names that compact rows share; NULL of tuples */
    PyObject *template; /* a dict of the same names: copied and filled sooner than made */
    Py_ssize_t count;
    PyObject *names[MOST_FIELDS];
    FieldTest tests[MOST_FIELDS];
} Shape;

/* Names are interned, so that they are the same object nearly always. */
static inline int
same_name(PyObject *one, PyObject *other)
{
    return one == other
        || (PyUnicode_CheckExact(one) && PyUnicode_CheckExact(other) && PyUnicode_Compare(one, other) == 0);
}

/* Borrows the values of a dict with these names in this order; 0 where it has others. */
static inline int
take_fields(PyObject *fields, PyObject *const *names, Py_ssize_t count, PyObject **values)
{
    Py_ssize_t place = 0, index = 0;
    PyObject *name, *value;
    if (!PyDict_CheckExact(fields) || PyDict_GET_SIZE(fields) != count) {
        return 0;
    }
    while (PyDict_Next(fields, &place, &name, &value)) {
        if (!same_name(name, names[index])) {
            return 0;
        }
        values[index++] = value;
    }
    return 1;
}

/* Whether a list has these names. */
static inline int
has_names(PyObject *list, PyObject *shared, PyObject *const *names, Py_ssize_t count)
{
    if (list == shared) {
        return 1;
    }
    if (list == NULL || !PyList_CheckExact(list) || PyList_GET_SIZE(list) != count) {
        return 0;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        if (!same_name(PyList_GET_ITEM(list, index), names[index])) {
            return 0;
        }
    }
    return 1;
}

/* Borrows the values of a row or tuple of this shape; 0 where it is another, -1 with an exception. */
static inline int
take_values(const Shape *shape, PyObject *value, PyObject **values)
{
    PyObject *list;
    if (shape->shared == NULL) {
        if (!PyTuple_CheckExact(value) || PyTuple_GET_SIZE(value) != shape->count) {
            return 0;
        }
        for (Py_ssize_t index = 0; index < shape->count; index++) {
            values[index] = PyTuple_GET_ITEM(value, index);
        }
        return 1;
    }
    if (!Py_IS_TYPE(value, row_type)) {
        return 0;
    }
    list = PART(value, list_offset);
    if (list == Py_None) {
        PyObject *fields = PyObject_GenericGetDict(value, NULL);
        if (fields == NULL) {
            return -1;
        }
        Py_DECREF(fields); /* the row holds it */
        return take_fields(fields, shape->names, shape->count, values);
    }
    if (list == NULL || !PyList_CheckExact(list) || PyList_GET_SIZE(list) != shape->count
        || !has_names(PART(value, names_offset), shape->shared, shape->names, shape->count)) {
        return 0;
    }
    for (Py_ssize_t index = 0; index < shape->count; index++) {
        values[index] = PyList_GET_ITEM(list, index);
    }
    return 1;
}

static inline int
all_fit(const Shape *shape, PyObject *const *values)
{
    for (Py_ssize_t index = 0; index < shape->count; index++) {
        const FieldTest *test = &shape->tests[index];
        PyObject *value = values[index];
        if (value == Py_None) {
            continue;
        }
        if (!Py_IS_TYPE(value, test->wanted)) {
            return 0;
        }
        if (test->bounded) {
            int overflow;
            long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
            if (overflow || number < test->low || number > test->high) {
                return 0;
            }
        }
    }
    return 1;
}

static PyObject *
reference_of(Shape *shape, PyObject *argument)
{
    return PyObject_CallOneArg(shape->reference, argument);
}

/* Put values into a dict of these names, which it takes over; NULL, which goes through, with an exception. */
static PyObject *
filled(PyObject *fields, PyObject *const *names, PyObject *const *values, Py_ssize_t count)
{
    for (Py_ssize_t index = 0; fields != NULL && index < count; index++) {
        if (PyDict_SetItem(fields, names[index], values[index]) < 0) {
            Py_CLEAR(fields);
        }
    }
    return fields;
}

/* A spread row of these fields, which it takes over; NULL goes through. */
static PyObject *
spread_row(PyObject *fields)
{
    PyObject *row = fields == NULL ? NULL : row_type->tp_alloc(row_type, 0);
    if (row != NULL && PyObject_GenericSetDict(row, fields, NULL) < 0) {
        Py_CLEAR(row);
    }
    Py_XDECREF(fields);
    if (row != NULL) {
        PART(row, list_offset) = Py_NewRef(Py_None);
    }
    return row;
}

static PyObject *
loop_test(PyObject *self, PyObject *value)
{
    Shape *shape = (Shape *)self;
    PyObject *values[MOST_FIELDS];
    int taken = take_values(shape, value, values);
    if (taken < 0) {
        return NULL;
    }
    if (taken && all_fit(shape, values)) {
        Py_RETURN_TRUE;
    }
    return reference_of(shape, value);
}

static PyObject *
loop_copy(PyObject *self, PyObject *value)
{
    Shape *shape = (Shape *)self;
    PyObject *values[MOST_FIELDS], *kind = insert_kind, *row, *list;
    int taken = take_values(shape, value, values);
    if (taken < 0) {
        return NULL;
    }
    if (taken && PART(value, list_offset) != Py_None) {
        kind = PART(value, kind_offset);
    }
    if (!taken || kind == NULL || !all_fit(shape, values)) {
        return reference_of(shape, value);
    }
    for (Py_ssize_t index = 0; index < shape->count; index++) {
        Py_INCREF(values[index]);
    }
    Py_INCREF(kind);
    list = PyList_New(shape->count);
    if (list == NULL) {
        for (Py_ssize_t index = 0; index < shape->count; index++) {
            Py_DECREF(values[index]);
        }
        Py_DECREF(kind);
        return NULL;
    }
    for (Py_ssize_t index = 0; index < shape->count; index++) {
        PyList_SET_ITEM(list, index, values[index]);
    }
    row = row_type->tp_alloc(row_type, 0);
    if (row == NULL) {
        Py_DECREF(kind);
        Py_DECREF(list);
        return NULL;
    }
    PART(row, names_offset) = Py_NewRef(shape->shared);
    PART(row, list_offset) = list;
    PART(row, kind_offset) = kind;
    return row;
}

static PyObject *
loop_read(PyObject *self, PyObject *value)
{
    Shape *shape = (Shape *)self;
    PyObject *fields, *list;
    if (!Py_IS_TYPE(value, row_type)) {
        return reference_of(shape, value);
    }
    fields = PyDict_Copy(shape->template);
    if (fields == NULL) {
        return NULL;
    }
    list = PART(value, list_offset);
    if (list == NULL || !PyList_CheckExact(list) || PyList_GET_SIZE(list) != shape->count
        || PART(value, kind_offset) != insert_kind) {
        Py_DECREF(fields);
        return reference_of(shape, value);
    }
    return spread_row(filled(fields, shape->names, PySequence_Fast_ITEMS(list), shape->count));
}

/* Whether these are so many lists, all as long as that; -1 for the length stands for any. */
static int
are_columns(PyObject *columns, Py_ssize_t count, Py_ssize_t length)
{
    if (!PyList_CheckExact(columns) || PyList_GET_SIZE(columns) != count) {
        return 0;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *column = PyList_GET_ITEM(columns, index);
        if (!PyList_CheckExact(column)) {
            return 0;
        }
        length = length < 0 ? PyList_GET_SIZE(column) : length;
        if (PyList_GET_SIZE(column) != length) {
            return 0;
        }
    }
    return 1;
}

static PyObject *
loop_make(PyObject *self, PyObject *columns)
{
    Shape *shape = (Shape *)self;
    if (!are_columns(columns, shape->count, -1)) {
        return reference_of(shape, columns);
    }
    Py_ssize_t length = PyList_GET_SIZE(PyList_GET_ITEM(columns, 0));
    PyObject *rows = PyList_New(length);
    for (Py_ssize_t at = 0; rows != NULL && at < length; at++) {
        PyObject *values[MOST_FIELDS], *fields = PyDict_Copy(shape->template);
        if (fields != NULL && !are_columns(columns, shape->count, length)) {
            PyErr_SetString(PyExc_RuntimeError, "columns changed while rows were made of them");
            Py_CLEAR(fields);
        }
        for (Py_ssize_t index = 0; fields != NULL && index < shape->count; index++) {
            values[index] = PyList_GET_ITEM(PyList_GET_ITEM(columns, index), at);
        }
        PyObject *row = spread_row(filled(fields, shape->names, values, shape->count));
        if (row == NULL) {
            Py_CLEAR(rows);
        }
        else {
            PyList_SET_ITEM(rows, at, row);
        }
    }
    return rows;
}

static void
shape_dealloc(PyObject *self)
{
    Shape *shape = (Shape *)self;
    Py_XDECREF(shape->reference);
    Py_XDECREF(shape->shared);
    Py_XDECREF(shape->template);
    for (Py_ssize_t index = 0; index < shape->count; index++) {
        Py_XDECREF(shape->names[index]);
        Py_XDECREF(shape->tests[index].wanted);
    }
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject shape_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "changelog_engine.types._row_loops.Shape",
    .tp_basicsize = sizeof(Shape),
    .tp_dealloc = shape_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

/* Whether a list has names of fields, and no more than there is room for. */
static int
are_names(PyObject *list)
{
    if (!PyList_CheckExact(list) || PyList_GET_SIZE(list) < 1 || PyList_GET_SIZE(list) > MOST_FIELDS) {
        return 0;
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(list); index++) {
        if (!PyUnicode_CheckExact(PyList_GET_ITEM(list, index))) {
            return 0;
        }
    }
    return 1;
}

/* New references to names, interned as those of keyword arguments are. */
static void
take_names(PyObject *list, PyObject **names)
{
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(list); index++) {
        names[index] = Py_NewRef(PyList_GET_ITEM(list, index));
        PyUnicode_InternInPlace(&names[index]);
    }
}

static PyObject *
template_of(PyObject *const *names, Py_ssize_t count)
{
    PyObject *template = PyDict_New();
    for (Py_ssize_t index = 0; template != NULL && index < count; index++) {
        if (PyDict_SetItem(template, names[index], Py_None) < 0) {
            Py_CLEAR(template);
        }
    }
    return template;
}

static int
fill_test(FieldTest *test, PyObject *given)
{
    if (PyType_Check(given)) {
        test->wanted = (PyTypeObject *)Py_NewRef(given);
        return 1;
    }
    if (!PyArg_ParseTuple(given, "LL;a field's test is a class or a pair of bounds", &test->low, &test->high)) {
        return 0;
    }
    test->bounded = 1;
    test->wanted = (PyTypeObject *)Py_NewRef(&PyLong_Type);
    return 1;
}

static PyMethodDef loops[] = {
    {"test", loop_test, METH_O, "Whether a row or tuple fits as it is."},
    {"copy", loop_copy, METH_O, "A compact copy of a row that fits; None of another."},
    {"read", loop_read, METH_O, "A spread copy of a compact row."},
    {"make", loop_make, METH_O, "Spread rows of columns."},
    {NULL},
};

/* The arguments (which; names, or None of tuples; tests; reference) as a loop: the reference itself where there are too many
   fields. */
static PyObject *
loop_of(PyObject *module, PyObject *arguments)
{
    const char *which;
    PyObject *names, *tests, *reference, *loop;
    PyMethodDef *definition = loops;
    if (!PyArg_ParseTuple(arguments, "sOO!O", &which, &names, &PyTuple_Type, &tests, &reference)) {
        return NULL;
    }
    while (definition->ml_name != NULL && strcmp(definition->ml_name, which) != 0) {
        definition++;
    }
    Py_ssize_t most = PyTuple_GET_SIZE(tests);
    Py_ssize_t count = names == Py_None || !are_names(names) ? most : PyList_GET_SIZE(names);
    if (row_type == NULL || definition->ml_name == NULL || (most != 0 && most != count)) {
        PyErr_SetString(PyExc_ValueError, "bind() comes first; a loop has a name, and a test for each field");
        return NULL;
    }
    if (count < 1 || count > MOST_FIELDS || (names != Py_None && !are_names(names))) {
        return Py_NewRef(reference);
    }
    Shape *shape = PyObject_New(Shape, &shape_type);
    if (shape == NULL) {
        return NULL;
    }
    memset((char *)shape + sizeof(PyObject), 0, sizeof(Shape) - sizeof(PyObject));
    shape->reference = Py_NewRef(reference);
    shape->count = count;
    int made = 1;
    if (names != Py_None) {
        take_names(names, shape->names);
        shape->shared = Py_NewRef(names);
        shape->template = template_of(shape->names, count);
        made = shape->template != NULL && PyDict_GET_SIZE(shape->template) == count;
        if (shape->template != NULL && !made) {
            PyErr_SetString(PyExc_ValueError, "names of fields repeat");
        }
    }
    for (Py_ssize_t index = 0; made && index < most; index++) {
        made = fill_test(&shape->tests[index], PyTuple_GET_ITEM(tests, index));
    }
    loop = made ? PyCFunction_New(definition, (PyObject *)shape) : NULL;
    Py_DECREF(shape);
    return loop;
}

/* A list that was filled up to a place, which it takes over; None where that is not its end. NULL with an exception. */
static PyObject *
if_filled(PyObject *list, Py_ssize_t at)
{
    if (list != NULL && at < PyList_GET_SIZE(list)) {
        Py_DECREF(list);
        list = PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    return list;
}

/* Spread rows as (names, lists); None where they are others. */
static PyObject *
columns_of(PyObject *module, PyObject *rows)
{
    PyObject *names[MOST_FIELDS], *values[MOST_FIELDS], *first, *listed = NULL, *columns = NULL;
    Py_ssize_t length, count, at = 0;
    if (!PyList_CheckExact(rows) || PyList_GET_SIZE(rows) == 0 || !Py_IS_TYPE(PyList_GET_ITEM(rows, 0), row_type)
        || PART(PyList_GET_ITEM(rows, 0), list_offset) != Py_None) {
        Py_RETURN_NONE;
    }
    first = PyObject_GenericGetDict(PyList_GET_ITEM(rows, 0), NULL);
    if (first == NULL) {
        return NULL;
    }
    listed = PyDict_Keys(first);
    Py_DECREF(first);
    if (listed == NULL) {
        return NULL;
    }
    count = PyList_GET_SIZE(listed);
    length = PyList_GET_SIZE(rows);
    columns = count < 1 || count > MOST_FIELDS ? NULL : PyList_New(count);
    for (Py_ssize_t index = 0; columns != NULL && index < count; index++) {
        PyObject *column = PyList_New(length);
        names[index] = PyList_GET_ITEM(listed, index);
        if (column == NULL) {
            Py_CLEAR(columns);
            break;
        }
        PyList_SET_ITEM(columns, index, column);
    }
    /* Nothing allocates from here on but the dict of a row that has none, which is then empty. */
    for (; columns != NULL && at < length && at < PyList_GET_SIZE(rows); at++) {
        PyObject *row = PyList_GET_ITEM(rows, at), *fields;
        if (!Py_IS_TYPE(row, row_type) || PART(row, list_offset) != Py_None) {
            break;
        }
        fields = PyObject_GenericGetDict(row, NULL);
        if (fields == NULL) {
            break;
        }
        Py_DECREF(fields); /* the row holds it */
        if (!take_fields(fields, names, count, values)) {
            break;
        }
        for (Py_ssize_t index = 0; index < count; index++) {
            PyList_SET_ITEM(PyList_GET_ITEM(columns, index), at, Py_NewRef(values[index]));
        }
    }
    if (columns != NULL && at == length) {
        return Py_BuildValue("(NN)", listed, columns);
    }
    Py_DECREF(listed);
    Py_XDECREF(columns);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* A new dict for each compact row of kind INSERT with these names; None where one is another. */
static PyObject *
dicts_of(PyObject *module, PyObject *arguments)
{
    PyObject *rows, *listed, *names[MOST_FIELDS], *template, *dicts = NULL;
    if (!PyArg_ParseTuple(arguments, "OO", &rows, &listed)) {
        return NULL;
    }
    if (!PyList_CheckExact(rows) || PyList_GET_SIZE(rows) == 0 || !are_names(listed)) {
        Py_RETURN_NONE;
    }
    Py_ssize_t length = PyList_GET_SIZE(rows), count = PyList_GET_SIZE(listed), at = 0;
    take_names(listed, names);
    template = template_of(names, count);
    dicts = template == NULL ? NULL : PyList_New(length);
    for (; dicts != NULL && at < length; at++) {
        PyObject *fields = PyDict_Copy(template), *row, *list;
        if (fields == NULL) {
            break;
        }
        row = at < PyList_GET_SIZE(rows) ? PyList_GET_ITEM(rows, at) : Py_None; /* the copy may have run Python code */
        list = Py_IS_TYPE(row, row_type) ? PART(row, list_offset) : NULL;
        if (list == NULL || !PyList_CheckExact(list) || PyList_GET_SIZE(list) != count
            || PART(row, kind_offset) != insert_kind || !has_names(PART(row, names_offset), listed, names, count)) {
            Py_DECREF(fields);
            break;
        }
        fields = filled(fields, names, PySequence_Fast_ITEMS(list), count);
        if (fields == NULL) {
            break;
        }
        PyList_SET_ITEM(dicts, at, fields);
    }
    Py_XDECREF(template);
    for (Py_ssize_t index = 0; index < count; index++) {
        Py_DECREF(names[index]);
    }
    return if_filled(dicts, at);
}

/* Whether nobody can change a value. Where its class may ask Python code for its hash, the answer is no: the reference knows. */
static inline int
is_immutable(PyObject *value)
{
    PyTypeObject *class = Py_TYPE(value);
    if (class == &PyUnicode_Type || class == &PyLong_Type || class == &PyFloat_Type || value == Py_None) {
        return 1;
    }
    return Py_IS_TYPE((PyObject *)class, &PyType_Type) && PySet_Contains(immutable, (PyObject *)class) == 1;
}

static int
all_immutable(PyObject *fields)
{
    Py_ssize_t place = 0;
    PyObject *name, *value;
    while (PyDict_Next(fields, &place, &name, &value)) {
        if (!is_immutable(value)) {
            return 0;
        }
    }
    return 1;
}

/* Whether a value is a Row with nothing in it that can be changed; of some that are, the answer is False. */
static PyObject *
is_flat(PyObject *module, PyObject *value)
{
    PyObject *list, *fields;
    int flat = 1;
    if (immutable == NULL || !Py_IS_TYPE(value, row_type) || (list = PART(value, list_offset)) == NULL) {
        Py_RETURN_FALSE;
    }
    if (list == Py_None) {
        fields = PyObject_GenericGetDict(value, NULL);
        if (fields == NULL) {
            return NULL;
        }
        flat = PyDict_CheckExact(fields) && all_immutable(fields);
        Py_DECREF(fields);
        return PyBool_FromLong(flat);
    }
    flat = PyList_CheckExact(list);
    for (Py_ssize_t index = 0; flat && index < PyList_GET_SIZE(list); index++) {
        flat = is_immutable(PyList_GET_ITEM(list, index));
    }
    return PyBool_FromLong(flat);
}

/* A spread copy of each spread row with nothing in it that can be changed; None where one is another. */
static PyObject *
copies_of(PyObject *module, PyObject *rows)
{
    if (immutable == NULL || !PyList_CheckExact(rows)) {
        Py_RETURN_NONE;
    }
    Py_ssize_t length = PyList_GET_SIZE(rows), at = 0;
    PyObject *copies = PyList_New(length);
    for (; copies != NULL && at < length && at < PyList_GET_SIZE(rows); at++) {
        PyObject *row = PyList_GET_ITEM(rows, at), *fields, *copy;
        if (!Py_IS_TYPE(row, row_type) || PART(row, list_offset) != Py_None) {
            break;
        }
        fields = PyObject_GenericGetDict(row, NULL);
        copy = fields == NULL ? NULL : PyDict_Copy(fields); /* it may run Python code: what nobody else has is looked at */
        Py_XDECREF(fields);
        if (copy == NULL || !all_immutable(copy)) {
            Py_XDECREF(copy);
            break;
        }
        row = spread_row(copy);
        if (row == NULL) {
            break;
        }
        PyList_SET_ITEM(copies, at, row);
    }
    return if_filled(copies, at);
}

/* Numbers as machine words, (class, bytearray), where all are ints of 64 bits, or all floats; True of other values that nobody
   can change; None where one may be another. */
static PyObject *
words_of(PyObject *module, PyObject *values)
{
    if (immutable == NULL || !PyList_CheckExact(values) || PyList_GET_SIZE(values) == 0) {
        Py_RETURN_NONE;
    }
    Py_ssize_t length = PyList_GET_SIZE(values), at = 0;
    PyTypeObject *class = Py_TYPE(PyList_GET_ITEM(values, 0));
    if ((class == &PyLong_Type || class == &PyFloat_Type) && length <= PY_SSIZE_T_MAX / 8) {
        PyObject *words = PyByteArray_FromStringAndSize(NULL, length * 8);
        if (words == NULL) {
            return NULL;
        }
        char *place = PyByteArray_AS_STRING(words);
        for (; at < length && Py_IS_TYPE(PyList_GET_ITEM(values, at), class); at++, place += 8) {
            if (class == &PyFloat_Type) {
                double number = PyFloat_AS_DOUBLE(PyList_GET_ITEM(values, at));
                memcpy(place, &number, 8);
                continue;
            }
            int overflow;
            long long number = PyLong_AsLongLongAndOverflow(PyList_GET_ITEM(values, at), &overflow);
            if (overflow) {
                break;
            }
            memcpy(place, &number, 8);
        }
        if (at == length) {
            return Py_BuildValue("(ON)", class, words);
        }
        Py_DECREF(words);
    }
    for (; at < length; at++) {
        if (!is_immutable(PyList_GET_ITEM(values, at))) {
            Py_RETURN_NONE;
        }
    }
    Py_RETURN_TRUE;
}

/* A place in a table of objects by their addresses; 0 stands for none, and numbers count from 1. */
typedef struct {
    PyObject *object; /* borrowed */
    int32_t number;
} Numbered;

static inline Numbered *
place_of(Numbered *table, size_t mask, PyObject *object)
{
    size_t at = ((uintptr_t)object >> 4) * 11400714819323198485u >> 32;
    while (table[at & mask].number != 0 && table[at & mask].object != object) {
        at++;
    }
    return &table[at & mask];
}

/* Of each value the number of its object by first appearance, as 32-bit words, and where each object comes first; None of
   what is no list, or longer than the numbers reach. No Python code runs while objects are borrowed. */
static PyObject *
same_objects(PyObject *module, PyObject *values)
{
    if (!PyList_CheckExact(values) || PyList_GET_SIZE(values) >= INT32_MAX / 4) {
        Py_RETURN_NONE;
    }
    Py_ssize_t length = PyList_GET_SIZE(values);
    size_t places = 64;
    PyObject *found = NULL, *numbers = PyByteArray_FromStringAndSize(NULL, length * 4), *firsts = NULL;
    Numbered *table = PyMem_Calloc(places, sizeof(Numbered));
    int32_t *first_of = PyMem_Malloc((length + 1) * sizeof(int32_t));
    if (table == NULL || first_of == NULL || numbers == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    int32_t count = 0;
    for (Py_ssize_t index = 0; index < length; index++) {
        Numbered *place = place_of(table, places - 1, PyList_GET_ITEM(values, index));
        if (place->number == 0) {
            place->object = PyList_GET_ITEM(values, index);
            first_of[count] = (int32_t)index;
            place->number = ++count;
        }
        int32_t number = place->number - 1;
        memcpy(PyByteArray_AS_STRING(numbers) + index * 4, &number, 4);
        if ((size_t)count * 2 > places) {
            PyMem_Free(table);
            places *= 8;
            if ((table = PyMem_Calloc(places, sizeof(Numbered))) == NULL) {
                PyErr_NoMemory();
                goto end;
            }
            for (number = 0; number < count; number++) {
                place = place_of(table, places - 1, PyList_GET_ITEM(values, first_of[number]));
                place->object = PyList_GET_ITEM(values, first_of[number]);
                place->number = number + 1;
            }
        }
    }
    firsts = PyList_New(count);
    for (int32_t number = 0; firsts != NULL && number < count; number++) {
        PyObject *first = PyLong_FromLong(first_of[number]);
        if (first == NULL) {
            Py_CLEAR(firsts);
        }
        else {
            PyList_SET_ITEM(firsts, number, first);
        }
    }
    found = firsts == NULL ? NULL : PyTuple_Pack(2, numbers, firsts);
end:
    PyMem_Free(table);
    PyMem_Free(first_of);
    Py_XDECREF(numbers);
    Py_XDECREF(firsts);
    return found;
}

/* Of each value in some lists the number that a dict has for it, as 32-bit words; values that it has not get the next ones. */
static PyObject *
equal_values(PyObject *module, PyObject *arguments)
{
    PyObject *lists, *known;
    Py_ssize_t total = 0, at = 0;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, &lists, &PyDict_Type, &known)) {
        return NULL;
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(lists); index++) {
        if (!PyList_CheckExact(PyList_GET_ITEM(lists, index))) {
            Py_RETURN_NONE;
        }
        total += PyList_GET_SIZE(PyList_GET_ITEM(lists, index));
    }
    PyObject *words = total >= INT32_MAX / 4 ? NULL : PyByteArray_FromStringAndSize(NULL, total * 4);
    if (words == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(lists); index++) {
        PyObject *values = Py_NewRef(PyList_GET_ITEM(lists, index));
        for (Py_ssize_t row = 0; row < PyList_GET_SIZE(values) && at < total; row++, at++) {
            PyObject *value = Py_NewRef(PyList_GET_ITEM(values, row));
            PyObject *number = PyDict_GetItemWithError(known, value);
            Py_XINCREF(number);
            if (number == NULL && !PyErr_Occurred() && (number = PyLong_FromSsize_t(PyDict_GET_SIZE(known))) != NULL
                && PyDict_SetItem(known, value, number) < 0) {
                Py_CLEAR(number);
            }
            Py_DECREF(value);
            int32_t word = number == NULL ? -1 : (int32_t)PyLong_AsLong(number);
            Py_XDECREF(number);
            if (PyErr_Occurred()) {
                Py_DECREF(values);
                Py_DECREF(words);
                return NULL;
            }
            memcpy(PyByteArray_AS_STRING(words) + at * 4, &word, 4);
        }
        Py_DECREF(values);
    }
    if (at != total) {
        Py_DECREF(words);
        PyErr_SetString(PyExc_RuntimeError, "lists changed while their values were numbered");
        return NULL;
    }
    return words;
}

/* JSON that is being written. */
typedef struct {
    PyObject *bytes; /* a bytearray with room for more */
    char *data;
    size_t used, room;
} Text;

/* Whether there is room for so many bytes more; an exception where there is not. */
static inline int
has_room(Text *text, size_t more)
{
    if (text->room - text->used >= more) {
        return 1;
    }
    size_t room = (text->used + more) * 2;
    if (room > PY_SSIZE_T_MAX / 2 || PyByteArray_Resize(text->bytes, (Py_ssize_t)room) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return 0;
    }
    text->data = PyByteArray_AS_STRING(text->bytes);
    text->room = room;
    return 1;
}

/* Write a character as JSON has it within a string, into room for six bytes; NULL of half a surrogate pair. */
static char *
write_character(char *place, Py_UCS4 character)
{
    static const char short_for[] = "btn.fr"; /* of 8 to 13 */
    if (character < 0x80) {
        if (character == '"' || character == '\\') {
            *place++ = '\\';
        }
        else if (character >= 8 && character <= 13 && character != 11) {
            *place++ = '\\';
            character = (Py_UCS4)short_for[character - 8];
        }
        else if (character < 0x20) {
            memcpy(place, character < 0x10 ? "\\u000" : "\\u001", 5);
            place += 5;
            character = (Py_UCS4)"0123456789abcdef"[character & 15];
        }
        *place++ = (char)character;
        return place;
    }
    if (character < 0x800) {
        *place++ = (char)(0xC0 | character >> 6);
    }
    else {
        if (character >= 0xD800 && character <= 0xDFFF) {
            return NULL;
        }
        if (character < 0x10000) {
            *place++ = (char)(0xE0 | character >> 12);
        }
        else {
            *place++ = (char)(0xF0 | character >> 18);
            *place++ = (char)(0x80 | (character >> 12 & 0x3F));
        }
        *place++ = (char)(0x80 | (character >> 6 & 0x3F));
    }
    *place++ = (char)(0x80 | (character & 0x3F));
    return place;
}

/* Write a string: 1, 0 where it has half a surrogate pair, -1 with an exception. */
static int
write_string(Text *text, PyObject *string)
{
#if PY_VERSION_HEX < 0x030C0000
    if (PyUnicode_READY(string) < 0) {
        return -1;
    }
#endif
    Py_ssize_t length = PyUnicode_GET_LENGTH(string);
    if ((size_t)length > INT32_MAX) {
        return 0;
    }
    if (!has_room(text, (size_t)length * 6 + 2)) {
        return -1;
    }
    char *place = text->data + text->used;
    *place++ = '"';
    int plain = PyUnicode_MAX_CHAR_VALUE(string) == 0x7F;
    if (plain) {
        const unsigned char *characters = PyUnicode_DATA(string);
        unsigned char escaped = 0;
        for (Py_ssize_t index = 0; index < length; index++) {
            unsigned char character = characters[index];
            escaped |= (unsigned char)((character < 0x20) | (character == '"') | (character == '\\'));
            place[index] = (char)character;
        }
        plain = !escaped;
    }
    if (plain) {
        place += length;
    }
    else {
        int kind = (int)PyUnicode_KIND(string);
        const void *characters = PyUnicode_DATA(string);
        for (Py_ssize_t index = 0; index < length; index++) {
            place = write_character(place, PyUnicode_READ(kind, characters, index));
            if (place == NULL) {
                return 0;
            }
        }
    }
    *place++ = '"';
    text->used = (size_t)(place - text->data);
    return 1;
}

/* Write an int: 1, 0 where it has more than 64 bits, -1 with an exception. */
static int
write_int(Text *text, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) {
        return 0;
    }
    if (!has_room(text, 24)) {
        return -1;
    }
    char digits[24], *place = digits + sizeof digits;
    unsigned long long rest = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    do {
        *--place = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        *--place = '-';
    }
    size_t length = (size_t)(digits + sizeof digits - place);
    memcpy(text->data + text->used, place, length);
    text->used += length;
    return 1;
}

static inline int
write_bytes(Text *text, const char *bytes, size_t length)
{
    if (!has_room(text, length)) {
        return -1;
    }
    memcpy(text->data + text->used, bytes, length);
    text->used += length;
    return 1;
}

#define DEEPEST 16

/* Write a value: 1, 0 where it has to be looked at more closely, -1 with an exception. */
static int
write_value(Text *text, PyObject *value, int depth)
{
    if (PyUnicode_CheckExact(value)) {
        return write_string(text, value);
    }
    if (PyLong_CheckExact(value)) {
        return write_int(text, value);
    }
    if (value == Py_None) {
        return write_bytes(text, "null", 4);
    }
    if (value == Py_True) {
        return write_bytes(text, "true", 4);
    }
    if (value == Py_False) {
        return write_bytes(text, "false", 5);
    }
    if ((!PyTuple_CheckExact(value) && !PyList_CheckExact(value)) || depth == DEEPEST) {
        return 0;
    }
    int written = write_bytes(text, "[", 1);
    for (Py_ssize_t index = 0; written > 0 && index < PySequence_Fast_GET_SIZE(value); index++) {
        written = index == 0 ? 1 : write_bytes(text, ",", 1);
        written = written > 0 ? write_value(text, PySequence_Fast_GET_ITEM(value, index), depth + 1) : written;
    }
    return written > 0 ? write_bytes(text, "]", 1) : written;
}

/* What stands before each field of rows of one shape. */
typedef struct {
    PyObject *listed, *names[MOST_FIELDS];
    Text text;
    size_t ends[MOST_FIELDS];
} Prefixes;

static int
write_row(Text *text, PyObject *row, const Prefixes *prefixes)
{
    PyObject *list = Py_IS_TYPE(row, row_type) ? PART(row, list_offset) : NULL;
    Py_ssize_t count = PyList_GET_SIZE(prefixes->listed);
    if (list == NULL || !PyList_CheckExact(list) || PyList_GET_SIZE(list) != count || PART(row, kind_offset) != insert_kind
        || !has_names(PART(row, names_offset), prefixes->listed, prefixes->names, count)) {
        return 0;
    }
    size_t start = 0;
    int written = 1;
    for (Py_ssize_t index = 0; written > 0 && index < count; index++) {
        written = write_bytes(text, prefixes->text.data + start, prefixes->ends[index] - start);
        start = prefixes->ends[index];
        written = written > 0 ? write_value(text, PyList_GET_ITEM(list, index), 0) : written;
    }
    return written > 0 ? write_bytes(text, "}", 1) : written;
}

static int
write_prefixes(Prefixes *prefixes)
{
    int written = 1;
    for (Py_ssize_t index = 0; written > 0 && index < PyList_GET_SIZE(prefixes->listed); index++) {
        written = write_bytes(&prefixes->text, index == 0 ? "{" : ",", 1);
        written = written > 0 ? write_string(&prefixes->text, prefixes->names[index]) : written;
        written = written > 0 ? write_bytes(&prefixes->text, ":", 1) : written;
        prefixes->ends[index] = prefixes->text.used;
    }
    return written;
}

static int
begin_text(Text *text)
{
    memset(text, 0, sizeof(Text));
    text->bytes = PyByteArray_FromStringAndSize(NULL, 0);
    return text->bytes == NULL ? -1 : 1;
}

/* Texts one behind the other, and where they begin and end as 32-bit words; None where a value is not as expected, or they
   are longer than such words reach. No Python code runs meanwhile. */
static PyObject *
texts_of(PyObject *values, const Prefixes *prefixes, int of_ints)
{
    if (!PyList_CheckExact(values) || PyList_GET_SIZE(values) >= INT32_MAX / 4) {
        Py_RETURN_NONE;
    }
    Text text;
    Py_ssize_t length = PyList_GET_SIZE(values);
    PyObject *found = NULL, *offsets = PyByteArray_FromStringAndSize(NULL, (length + 1) * 4);
    int written = offsets == NULL ? -1 : begin_text(&text);
    if (written < 0) {
        Py_XDECREF(offsets);
        return NULL;
    }
    char *place = PyByteArray_AS_STRING(offsets);
    memset(place, 0, 4);
    for (Py_ssize_t index = 0; written > 0 && index < length; index++) {
        PyObject *value = PyList_GET_ITEM(values, index);
        if (of_ints) {
            written = PyLong_CheckExact(value) ? write_int(&text, value) : 0;
        }
        else {
            written = prefixes == NULL ? write_value(&text, value, 0) : write_row(&text, value, prefixes);
        }
        if (written > 0 && text.used > INT32_MAX) {
            written = 0;
        }
        int32_t end = (int32_t)text.used;
        memcpy(place + (index + 1) * 4, &end, 4);
    }
    if (written > 0 && PyByteArray_Resize(text.bytes, (Py_ssize_t)text.used) == 0) {
        found = PyTuple_Pack(2, offsets, text.bytes);
    }
    Py_DECREF(text.bytes);
    Py_DECREF(offsets);
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

/* The JSON of values, which are str, int, bool, None, or tuples and lists of such; with names, of compact rows of them. */
static PyObject *
json_texts(PyObject *module, PyObject *arguments)
{
    PyObject *values, *listed, *found = NULL;
    Prefixes prefixes;
    if (!PyArg_ParseTuple(arguments, "OO", &values, &listed)) {
        return NULL;
    }
    if (listed == Py_None) {
        return texts_of(values, NULL, 0);
    }
    if (row_type == NULL || !are_names(listed)) {
        Py_RETURN_NONE;
    }
    if (begin_text(&prefixes.text) < 0) {
        return NULL;
    }
    prefixes.listed = listed;
    take_names(listed, prefixes.names);
    int written = write_prefixes(&prefixes);
    if (written >= 0) {
        found = written ? texts_of(values, &prefixes, 0) : Py_NewRef(Py_None);
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(listed); index++) {
        Py_DECREF(prefixes.names[index]);
    }
    Py_DECREF(prefixes.text.bytes);
    return found;
}

/* The digits of ints of 64 bits; see texts_of. */
static PyObject *
int_texts(PyObject *module, PyObject *values)
{
    return texts_of(values, NULL, 1);
}

/* A place in a table of strings by their hashes; 0 stands for none, and numbers count from 1. */
typedef struct {
    Py_hash_t hash;
    int32_t number;
} Hashed;

/* A table of twice as many places at least as there are different strings; NULL with an exception. */
static Hashed *
hashed_again(const Hashed *old, size_t old_places, size_t places)
{
    Hashed *table = PyMem_Calloc(places, sizeof(Hashed));
    if (table == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (size_t index = 0; index < old_places; index++) {
        if (old[index].number != 0) {
            size_t at = (size_t)old[index].hash & (places - 1);
            while (table[at].number != 0) {
                at = (at + 1) & (places - 1);
            }
            table[at] = old[index];
        }
    }
    return table;
}

/* Whether strings that were asked for their hashes, which makes each what it is for good, have the same characters. */
static inline int
same_characters(PyObject *one, PyObject *other)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(one);
    return PyUnicode_GET_LENGTH(other) == length && PyUnicode_KIND(other) == PyUnicode_KIND(one)
        && memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other), (size_t)length * PyUnicode_KIND(one)) == 0;
}

/* The number of a string in a table, from 1, and -1 with an exception; one that is new there gets the next one. */
static int32_t
number_of(Hashed *table, size_t places, PyObject *different, PyObject *string)
{
    Py_hash_t hash = PyObject_Hash(string);
    if (hash == -1) {
        return -1;
    }
    size_t at = (size_t)hash & (places - 1);
    for (; table[at].number != 0; at = (at + 1) & (places - 1)) {
        if (table[at].hash == hash) {
            PyObject *known = PyList_GET_ITEM(different, table[at].number - 1);
            if (known == string || same_characters(known, string)) {
                return table[at].number;
            }
        }
    }
    if (PyList_Append(different, string) < 0) {
        return -1;
    }
    table[at].hash = hash;
    return table[at].number = (int32_t)PyList_GET_SIZE(different);
}

/* Strings as (the different ones by first appearance, of each the number of it as 32-bit words); None where a value is not
   a str, or more than so many differ. No Python code runs meanwhile. */
static PyObject *
different_strings(PyObject *module, PyObject *arguments)
{
    PyObject *values;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(arguments, "On", &values, &most)) {
        return NULL;
    }
    if (!PyList_CheckExact(values) || PyList_GET_SIZE(values) >= INT32_MAX / 4) {
        Py_RETURN_NONE;
    }
    Py_ssize_t length = PyList_GET_SIZE(values), row = 0;
    size_t places = 1024;
    PyObject *found = NULL, *different = PyList_New(0), *words = PyByteArray_FromStringAndSize(NULL, length * 4);
    Hashed *table = hashed_again(NULL, 0, places);
    if (different == NULL || words == NULL || table == NULL) {
        goto end;
    }
    for (; row < length; row++) {
        PyObject *value = PyList_GET_ITEM(values, row);
        if (!PyUnicode_CheckExact(value)) {
            break;
        }
        int32_t number = number_of(table, places, different, value) - 1;
        if (number < 0) {
            goto end;
        }
        memcpy(PyByteArray_AS_STRING(words) + row * 4, &number, 4);
        if (number >= most) {
            break;
        }
        if ((size_t)number * 2 >= places) {
            Hashed *larger = hashed_again(table, places, places * 4);
            if (larger == NULL) {
                goto end;
            }
            PyMem_Free(table);
            table = larger;
            places *= 4;
        }
    }
    found = row == length ? PyTuple_Pack(2, different, words) : Py_NewRef(Py_None);
end:
    PyMem_Free(table);
    Py_XDECREF(different);
    Py_XDECREF(words);
    return found;
}

/* The objects of a list at places that are numbers of 8, 16 or 32 bits, without a sign, in a buffer. */
static PyObject *
objects_at(PyObject *module, PyObject *arguments)
{
    PyObject *objects, *found = NULL;
    Py_buffer places;
    int width;
    if (!PyArg_ParseTuple(arguments, "O!y*i", &PyList_Type, &objects, &places, &width)) {
        return NULL;
    }
    if ((width != 1 && width != 2 && width != 4) || places.len % width != 0) {
        PyErr_SetString(PyExc_ValueError, "places are numbers of 1, 2 or 4 bytes");
    }
    else {
        found = PyList_New(places.len / width);
    }
    const char *place = places.buf;
    for (Py_ssize_t index = 0; found != NULL && index < PyList_GET_SIZE(found); index++, place += width) {
        uint8_t byte;
        uint16_t two;
        uint32_t number;
        if (width == 4) {
            memcpy(&number, place, 4);
        }
        else if (width == 2) {
            memcpy(&two, place, 2);
            number = two;
        }
        else {
            memcpy(&byte, place, 1);
            number = byte;
        }
        if ((size_t)number >= (size_t)PyList_GET_SIZE(objects)) {
            PyErr_Format(PyExc_IndexError, "place %zd is not one of %zd", (Py_ssize_t)number, PyList_GET_SIZE(objects));
            Py_CLEAR(found);
            break;
        }
        PyList_SET_ITEM(found, index, Py_NewRef(PyList_GET_ITEM(objects, (Py_ssize_t)number)));
    }
    PyBuffer_Release(&places);
    return found;
}

static uint32_t crc_tables[4][256];

static void
make_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        }
        crc_tables[0][byte] = crc;
    }
    for (int further = 1; further < 4; further++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = crc_tables[further - 1][byte];
            crc_tables[further][byte] = crc >> 8 ^ crc_tables[0][crc & 0xFF];
        }
    }
}

/* CRC-32, as zlib.crc32 has it. */
static uint32_t
crc_of(const char *bytes, size_t length)
{
    const unsigned char *place = (const unsigned char *)bytes;
    uint32_t crc = 0xFFFFFFFFu;
    for (; length >= 4; length -= 4, place += 4) {
        crc ^= (uint32_t)place[0] | (uint32_t)place[1] << 8 | (uint32_t)place[2] << 16 | (uint32_t)place[3] << 24;
        crc = crc_tables[3][crc & 0xFF] ^ crc_tables[2][crc >> 8 & 0xFF] ^ crc_tables[1][crc >> 16 & 0xFF]
            ^ crc_tables[0][crc >> 24];
    }
    for (; length > 0; length--, place++) {
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *place) & 0xFF];
    }
    return ~crc;
}

/* CRC-32 of the JSON of strings, as 32-bit words; None where a value is not a str, or has half a surrogate pair. */
static PyObject *
string_sums(PyObject *module, PyObject *values)
{
    if (!PyList_CheckExact(values) || PyList_GET_SIZE(values) >= INT32_MAX / 4) {
        Py_RETURN_NONE;
    }
    Py_ssize_t length = PyList_GET_SIZE(values);
    Text text;
    PyObject *words = PyByteArray_FromStringAndSize(NULL, length * 4);
    int written = words == NULL ? -1 : begin_text(&text);
    if (written < 0) {
        Py_XDECREF(words);
        return NULL;
    }
    for (Py_ssize_t index = 0; written > 0 && index < length; index++) {
        PyObject *value = PyList_GET_ITEM(values, index);
        text.used = 0;
        written = PyUnicode_CheckExact(value) ? write_string(&text, value) : 0;
        if (written > 0) {
            uint32_t sum = crc_of(text.data, text.used);
            memcpy(PyByteArray_AS_STRING(words) + index * 4, &sum, 4);
        }
    }
    Py_DECREF(text.bytes);
    if (written > 0) {
        return words;
    }
    Py_DECREF(words);
    return written < 0 ? NULL : Py_NewRef(Py_None);
}

/* Names of fields that a Row was made of lately, and a dict of them: calls in one place of a program have the same. */
typedef struct {
    PyObject *names; /* a tuple */
    PyObject *template;
} Made;

#define MADE 64
static Made made_of[MADE];
static PyObject *taken_names; /* a frozenset of those that a field in a Row's __dict__ must not have */

static int
same_names(PyObject *one, PyObject *other)
{
    Py_ssize_t count = PyTuple_GET_SIZE(one);
    if (one == other) {
        return 1;
    }
    if (PyTuple_GET_SIZE(other) != count) {
        return 0;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        if (PyTuple_GET_ITEM(one, index) != PyTuple_GET_ITEM(other, index)) {
            return 0;
        }
    }
    return 1;
}

/* A dict of these names to be filled, NULL where a row of them is compact, or with an exception. */
static PyObject *
fields_of(PyObject *names)
{
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    if (count > MOST_FIELDS) {
        return NULL;
    }
    uintptr_t place = (uintptr_t)PyTuple_GET_ITEM(names, 0) * 3 + (uintptr_t)PyTuple_GET_ITEM(names, count - 1);
    Made *made = &made_of[(place >> 4) % MADE];
    if (made->names != NULL && same_names(made->names, names)) {
        PyObject *held = Py_NewRef(made->template); /* the copy may run Python code, which makes other rows */
        PyObject *copy = PyDict_Copy(held);
        Py_DECREF(held);
        return copy;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *name = PyTuple_GET_ITEM(names, index);
        if (!PyUnicode_CheckExact(name) || PySet_Contains(taken_names, name) != 0) {
            return NULL;
        }
    }
    PyObject *template = template_of(PySequence_Fast_ITEMS(names), count);
    if (template == NULL || PyDict_GET_SIZE(template) != count) {
        Py_XDECREF(template);
        return NULL;
    }
    PyObject *fields = PyDict_Copy(template);
    PyObject *old_names = made->names, *old_template = made->template;
    made->names = Py_NewRef(names);
    made->template = template;
    Py_XDECREF(old_names);
    Py_XDECREF(old_template);
    return fields;
}

/* A Row of the arguments of its class: what its __init__ does. */
static PyObject *
row_of(PyObject *const *values, Py_ssize_t count, PyObject *names)
{
    PyObject *row, *list;
    if (names != NULL && PyTuple_GET_SIZE(names) > 0) {
        PyObject *fields = count == 0 ? fields_of(names) : NULL;
        return spread_row(filled(fields, PySequence_Fast_ITEMS(names), values, PyTuple_GET_SIZE(names)));
    }
    list = PyList_New(count);
    row = list == NULL ? NULL : row_type->tp_alloc(row_type, 0);
    if (row == NULL) {
        Py_XDECREF(list);
        return NULL;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        PyList_SET_ITEM(list, index, Py_NewRef(values[index]));
    }
    PART(row, names_offset) = Py_NewRef(Py_None);
    PART(row, kind_offset) = Py_NewRef(insert_kind);
    PART(row, list_offset) = list;
    return row;
}

/* A call of the class Row. What row_of does not make, the call of any class does: it has the errors, too. */
static PyObject *
call_row(PyObject *class, PyObject *const *values, size_t flags, PyObject *names)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags), named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    PyObject *row = class == (PyObject *)row_type ? row_of(values, count, names) : NULL;
    if (row != NULL || PyErr_Occurred()) {
        return row;
    }
    PyObject *arguments = PyTuple_New(count), *fields = named ? PyDict_New() : NULL;
    int given = arguments != NULL && (fields != NULL || !named);
    for (Py_ssize_t index = 0; given && index < count; index++) {
        PyTuple_SET_ITEM(arguments, index, Py_NewRef(values[index]));
    }
    for (Py_ssize_t index = 0; given && index < named; index++) {
        given = PyDict_SetItem(fields, PyTuple_GET_ITEM(names, index), values[count + index]) == 0;
    }
    row = given ? PyType_Type.tp_call(class, arguments, fields) : NULL;
    Py_XDECREF(arguments);
    Py_XDECREF(fields);
    return row;
}

/* A Row of positional or named arguments; None where its __init__ makes it otherwise, or raises. */
static PyObject *
made_row(PyObject *module, PyObject *const *values, Py_ssize_t count, PyObject *names)
{
    if (row_type == NULL) {
        PyErr_SetString(PyExc_ValueError, "bind() comes first");
        return NULL;
    }
    PyObject *row = row_of(values, count, names);
    if (row == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return row;
}

#if PY_VERSION_HEX < 0x030C0000 /* later ones remember for each place of a program where it finds them, sooner than a call does */
static getattrofunc other_attribute; /* as Python itself finds a Row's attributes */

/* An attribute of a Row: a field of a spread one, which has no name that its class has, is found without a look at the class. */
static PyObject *
attribute_of(PyObject *row, PyObject *name)
{
    if (Py_IS_TYPE(row, row_type) && PART(row, list_offset) == Py_None) {
        PyObject *fields = PyObject_GenericGetDict(row, NULL);
        PyObject *value = fields == NULL ? NULL : PyDict_GetItemWithError(fields, name);
        Py_XINCREF(value);
        Py_XDECREF(fields);
        if (value != NULL || PyErr_Occurred()) {
            return value;
        }
    }
    return other_attribute(row, name);
}
#endif

/* The classes of some values, as a set. */
static PyObject *
classes_of(PyObject *module, PyObject *values)
{
    PyObject *classes = PySet_New(NULL), *last = NULL;
    PyObject *listed = classes == NULL ? NULL : PySequence_Fast(values, "classes are those of values");
    for (Py_ssize_t at = 0; listed != NULL && at < PySequence_Fast_GET_SIZE(listed); at++) {
        PyObject *class = (PyObject *)Py_TYPE(PySequence_Fast_GET_ITEM(listed, at));
        if (class == last) {
            continue;
        }
        Py_XSETREF(last, Py_NewRef(class)); /* its hash may run Python code */
        if (PySet_Add(classes, last) < 0) {
            Py_CLEAR(classes);
            break;
        }
    }
    if (listed == NULL) {
        Py_CLEAR(classes);
    }
    Py_XDECREF(listed);
    Py_XDECREF(last);
    return classes;
}

/* The place of one of a Row's __slots__; -1 with an exception. */
static Py_ssize_t
offset_of(PyObject *row_class, const char *name)
{
    PyObject *found = PyObject_GetAttrString(row_class, name);
    Py_ssize_t offset = -1;
    if (found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        offset = ((PyMemberDescrObject *)found)->d_member->offset;
    }
    else if (found != NULL) {
        PyErr_Format(PyExc_TypeError, "%s is not one of a Row's __slots__", name);
    }
    Py_XDECREF(found);
    return offset;
}

static PyObject *
bind(PyObject *module, PyObject *arguments)
{
    PyObject *row_class, *kind, *taken;
    if (!PyArg_ParseTuple(arguments, "O!OO!", &PyType_Type, &row_class, &kind, &PyFrozenSet_Type, &taken)) {
        return NULL;
    }
    Py_ssize_t in_list = offset_of(row_class, "_list"), in_names = in_list < 0 ? -1 : offset_of(row_class, "_names");
    Py_ssize_t in_kind = in_names < 0 ? -1 : offset_of(row_class, "_kind");
    if (in_kind < 0) {
        return NULL; /* what was bound before stays */
    }
    list_offset = in_list;
    names_offset = in_names;
    kind_offset = in_kind;
    Py_XSETREF(insert_kind, Py_NewRef(kind));
    Py_XSETREF(row_type, (PyTypeObject *)Py_NewRef(row_class));
    Py_XSETREF(taken_names, Py_NewRef(taken));
    Py_RETURN_NONE;
}

static PyObject *
bind_immutable(PyObject *module, PyObject *classes)
{
    if (!PyFrozenSet_CheckExact(classes)) {
        PyErr_SetString(PyExc_TypeError, "the classes whose values cannot be changed are a frozenset");
        return NULL;
    }
    Py_XSETREF(immutable, Py_NewRef(classes));
    Py_RETURN_NONE;
}

/* From now on calls of the class are made here, where Python asks for its vectorcall, and fields that are asked for by name
   are found here: classes derived from it have neither. */
static PyObject *
bind_calls(PyObject *module, PyObject *unused)
{
    if (row_type == NULL) {
        PyErr_SetString(PyExc_ValueError, "bind() comes first");
        return NULL;
    }
    row_type->tp_vectorcall = call_row;
#if PY_VERSION_HEX < 0x030C0000
    if (row_type->tp_getattro != attribute_of) {
        other_attribute = row_type->tp_getattro;
        row_type->tp_getattro = attribute_of;
        PyType_Modified(row_type); /* what Python remembers of it */
    }
#endif
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "Take the class Row, the kind INSERT and the names that no field in a Row's __dict__ has."},
    {"bind_calls", bind_calls, METH_NOARGS, "Make the Rows that the class is called for, and find their fields by name."},
    {"made_row", (PyCFunction)(void (*)(void))made_row, METH_FASTCALL | METH_KEYWORDS, "A Row of its arguments; None is no answer."},
    {"bind_immutable", bind_immutable, METH_O, "Take the classes whose values nobody can change."},
    {"loop_of", loop_of, METH_VARARGS, "A loop over rows or tuples of one type."},
    {"columns_of", columns_of, METH_O, "Spread rows as names and columns."},
    {"dicts_of", dicts_of, METH_VARARGS, "Compact rows as dicts."},
    {"is_flat", is_flat, METH_O, "Whether a value is a Row with nothing in it that can be changed; False is no answer."},
    {"classes_of", classes_of, METH_O, "The classes of values."},
    {"words_of", words_of, METH_O, "Numbers as machine words."},
    {"same_objects", same_objects, METH_O, "Numbers of values by their object."},
    {"equal_values", equal_values, METH_VARARGS, "Numbers of values by what they equal."},
    {"different_strings", different_strings, METH_VARARGS, "The different ones of strings, and numbers of all."},
    {"objects_at", objects_at, METH_VARARGS, "The objects at some places of a list."},
    {"string_sums", string_sums, METH_O, "Checksums of the JSON of strings."},
    {"json_texts", json_texts, METH_VARARGS, "JSON of values, one text after another."},
    {"int_texts", int_texts, METH_O, "Digits of ints, one text after another."},
    {"copies_of", copies_of, METH_O, "Spread copies of spread rows with nothing in them that can be changed."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "changelog_engine.types._row_loops",
    .m_doc = "The loops of types/row_loops.py, compiled.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit__row_loops(void)
{
    if (PyType_Ready(&shape_type) < 0) {
        return NULL;
    }
    make_crc_tables();
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddStringConstant(module, "SOURCE", SOURCE) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
