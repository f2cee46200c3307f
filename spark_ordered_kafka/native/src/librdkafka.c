#include "librdkafka.h"

#include <dlfcn.h>

struct librdkafka rk;

const char *librdkafka_bind(const char *path)
{
    struct librdkafka found;
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);

    if (library == NULL)
        return path;
    /* ISO C has no conversion of an object's address into a function's; POSIX asks for this one. */
#define RDKAFKA_LOOK_UP(result, name, parameters)                                                                  \
    *(void **)&found.name = dlsym(library, #name);                                                                 \
    if (found.name == NULL) {                                                                                      \
        dlclose(library);                                                                                          \
        return #name;                                                                                              \
    }
    RDKAFKA_FUNCTIONS(RDKAFKA_LOOK_UP)
#undef RDKAFKA_LOOK_UP
    rk = found;
    /* The library stays open: confluent-kafka is never unloaded either. */
    return NULL;
}
