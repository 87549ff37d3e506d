/* Pieces of two vectors go to the GPU, are added and come back on streams of their own, from page-locked
 * memory, timed by events; runtime API. Then more is asked for than there is, and the error is told. */
#include "../include/runtime.h"

#define BLOCK 256u
#define STREAMS 4u

static double size = 1 << 18;

static const struct sample_option options[] = {
    {"size", "N", &size, "elements, in four pieces"},
};

int main(int argc, char **argv)
{
    read_options(argc, argv, "Adds vectors piece by piece on four streams.", options, OPTION_COUNT(options));
    if (size < STREAMS || size > 1u << 28)
        failed("--size must be from 4 to 2^28");
    unsigned piece = (unsigned)size / STREAMS, n = piece * STREAMS;
    size_t bytes = piece * sizeof(float);
    float *a, *b, *sum;
    CHECK(cudaMallocHost((void **)&a, bytes * STREAMS));
    CHECK(cudaMallocHost((void **)&b, bytes * STREAMS));
    CHECK(cudaMallocHost((void **)&sum, bytes * STREAMS));
    for (unsigned i = 0; i < n; i++)
        a[i] = (float)(i % 1000), b[i] = (float)(i % 77), sum[i] = -1;

    cudaKernel_t add = load_kernel("streamsRuntime", "vectorAdd");
    cudaStream_t streams[STREAMS];
    cudaEvent_t begun, ended[STREAMS];
    void *on[STREAMS][3];
    CHECK(cudaEventCreate(&begun));
    CHECK(cudaEventRecord(begun, NULL));
    for (unsigned s = 0; s < STREAMS; s++) {
        CHECK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&ended[s]));
        CHECK(cudaStreamWaitEvent(streams[s], begun, 0));
        for (int k = 0; k < 3; k++)
            CHECK(cudaMalloc(&on[s][k], bytes));
        void *parameters[] = {&on[s][0], &on[s][1], &on[s][2], &piece};
        CHECK(cudaMemcpyAsync(on[s][0], a + s * piece, bytes, cudaMemcpyHostToDevice, streams[s]));
        CHECK(cudaMemcpyAsync(on[s][1], b + s * piece, bytes, cudaMemcpyHostToDevice, streams[s]));
        CHECK(cudaLaunchKernel(add, (dim3){(piece + BLOCK - 1) / BLOCK, 1, 1}, (dim3){BLOCK, 1, 1}, parameters, 0,
                               streams[s]));
        CHECK(cudaMemcpyAsync(sum + s * piece, on[s][2], bytes, cudaMemcpyDeviceToHost, streams[s]));
        CHECK(cudaEventRecord(ended[s], streams[s]));
    }
    for (unsigned s = 0; s < STREAMS; s++) {
        float took_ms;
        CHECK(cudaEventSynchronize(ended[s]));
        CHECK(cudaStreamSynchronize(streams[s]));
        CHECK(cudaEventElapsedTime(&took_ms, begun, ended[s]));
        printf("piece %u was there after %.3f ms\n", s, (double)took_ms);
        CHECK(cudaEventDestroy(ended[s]));
        CHECK(cudaStreamDestroy(streams[s]));
        for (int k = 0; k < 3; k++)
            CHECK(cudaFree(on[s][k]));
    }
    for (unsigned i = 0; i < n; i++)
        if (sum[i] != a[i] + b[i])
            failed("element %u is %g, not %g", i, (double)sum[i], (double)(a[i] + b[i]));

    size_t free_bytes, total_bytes;
    void *much = NULL;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    cudaError_t code = cudaMalloc(&much, total_bytes + 1);
    if (code != cudaErrorMemoryAllocation || cudaPeekAtLastError() != code || cudaGetLastError() != code ||
        cudaGetLastError() != cudaSuccess)
        failed("more than all memory was answered with %u", code);
    CHECK(cudaEventDestroy(begun));
    CHECK(cudaFreeHost(a));
    CHECK(cudaFreeHost(b));
    CHECK(cudaFreeHost(sum));
    printf("PASSED\n");
    return 0;
}
