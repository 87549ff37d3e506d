/* HOOK-12 (a): prints what the driver says of two cards and what is between them, every byte of it, and
 * the pointers that cuGetExportTable gives (whether there is one; addresses differ by process). */
#include "case.h"

#define MULTICAST_SUPPORTED 132
typedef CUresult attribute_fn(int *, int, CUdevice);
typedef CUresult access_fn(int *, CUdevice, CUdevice);
typedef CUresult peer_fn(int *, int, CUdevice, CUdevice);
typedef CUresult table_fn(const void **, const unsigned char *);

int main(void) {
    case_id = "HOOK-12";
    MUST(cuInit(0));
    attribute_fn *attribute = (attribute_fn *)dlsym(driver(), "cuDeviceGetAttribute");
    access_fn *access_peer = (access_fn *)dlsym(driver(), "cuDeviceCanAccessPeer");
    peer_fn *peer = (peer_fn *)dlsym(driver(), "cuDeviceGetP2PAttribute");
    table_fn *table = (table_fn *)dlsym(driver(), "cuGetExportTable");
    CHECK(attribute && access_peer && peer && table, "driver lacks a function");
    for (CUdevice one = 0; one < 2; one++) {
        for (int number = 0; number < 160; number++) {
            int value = -7;
            CUresult code = attribute(&value, number, one);
            printf("attribute %d of %d: %d %d\n", number, one, code, value);
        }
        for (CUdevice other = 0; other < 2; other++) {
            int value = -7;
            CUresult code = access_peer(&value, one, other);
            printf("access %d %d: %d %d\n", one, other, code, value);
            for (int number = 0; number < 7; number++) {
                value = -7;
                code = peer(&value, number, one, other);
                printf("p2p %d of %d %d: %d %d\n", number, one, other, code, value);
            }
        }
    }
    unsigned char name[16] = {0};
    for (int i = 0; i < 11; i++) {
        const void *found = NULL;
        name[0] = (unsigned char)i;
        CUresult code = table(&found, name);
        printf("table %d: %d %d\n", i, code, found != NULL);
    }
    return 0;
}
