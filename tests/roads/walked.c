/* A program that reads the loader's list of objects and the driver's symbol table by itself. */
#include "road.h"
#include <elf.h>
#include <link.h>

static void *table_of(const char *wanted) {
    void *handle = opened(getenv("ROAD_DRIVER"), RTLD_NOW);
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map)) lost("the map");
    const ElfW(Sym) *symbols = NULL;
    const char *texts = NULL;
    const unsigned *hash = NULL;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag; d++) {
        if (d->d_tag == DT_SYMTAB) symbols = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB) texts = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_GNU_HASH) hash = (const void *)d->d_un.d_ptr;
    }
    unsigned h = 5381;
    for (const char *c = wanted; *c; c++) h = h * 33 + (unsigned char)*c;
    const unsigned buckets = hash[0], first = hash[1], bloom = hash[2];
    const unsigned *bucket = hash + 4 + bloom * 2, *chain = bucket + buckets;
    for (unsigned i = bucket[h % buckets]; i >= first; i++) {
        if (!strcmp(texts + symbols[i].st_name, wanted)) return (char *)map->l_addr + symbols[i].st_value;
        if (chain[i - first] & 1) break;
    }
    return NULL;
}

int main(void) { return walk("walked", table_of); }
