/* Measures copies host to device, device to device and device to host with events, and checks that
 * the data came through all three unchanged. */
#include "../include/sample.h"

static double size_bytes = 33554432, iterations = 10;

static const struct sample_option options[] = {
    {"size", "BYTES", &size_bytes, "size of a copy, for example 32MiB"},
    {"iterations", "N", &iterations, "copies each way"},
};

struct copy {
    CUdeviceptr device_from, device_to;
    void *host_from, *host_to;
};

static void one(const struct copy *copy, size_t bytes, CUstream stream)
{
    if (copy->host_from)
        CHECK(cuMemcpyHtoDAsync(copy->device_to, copy->host_from, bytes, stream));
    else if (copy->host_to)
        CHECK(cuMemcpyDtoHAsync(copy->host_to, copy->device_from, bytes, stream));
    else
        CHECK(cuMemcpyDtoDAsync(copy->device_to, copy->device_from, bytes, stream));
}

static void measure(const char *name, const struct copy *copy, size_t bytes, CUstream stream)
{
    CUevent start, end;
    float milliseconds;
    CHECK(cuEventCreate(&start, 0));
    CHECK(cuEventCreate(&end, 0));
    CHECK(cuEventRecord(start, stream));
    for (unsigned i = 0; i < (unsigned)iterations; i++)
        one(copy, bytes, stream);
    CHECK(cuEventRecord(end, stream));
    CHECK(cuEventSynchronize(end));
    CHECK(cuEventElapsedTime(&milliseconds, start, end));
    if (!(milliseconds > 0))
        failed("%s took no time", name);
    printf("%-16s %8.2f GB/s\n", name, (double)bytes * iterations / (double)milliseconds / 1e6);
    CHECK(cuEventDestroy(start));
    CHECK(cuEventDestroy(end));
}

int main(int argc, char **argv)
{
    read_options(argc, argv, "Measures the speed of copies from and to pinned host memory.", options,
                 OPTION_COUNT(options));
    if (size_bytes < 4 || iterations < 1 || iterations > 1e6)
        failed("--size at least 4, --iterations 1 to 1000000");
    iterations = (double)(unsigned)iterations;
    size_t bytes = (size_t)size_bytes;

    CUdevice device = open_device();
    CUstream stream;
    CUdeviceptr first, second;
    void *sent, *received;
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuMemAllocHost(&sent, bytes));
    CHECK(cuMemAllocHost(&received, bytes));
    CHECK(cuMemAlloc(&first, bytes));
    CHECK(cuMemAlloc(&second, bytes));
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)sent)[i] = (unsigned char)(i * 2654435761u >> 24);
    memset(received, 0, bytes);

    printf("%u copies of %zu bytes each way\n", (unsigned)iterations, bytes);
    measure("host to device", &(struct copy){.host_from = sent, .device_to = first}, bytes, stream);
    measure("device to device", &(struct copy){.device_from = first, .device_to = second}, bytes,
            stream);
    measure("device to host", &(struct copy){.device_from = second, .host_to = received}, bytes,
            stream);
    CHECK(cuStreamSynchronize(stream));
    if (memcmp(sent, received, bytes) != 0)
        failed("what came back is not what was sent");

    CHECK(cuMemFree(first));
    CHECK(cuMemFree(second));
    CHECK(cuMemFreeHost(sent));
    CHECK(cuMemFreeHost(received));
    CHECK(cuStreamDestroy(stream));
    close_device(device);
    printf("PASSED\n");
    return 0;
}
