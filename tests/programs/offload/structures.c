/* Structures with pointers inside, mapped with what they point at. */
#include "check.h"

struct vector { int length; double *values; };

int main(void) {
    struct vector v = {1500, malloc(1500 * sizeof(double))};
    for (int i = 0; i < v.length; i++) v.values[i] = i;
    double *values = v.values;
#pragma omp target map(to : v) map(tofrom : values[0 : 1500])
    {
        for (int i = 0; i < v.length; i++) values[i] = values[i] * 2 + v.length;
    }
    int right = 1;
    for (int i = 0; i < v.length; i++) right &= values[i] == 2.0 * i + 1500;
    return finish(right);
}
