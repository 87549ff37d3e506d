/* A library of somebody else's that exports functions by the driver's names for its own ends, as mock
 * drivers and tracers do. They answer codes that no driver has. */
int cuInit(unsigned flags) { return (int)flags + 4001; }
int cuMemAlloc_v2(void *out, unsigned long bytes) { return out ? (int)bytes + 4002 : 4003; }
int nvmlInit_v2(void) { return 4004; }
