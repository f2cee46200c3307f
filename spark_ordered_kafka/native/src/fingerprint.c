/* The fingerprint of rows, as Python has it in native/fingerprints.py. */
#include "hashing.h"
#include "rows.h"

#include <string.h>

static const uint8_t NULL_TEXT = 0, PRESENT = 1;

static const uint64_t FACTOR[2] = {0x87c37b91114253d5u, 0x4cf5ad432745937fu};

static inline uint64_t rotl64(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline uint64_t load64(const uint8_t *at)
{
    uint64_t word = 0;

    for (int byte = 0; byte < 8; byte++)
        word |= (uint64_t)at[byte] << 8 * byte;
    return word;
}

static inline uint64_t scramble_low(uint64_t k)
{
    return rotl64(k * FACTOR[0], 31) * FACTOR[1];
}

static inline uint64_t scramble_high(uint64_t k)
{
    return rotl64(k * FACTOR[1], 33) * FACTOR[0];
}

static inline void mix(uint64_t hash[2], uint64_t low, uint64_t high)
{
    hash[0] = (rotl64(hash[0] ^ scramble_low(low), 27) + hash[1]) * 5 + 0x52dce729u;
    hash[1] = (rotl64(hash[1] ^ scramble_high(high), 31) + hash[0]) * 5 + 0x38495ab5u;
}

static inline uint64_t avalanche(uint64_t h)
{
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

/* MurmurHash3_x86_32 of a byte that tells a null and the text. */
static uint32_t hash_of_key(struct text key)
{
    struct murmur3 state = {0};

    murmur3_add(&state, key.data == NULL ? &NULL_TEXT : &PRESENT, 1);
    murmur3_add(&state, key.data, key.length);
    return murmur3_end(&state);
}

/* The first half of MurmurHash3_x64_128 of a byte that tells a null and the text. */
static uint64_t hash_of_value(struct text value, uint32_t seed)
{
    uint64_t hash[2] = {seed, seed}, length = (uint64_t)value.length + 1;
    uint8_t rest[16] = {0};

    if (value.length < 15) {
        rest[0] = value.data == NULL ? NULL_TEXT : PRESENT;
        if (value.length > 0)
            memcpy(rest + 1, value.data, value.length);
    } else {
        mix(hash, load64(value.data) << 8 | PRESENT, load64(value.data + 7));
        value.data += 15;
        value.length -= 15;
        for (; value.length >= 16; value.data += 16, value.length -= 16)
            mix(hash, load64(value.data), load64(value.data + 8));
        memcpy(rest, value.data, value.length);
    }
    hash[0] ^= scramble_low(load64(rest)) ^ length;
    hash[1] ^= scramble_high(load64(rest + 8)) ^ length;
    hash[0] += hash[1];
    hash[1] += hash[0];
    return avalanche(hash[0]) + avalanche(hash[1]);
}

/* A text behind its length, big-endian; -1 for a null. */
static void add_measured(struct murmur3 *state, struct text text)
{
    uint64_t length = text.data == NULL ? UINT64_MAX : text.length;
    uint8_t measure[8];

    for (int byte = 0; byte < 8; byte++)
        measure[byte] = (uint8_t)(length >> (56 - 8 * byte));
    murmur3_add(state, measure, sizeof measure);
    murmur3_add(state, text.data, text.length);
}

static uint32_t hash_of_headers(const struct headers_column *headers, int64_t row, uint32_t seed)
{
    struct murmur3 state = {.hash = seed};
    int64_t last, first = headers_of(headers, row, &last);

    if (first == last)
        return seed;
    for (int64_t header = first; header < last; header++) {
        add_measured(&state, column_text(&headers->keys, header));
        add_measured(&state, column_text(&headers->values, header));
    }
    return murmur3_end(&state);
}

static PyObject *fingerprint(PyObject *self, PyObject *args)
{
    PyObject *keys, *values, *headers;
    struct rows rows;
    uint64_t total = 0;

    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &keys, &values, &headers) || !rows_open(&rows, keys, values, headers))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t row = 0; row < rows.length; row++) {
        uint32_t seed = hash_of_key(column_text(&rows.keys, row));

        if (rows.with_headers)
            seed = hash_of_headers(&rows.headers, row, seed);
        total += hash_of_value(column_text(&rows.values, row), seed);
    }
    Py_END_ALLOW_THREADS;
    rows_close(&rows);
    return PyLong_FromUnsignedLongLong(total);
}

PyMethodDef fingerprint_methods[] = {
    {"fingerprint", fingerprint, METH_VARARGS,
     "fingerprint(keys, values, headers) -> int\n\nThe sum of the rows' hashes modulo 2**64; headers may be None."},
    {NULL, NULL, 0, NULL},
};
