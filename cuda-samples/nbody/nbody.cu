/* One step of bodies that attract each other: every body reads all others, a block at a time through shared memory.
 * Made into nbody.ptx by the command in cuda-samples/README.md. */
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define TID(d) __nvvm_read_ptx_sreg_tid_##d()
#define CTA(d) __nvvm_read_ptx_sreg_ctaid_##d()
#define NTID(d) __nvvm_read_ptx_sreg_ntid_##d()
#define NCTA(d) __nvvm_read_ptx_sreg_nctaid_##d()
#define SYNC() __nvvm_bar_sync(0)

struct body { float x, y, z, mass; };

extern "C" __global__ void nbody(const struct body *bodies, struct body *moved, struct body *speeds, unsigned n,
                                 float seconds) {
    __shared__ struct body near[64];
    unsigned i = CTA(x) * NTID(x) + TID(x);
    struct body own = bodies[i < n ? i : 0];
    float ax = 0, ay = 0, az = 0;
    for (unsigned from = 0; from < n; from += 64) {
        if (from + TID(x) < n) near[TID(x)] = bodies[from + TID(x)];
        SYNC();
        unsigned count = n - from < 64 ? n - from : 64;
        for (unsigned k = 0; k < count; k++) {
            float dx = near[k].x - own.x, dy = near[k].y - own.y, dz = near[k].z - own.z;
            float square = dx * dx + dy * dy + dz * dz + 0.01f;
            float pull = near[k].mass / (square * __nvvm_sqrt_rn_f(square));
            ax += dx * pull, ay += dy * pull, az += dz * pull;
        }
        SYNC();
    }
    if (i >= n) return;
    struct body speed = speeds[i];
    speed.x += ax * seconds, speed.y += ay * seconds, speed.z += az * seconds;
    own.x += speed.x * seconds, own.y += speed.y * seconds, own.z += speed.z * seconds;
    speeds[i] = speed;
    moved[i] = own;
}
