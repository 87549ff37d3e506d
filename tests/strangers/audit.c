/* An audit library of somebody else's: it follows every binding and every object that is opened, and
 * says how many it saw in the file that AUDIT_COUNT names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned objects, drivers;

unsigned la_version(unsigned version) { return version; }
unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    (void)space, (void)cookie;
    objects++;
    if (strstr(map->l_name, "libcuda")) drivers++;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name) {
    (void)index, (void)from, (void)to, (void)flags, (void)name;
    return symbol->st_value;
}
void la_preinit(uintptr_t *cookie) { (void)cookie; }
unsigned la_objclose(uintptr_t *cookie) {
    (void)cookie;
    const char *file = getenv("AUDIT_COUNT");
    int out = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (out >= 0) {
        char said[2] = {(char)('0' + (objects > 3)), (char)('0' + (drivers > 0))};
        if (write(out, said, 2) != 2) abort();
        close(out);
    }
    return 0;
}
