#include "hashing.h"

#include <string.h>

#define MURMUR2_SEED 0x9747b28cu
#define MURMUR2_M 0x5bd1e995u

static uint32_t crc32_table[256];

void hashing_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
        crc32_table[byte] = crc;
    }
}

/* Compilers make one load of it. */
static inline uint32_t load32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint32_t rotl32(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

/* The 1 to 3 bytes of a last block that is not full, padded with zeros. */
static inline uint32_t load_rest(const uint8_t *at, size_t count)
{
    uint32_t word = at[0];

    if (count > 1)
        word |= (uint32_t)at[1] << 8;
    if (count > 2)
        word |= (uint32_t)at[2] << 16;
    return word;
}

static uint32_t crc32(const uint8_t *key, size_t length)
{
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < length; i++)
        crc = crc >> 8 ^ crc32_table[(crc ^ key[i]) & 0xff];
    return ~crc;
}

/* Kafka's Utils.murmur2 and Utils.toPositive. */
static uint32_t murmur2(const uint8_t *key, size_t length)
{
    uint32_t h = MURMUR2_SEED ^ (uint32_t)length;

    for (; length >= 4; key += 4, length -= 4) {
        uint32_t k = load32(key) * MURMUR2_M;

        k ^= k >> 24;
        h = h * MURMUR2_M ^ k * MURMUR2_M;
    }
    if (length > 0)
        h = (h ^ load_rest(key, length)) * MURMUR2_M;
    h = (h ^ h >> 13) * MURMUR2_M;
    return (h ^ h >> 15) & 0x7fffffffu;
}

static inline uint32_t murmur3_scramble(uint32_t k)
{
    return rotl32(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

static inline uint32_t murmur3_mix(uint32_t h, uint32_t k)
{
    return rotl32(h ^ murmur3_scramble(k), 13) * 5 + 0xe6546b64u;
}

/* Keeps a byte until there are four. */
static inline void murmur3_hold(struct murmur3 *state, uint8_t byte)
{
    state->block |= (uint32_t)byte << 8 * state->held++;
    if (state->held == 4) {
        state->hash = murmur3_mix(state->hash, state->block);
        state->block = 0;
        state->held = 0;
    }
}

void murmur3_add(struct murmur3 *state, const uint8_t *data, size_t length)
{
    state->length += length;
    for (; state->held > 0 && length > 0; length--)
        murmur3_hold(state, *data++);
    for (; length >= 4; data += 4, length -= 4)
        state->hash = murmur3_mix(state->hash, load32(data));
    for (; length > 0; length--)
        murmur3_hold(state, *data++);
}

uint32_t murmur3_end(const struct murmur3 *state)
{
    uint32_t h = state->hash ^ murmur3_scramble(state->block) ^ (uint32_t)state->length;

    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

static uint32_t murmur3(const uint8_t *key, size_t length)
{
    struct murmur3 state = {0};

    murmur3_add(&state, key, length);
    return murmur3_end(&state);
}

key_hash *key_hash_named(const char *name)
{
    if (strcmp(name, "murmur3") == 0)
        return murmur3;
    if (strcmp(name, "murmur2") == 0)
        return murmur2;
    if (strcmp(name, "crc32") == 0)
        return crc32;
    PyErr_Format(PyExc_ValueError, "hash must be murmur3, murmur2 or crc32, not %s", name);
    return NULL;
}

bool placement_open(struct placement *placement, const char *hash, long long initial_count, long long count)
{
    if (initial_count < 1 || count < initial_count || count > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "an initial count of %lld and a count of %lld make no layout", initial_count, count);
        return false;
    }
    placement->hash = key_hash_named(hash);
    placement->count = (uint32_t)count;
    placement->base = (uint32_t)initial_count;
    while (placement->base <= placement->count / 2)
        placement->base *= 2;
    return placement->hash != NULL;
}

/* A bytearray of a number of four bytes for each of `length` rows, whose offsets in Arrow take as many at least. */
static PyObject *numbers(int64_t length, void **first)
{
    PyObject *array = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)length * 4);

    if (array != NULL)
        *first = PyByteArray_AsString(array);
    return array;
}

static PyObject *key_hashes(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *keys, *found;
    struct column column;
    key_hash *hash;
    void *hashes;

    (void)self;
    if (!PyArg_ParseTuple(args, "sO", &name, &keys) || (hash = key_hash_named(name)) == NULL
        || !column_open(&column, keys, "keys"))
        return NULL;
    found = numbers(column.length, &hashes);
    if (found != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        for (int64_t row = 0; row < column.length; row++) {
            struct text key = column_text(&column, row);

            ((uint32_t *)hashes)[row] = hash(key.data, key.length);
        }
        Py_END_ALLOW_THREADS;
    }
    column_close(&column);
    return found;
}

static PyObject *partitions(PyObject *self, PyObject *args)
{
    const char *name;
    long long initial_count, count;
    PyObject *keys, *found;
    struct column column;
    struct placement placement;
    void *places;

    (void)self;
    if (!PyArg_ParseTuple(args, "sLLO", &name, &initial_count, &count, &keys)
        || !placement_open(&placement, name, initial_count, count) || !column_open(&column, keys, "keys"))
        return NULL;
    found = numbers(column.length, &places);
    if (found != NULL) {
        Py_BEGIN_ALLOW_THREADS;
        for (int64_t row = 0; row < column.length; row++)
            ((int32_t *)places)[row] = placement_of(&placement, column_text(&column, row));
        Py_END_ALLOW_THREADS;
    }
    column_close(&column);
    return found;
}

PyMethodDef hashing_methods[] = {
    {"key_hashes", key_hashes, METH_VARARGS,
     "key_hashes(hash, keys) -> bytearray\n\nA uint32 for each of an Arrow array of binary; that of no bytes for a null."},
    {"partitions", partitions, METH_VARARGS,
     "partitions(hash, initial_count, count, keys) -> bytearray\n\nAn int32 for each key of an Arrow array of binary: its\n"
     "partition, or -1 for a null."},
    {NULL, NULL, 0, NULL},
};
