/* Memory that device code allocates for itself, and printf from there. */
#include "check.h"

int main(void) {
    int sum = 0;
#pragma omp target map(tofrom : sum)
    {
        int *list = malloc(100 * sizeof *list);
        for (int i = 0; i < 100; i++) list[i] = i;
        for (int i = 0; i < 100; i++) sum += list[i];
        free(list);
        printf("the device says %d\n", sum);
    }
    return finish(sum == 4950);
}
