/* Takes device memory in blocks until it is refused, says how much it got and how it was refused,
 * checks that every block keeps what was written to it, and gives everything back. */
#include "../include/sample.h"

static double block_bytes = 268435456, smallest_bytes = 0, most_bytes = 0, hold = 0, verbose = 0;

static const struct sample_option options[] = {
    {"block", "BYTES", &block_bytes, "size of a block, for example 256MiB"},
    {"smallest", "BYTES", &smallest_bytes,
     "once refused, try halves of a block down to this; 0: never"},
    {"most", "BYTES", &most_bytes, "stop after so much; 0: only when refused"},
    {"hold", "SECONDS", &hold, "keep it for so long"},
    {"verbose", NULL, &verbose, "a line for each block"},
};

struct block {
    CUdeviceptr address;
    size_t bytes;
};

static struct block *blocks;
static size_t count, room, got_bytes;

/* Writes the block's own number to its two ends, or compares them with it. */
static void mark(size_t number, int write)
{
    const struct block *block = &blocks[number];
    CUdeviceptr ends[] = {block->address, block->address + block->bytes - sizeof number};
    for (int i = 0; i < 2; i++) {
        size_t found = number;
        if (write) {
            CHECK(cuMemcpyHtoD(ends[i], &found, sizeof found));
            continue;
        }
        found = ~number;
        CHECK(cuMemcpyDtoH(&found, ends[i], sizeof found));
        if (found != number)
            failed("block %zu holds %zx instead of its number", number, found);
    }
}

/* One more block; the code of the refusal if there is none. */
static CUresult take(size_t bytes)
{
    CUdeviceptr address;
    CUresult code = cuMemAlloc(&address, bytes);
    if (code != CUDA_SUCCESS)
        return code;
    if (count == room) {
        room = room ? 2 * room : 64;
        blocks = realloc(blocks, room * sizeof *blocks);
        if (!blocks)
            failed("no host memory for the list of blocks");
    }
    blocks[count] = (struct block){address, bytes};
    mark(count, 1);
    count++;
    got_bytes += bytes;
    if (verbose)
        printf("block %zu of %zu bytes, %zu in all\n", count, bytes, got_bytes);
    return CUDA_SUCCESS;
}

int main(int argc, char **argv)
{
    size_t free_bytes, total_bytes, free_after;
    CUresult code = CUDA_SUCCESS;
    read_options(argc, argv, "Takes device memory until it is refused.", options,
                 OPTION_COUNT(options));
    if (block_bytes < 16 || (smallest_bytes > 0 && smallest_bytes < 16))
        failed("a block must have at least 16 bytes");
    CUdevice device = open_device();
    CHECK(cuMemGetInfo(&free_bytes, &total_bytes));
    printf("total %zu bytes, free %zu bytes\n", total_bytes, free_bytes);

    size_t bytes = (size_t)block_bytes;
    for (;;) {
        if (most_bytes > 0 && (double)(got_bytes + bytes) > most_bytes)
            break;
        code = take(bytes);
        if (code == CUDA_SUCCESS)
            continue;
        if (smallest_bytes == 0 || bytes / 2 < (size_t)smallest_bytes)
            break;
        bytes /= 2;
    }
    printf("got %zu bytes in %zu blocks, then %s\n", got_bytes, count,
           code == CUDA_SUCCESS ? "stopped by itself" : code_name(code));
    if (hold > 0) {
        struct timespec pause = {(time_t)hold, (long)((hold - (double)(time_t)hold) * 1e9)};
        printf("holding it for %.1f s\n", hold);
        nanosleep(&pause, NULL);
    }

    for (size_t i = 0; i < count; i++)
        mark(i, 0);
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemFree(blocks[i].address));
    CHECK(cuMemGetInfo(&free_after, &total_bytes));
    printf("given back, free %zu bytes\n", free_after);
    close_device(device);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY)
        failed("refused with %s instead of CUDA_ERROR_OUT_OF_MEMORY", code_name(code));
    printf("PASSED\n");
    return 0;
}
