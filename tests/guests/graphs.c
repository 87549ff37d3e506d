/* MEM-05: memory nodes of graphs, under a limit of 4 GiB. After each part it waits for a line, so that
 * its figures can be compared with the card's. */
#include "case.h"

DRIVER(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))
DRIVER(cuDeviceGraphMemTrim, (CUdevice device), (device))

static CUstream stream;

/* A graph that takes, fills and gives back, or keeps. */
static CUgraph take_fill_give(size_t bytes, int gives, CUdeviceptr *p) {
    CUgraph graph;
    MUST(cuStreamBeginCapture_v2(stream, 0));
    MUST(cuMemAllocAsync(p, bytes, stream));
    MUST(cuMemsetD8Async(*p, 7, bytes, stream));
    if (gives) MUST(cuMemFreeAsync(*p, stream));
    MUST(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void show(const char *part) {
    char line[16];
    printf("PART %s %zu\n", part, total_bytes() - free_bytes());
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin), "nobody answers");
}

int main(void) {
    case_id = "MEM-05";
    CUdeviceptr p, q;
    CUgraphExec exec, other, third;
    first_gpu();
    expect_limit(4 * GiB);
    MUST(cuStreamCreate(&stream, 1));
    size_t before = free_bytes();

    CUgraph graph = take_fill_give(1 * GiB, 1, &p);
    CHECK(free_bytes() == before, "a capture costs nothing");
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(free_bytes() == before, "an executable graph that was never launched costs nothing");
    for (int i = 0; i < 10; i++) MUST(cuGraphLaunch(exec, stream));
    MUST(cuStreamSynchronize(stream));
    CHECK(before - free_bytes() >= 1 * GiB, "what the node has is not counted");
    show("backed");
    MUST(cuDeviceGraphMemTrim(0));
    CHECK(free_bytes() == before, "%zu bytes are left after a trim", before - free_bytes());
    show("trimmed");
    MUST(cuGraphUpload(exec, stream));
    MUST(cuGraphLaunch(exec, stream));
    MUST(cuStreamSynchronize(stream));

    size_t room = free_bytes();
    CUgraph large = take_fill_give(room - 2 * MiB, 1, &q);
    MUST(cuGraphInstantiateWithFlags(&other, large, 0));
    MUST(cuMemAlloc_v2(&p, 2 * GiB));
    CUresult code = cuGraphLaunch(other, stream);
    CHECK(code == OUT_OF_MEMORY, "a launch without room for its node gave %d", code);
    MUST(cuMemFree_v2(p));
    MUST(cuGraphLaunch(other, stream));
    MUST(cuStreamSynchronize(stream));
    show("both");

    CUgraph huge = take_fill_give(5 * GiB, 1, &q);
    code = cuGraphInstantiateWithFlags(&third, huge, 0);
    CHECK(code == OUT_OF_MEMORY, "a node of 5 GiB gave %d", code);
    MUST(cuGraphDestroy(huge));

    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphExecDestroy(other));
    MUST(cuGraphDestroy(graph));
    MUST(cuGraphDestroy(large));
    MUST(cuDeviceGraphMemTrim(0));
    CHECK(free_bytes() == before, "free is %zu, was %zu", free_bytes(), before);
    MUST(cuMemAlloc_v2(&p, 64 * MiB));
    show("one");
    pass();
}
