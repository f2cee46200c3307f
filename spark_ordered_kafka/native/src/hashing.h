/* The hashes of keys, linear hashing, and the hashes of which fingerprints are made. */
#ifndef ORDERED_KAFKA_HASHING_H
#define ORDERED_KAFKA_HASHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "columns.h"

/* Of a null key, which may lie in any partition. */
#define NO_PARTITION (-1)

typedef uint32_t key_hash(const uint8_t *key, size_t length);

/* MurmurHash3_x86_32, given its text piece by piece. Zeroed but for the seed, `hash`, it is ready. */
struct murmur3 {
    uint32_t hash;
    uint32_t block; /* what waits for the rest of four bytes, zeros in its place */
    uint32_t held;  /* how many of them there are */
    uint64_t length;
};
void murmur3_add(struct murmur3 *state, const uint8_t *data, size_t length);
uint32_t murmur3_end(const struct murmur3 *state);

/* Where keys belong: a topic's hash, and linear hashing under a layout. */
struct placement {
    key_hash *hash;
    uint32_t base; /* split_base() of ordering/linear.py */
    uint32_t count;
};

/* Returns NULL with ValueError set for a name that is none of ordering/hashing.py. */
key_hash *key_hash_named(const char *name);

/* Returns false with ValueError set for a name or a count that is none. */
bool placement_open(struct placement *placement, const char *hash, long long initial_count, long long count);

static inline int32_t placement_of_hash(const struct placement *placement, uint32_t hash)
{
    uint32_t partition = hash % (2 * placement->base);

    return (int32_t)(partition < placement->count ? partition : partition - placement->base);
}

static inline int32_t placement_of(const struct placement *placement, struct text key)
{
    if (key.data == NULL)
        return NO_PARTITION;
    return placement_of_hash(placement, placement->hash(key.data, key.length));
}

/* Once per process, before anything else. */
void hashing_prepare(void);

extern PyMethodDef hashing_methods[];

#endif
