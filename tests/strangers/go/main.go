// Go with cgo: linked to the driver, called from goroutines that are each locked to a thread.
package main

/*
#cgo LDFLAGS: -lcuda
#include <stddef.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *p, size_t bytes);

static int start(void) {
	void *context = NULL;
	int code = cuInit(0);
	if (!code) code = cuDevicePrimaryCtxRetain(&context, 0);
	return code ? code : cuCtxSetCurrent(context);
}
static int ask(size_t bytes) {
	unsigned long long p;
	return cuMemAlloc_v2(&p, bytes);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

func main() {
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			runtime.LockOSThread()
			if code := C.start(); code != 0 {
				fmt.Println("LOST start gave", code)
				return
			}
			first := C.ask(64 << 20)
			fmt.Printf("ROAD go %d %d %d\n", os.Getpid(), first, C.ask(1088<<20))
		}()
	}
	all.Wait()
}
