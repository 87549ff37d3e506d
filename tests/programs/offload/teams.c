/* Who one is: teams, threads, and a barrier between them. */
#include "check.h"

int main(void) {
    int sums[4] = {0}, teams[4] = {0};
#pragma omp target teams num_teams(4) thread_limit(32) map(tofrom : sums, teams)
    {
        int inside = 0, slots[32] = {0};
#pragma omp parallel num_threads(8) shared(inside, slots)
        {
            slots[omp_get_thread_num()] = omp_get_thread_num() + 1;
#pragma omp barrier
#pragma omp single
            for (int i = 0; i < omp_get_num_threads(); i++) inside += slots[i];
        }
        sums[omp_get_team_num()] = inside;
        teams[omp_get_team_num()] = omp_get_num_teams();
    }
    int right = teams[0] >= 1;
    for (int i = 0; i < teams[0]; i++) right &= sums[i] == 36 && teams[i] == teams[0];
    return finish(right);
}
