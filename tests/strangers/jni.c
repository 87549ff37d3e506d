/* The native half of JniRoad.java. */
#include <jni.h>
#include "../roads/road.h"

static void *handle;
static void *find(const char *name) { return dlsym(handle, name); }

JNIEXPORT jint JNICALL Java_JniRoad_go(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    handle = opened("libcuda.so.1", RTLD_NOW);
    return walk("java-jni", find);
}
