/* Runs one kernel of the corpus on the host: `host NAME GRID BLOCK`, input on standard input, output
 * on standard output, what the kernel prints on standard error. */
#include "device.h"
#include <ucontext.h>

#define K(name, ...) void name(const void *in, void *out, unsigned n);
#include "list.h"
#undef K

typedef void kernel(const void *, void *, unsigned);
static const struct { const char *name; kernel *run; } kernels[] = {
#define K(name, ...) {#name, name},
#include "list.h"
#undef K
};

enum { MOST_THREADS = 1024, STACK_BYTES = 256 << 10 };
struct place here;
static ucontext_t back, threads[MOST_THREADS];
static int done[MOST_THREADS];
static u32 live, arrived, generation, true_count, total_count, last_true, last_total;
static char *stacks;
static kernel *running;
static const void *input;
static void *output;
static u32 count;

/* Lanes that wait for each other, by their mask. */
static struct { u32 mask, arrived, generation; u64 values[2][32]; } groups[MOST_THREADS / 32][32];

static void yield(void) {
    struct place mine = here;
    swapcontext(&threads[mine.tid], &back);
    here = mine;
}

static void body(void) {
    running(input, output, count);
    done[here.tid] = 1;
    live--;
    swapcontext(&threads[here.tid], &back);
}

void host_pause(void) { yield(); }

/* The last to arrive opens the barrier; those that have exited count as arrived. */
u32 host_reduce(int predicate, int *any, int *all) {
    u32 mine = generation;
    arrived++;
    true_count += predicate != 0;
    total_count++;
    while (generation == mine) {
        if (arrived == live) {
            last_true = true_count, last_total = total_count;
            arrived = true_count = total_count = 0;
            generation++;
        } else {
            yield();
        }
    }
    *any = last_true != 0;
    *all = last_true == last_total;
    return last_true;
}

void host_barrier(void) { int x, y; host_reduce(0, &x, &y); }

const u64 *host_exchange(u32 mask, u64 value) {
    u32 warp = here.tid / 32, lane = here.tid % 32, g = 0;
    while (groups[warp][g].mask != mask && groups[warp][g].mask != 0) g++;
    groups[warp][g].mask = mask;
    u32 mine = groups[warp][g].generation;
    /* Two rooms in turn: the next exchange may begin before all have read this one. */
    u64 *room = groups[warp][g].values[mine & 1];
    room[lane] = value;
    groups[warp][g].arrived |= 1u << lane;
    if (groups[warp][g].arrived == mask) {
        groups[warp][g].arrived = 0;
        groups[warp][g].generation++;
    }
    while (groups[warp][g].generation == mine) yield();
    return room;
}

/* Arguments as the device packs them: each aligned to its size. */
int host_vprintf(const char *format, const void *arguments) {
    const u8 *at = arguments;
    u64 offset = 0;
    for (const char *p = format; *p; p++) {
        if (*p != '%') { fputc(*p, stderr); continue; }
        char one[32];
        size_t length = 0;
        int wide = 0;
        do { one[length++] = *p; wide += *p == 'l'; } while (!strchr("%diuxXcsfegp", *++p));
        one[length++] = *p, one[length] = 0;
        if (*p == '%') { fputc('%', stderr); continue; }
        int bytes = wide || strchr("fegsp", *p) ? 8 : 4;
        offset = (offset + (u64)bytes - 1) & ~(u64)(bytes - 1);
        u64 bits = 0;
        memcpy(&bits, at + offset, (size_t)bytes);
        offset += (u64)bytes;
        if (strchr("feg", *p)) { f64 v; memcpy(&v, &bits, 8); fprintf(stderr, one, v); }
        else if (*p == 's') fprintf(stderr, one, (const char *)bits);
        else if (bytes == 8) fprintf(stderr, one, bits);
        else fprintf(stderr, one, (u32)bits);
    }
    return 0;
}

static void run_block(u32 block, u32 grid, u32 width) {
    memset(done, 0, sizeof done);
    memset(groups, 0, sizeof groups);
    live = width, arrived = true_count = total_count = 0;
    for (u32 t = 0; t < width; t++) {
        getcontext(&threads[t]);
        threads[t].uc_stack.ss_sp = stacks + (size_t)t * STACK_BYTES;
        threads[t].uc_stack.ss_size = STACK_BYTES;
        threads[t].uc_link = 0;
        makecontext(&threads[t], body, 0);
    }
    while (live != 0) {
        for (u32 t = 0; t < width; t++) {
            if (done[t]) continue;
            here = (struct place){t, block, width, grid};
            swapcontext(&back, &threads[t]);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    u32 grid = (u32)atoi(argv[2]), width = (u32)atoi(argv[3]);
    count = grid * width;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].name, argv[1])) running = kernels[i].run;
    if (!running || width > MOST_THREADS) return 3;
    size_t in_bytes = (size_t)count * 64, out_bytes = in_bytes + 1024;
    void *in = calloc(1, in_bytes);
    output = aligned_alloc(64, (out_bytes + 63) / 64 * 64);
    memset(output, 0, out_bytes);
    if (fread(in, 1, in_bytes, stdin) != in_bytes) return 4;
    input = in;
    stacks = malloc((size_t)width * STACK_BYTES);
    for (u32 block = 0; block < grid; block++) run_block(block, grid, width);
    return fwrite(output, 1, out_bytes, stdout) == out_bytes ? 0 : 5;
}
