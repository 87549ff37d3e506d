import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;

/** Java that calls the driver by its foreign-function interface, with no native code of its own. */
public class ForeignRoad {
    private static final SymbolLookup DRIVER = SymbolLookup.libraryLookup("libcuda.so.1", Arena.global());

    private static MethodHandle find(String name, MemoryLayout... parameters) {
        return Linker.nativeLinker()
                .downcallHandle(DRIVER.find(name).orElseThrow(), FunctionDescriptor.of(JAVA_INT, parameters));
    }

    public static void main(String[] arguments) throws Throwable {
        MethodHandle init = find("cuInit", JAVA_INT);
        MethodHandle retain = find("cuDevicePrimaryCtxRetain", ADDRESS, JAVA_INT);
        MethodHandle current = find("cuCtxSetCurrent", ADDRESS);
        MethodHandle alloc = find("cuMemAlloc_v2", ADDRESS, JAVA_LONG);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(ADDRESS);
            int start = (int) init.invokeExact(0) + (int) retain.invokeExact(out, 0);
            start += (int) current.invokeExact(out.get(ADDRESS, 0));
            if (start != 0) {
                System.out.println("LOST start gave " + start);
                return;
            }
            int first = (int) alloc.invokeExact(out, 64L << 20);
            int second = (int) alloc.invokeExact(out, 1088L << 20);
            System.out.printf("ROAD java-foreign %d %d %d%n", ProcessHandle.current().pid(), first, second);
        }
    }
}
