/* Look-ups that runtimes were seen to make, read from stdin as "NAME VERSION FLAGS SYMBOL" lines, an
 * empty name spelled "-". Prints "LOOKED NAME VERSION FLAGS CODE STATUS WHAT": whether the answer is
 * the function that the driver exports as SYMBOL ("SAME"), another ("OTHER"), null ("NULL"), or
 * some function where the record has none ("FOUND"). */
#include "../roads/road.h"

int main(void) {
    char name[128], symbol[128];
    int version;
    unsigned flags;
    void *handle = opened("libcuda.so.1", RTLD_NOW);
    int (*get)(const char *, void **, int, unsigned long long, int *) =
        (int (*)(const char *, void **, int, unsigned long long, int *))dlsym(handle, "cuGetProcAddress_v2");
    if (!get) lost("cuGetProcAddress_v2");
    while (scanf("%127s %d %u %127s", name, &version, &flags, symbol) == 4) {
        void *found = NULL;
        int status = -1, code = get(strcmp(name, "-") ? name : "", &found, version, flags, &status);
        int recorded = strcmp(symbol, "NOTFOUND") && strcmp(symbol, "-");
        const char *what = !found ? "NULL" : !recorded ? "FOUND" : found == dlsym(handle, symbol) ? "SAME" : "OTHER";
        printf("LOOKED %s %d %u %d %d %s\n", name, version, flags, code, status, what);
    }
    return 0;
}
