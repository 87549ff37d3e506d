//! The driver as a program finds it: opened by its file, called by exported names.
//!
//! Tests of one file share a process, and so one machine with one card of 1 GiB; they take turns.
#![allow(dead_code, reason = "each test file uses a part of it")]

use libloading::Library;
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const ILLEGAL_ADDRESS: u32 = 700;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Props {
    pub(crate) kind: u32,
    pub(crate) handle_types: u32,
    pub(crate) location: [i32; 2],
    pub(crate) os: u64,
    pub(crate) flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AccessDesc {
    pub(crate) location: [i32; 2],
    pub(crate) flags: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) sides: [u64; 3],
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

/// `CUDA_ARRAY_MEMORY_REQUIREMENTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) bytes: u64,
    pub(crate) alignment: u64,
    reserved: [u32; 4],
}

/// One side of a `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Side3d {
    /// Bytes, rows, slices, level.
    pub(crate) from: [u64; 4],
    pub(crate) kind: u32,
    pub(crate) host: usize,
    pub(crate) device: u64,
    pub(crate) array: usize,
    pub(crate) reserved: usize,
    pub(crate) pitch: u64,
    pub(crate) height: u64,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Copy3d {
    pub(crate) source: Side3d,
    pub(crate) target: Side3d,
    /// Bytes, rows, slices.
    pub(crate) extent: [u64; 3],
}

pub(crate) const ON_CARD: Props =
    Props { kind: 1, handle_types: 0, location: [1, 0], os: 0, flags: [0; 8] };
pub(crate) const SHAREABLE: Props = Props { handle_types: 1, ..ON_CARD };

macro_rules! driver {
    ($($name:ident($($arg:ident: $ty:ty),*);)*) => {
        /// The functions that the tests call.
        #[allow(non_snake_case, reason = "the vendor's own names")]
        pub(crate) struct Driver {
            $($name: extern "C" fn($($ty),*) -> u32,)*
            _library: Library,
        }

        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the vendor's own names and signatures")]
        impl Driver {
            fn open() -> Self {
                // SAFETY: the library is this package's own; loading it runs no code of its.
                let library = unsafe { Library::new(library_file()) }.expect("the driver's file");
                Self {
                    // SAFETY: the types are those of the vendor's header for these names.
                    $($name: unsafe { *library.get(stringify!($name)).expect(stringify!($name)) },)*
                    _library: library,
                }
            }

            $(pub(crate) fn $name(&self, $($arg: $ty),*) -> u32 { (self.$name)($($arg),*) })*
        }
    };
}

driver! {
    cuInit(flags: u32);
    cuDevicePrimaryCtxRetain(context: &mut usize, device: i32);
    cuDevicePrimaryCtxReset_v2(device: i32);
    cuCtxSetCurrent(context: usize);
    cuCtxSynchronize();
    cuMemGetInfo_v2(free: &mut u64, total: &mut u64);
    cuMemAlloc_v2(address: &mut u64, bytes: u64);
    cuMemFree_v2(address: u64);
    cuMemsetD8_v2(at: u64, byte: u8, count: u64);
    cuMemsetD8Async(at: u64, byte: u8, count: u64, stream: usize);
    cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: u64);
    cuMemcpyHtoD_v2(to: u64, from: *const u8, bytes: u64);
    cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: u64, stream: usize);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: u64, stream: usize);
    cuMemAllocHost_v2(at: &mut u64, bytes: u64);
    cuMemFreeHost(at: u64);
    cuLaunchHostFunc(stream: usize, function: extern "C" fn(usize), data: usize);
    cuMemCreate(handle: &mut u64, bytes: u64, props: &Props, flags: u64);
    cuMemRelease(handle: u64);
    cuMemRetainAllocationHandle(handle: &mut u64, at: u64);
    cuMemAddressReserve(at: &mut u64, bytes: u64, align: u64, hint: u64, flags: u64);
    cuMemAddressFree(at: u64, bytes: u64);
    cuMemMap(at: u64, bytes: u64, offset: u64, handle: u64, flags: u64);
    cuMemUnmap(at: u64, bytes: u64);
    cuMemSetAccess(at: u64, bytes: u64, access: &AccessDesc, count: u64);
    cuMemExportToShareableHandle(to: &mut i32, handle: u64, kind: u32, flags: u64);
    cuMemImportFromShareableHandle(handle: &mut u64, from: usize, kind: u32);
    cuStreamCreate(stream: &mut usize, flags: u32);
    cuStreamDestroy_v2(stream: usize);
    cuStreamQuery(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamWaitEvent(stream: usize, event: usize, flags: u32);
    cuStreamWaitValue32_v2(stream: usize, at: u64, value: u32, flags: u32);
    cuStreamWriteValue32_v2(stream: usize, at: u64, value: u32, flags: u32);
    cuEventCreate(event: &mut usize, flags: u32);
    cuEventRecord(event: usize, stream: usize);
    cuEventQuery(event: usize);
    cuEventSynchronize(event: usize);
    cuEventElapsedTime_v2(milliseconds: &mut f32, from: usize, to: usize);
    cuModuleLoadData(module: &mut usize, text: *const c_void);
    cuModuleGetFunction(function: &mut usize, module: usize, name: *const c_void);
    cuModuleGetGlobal_v2(at: &mut u64, bytes: &mut u64, module: usize, name: *const c_void);
    cuModuleUnload(module: usize);
    cuLinkCreate_v2(count: u32, names: *const i32, values: *const usize, state: &mut usize);
    cuLinkAddData_v2(
        state: usize, kind: u32, data: *const u8, bytes: u64, name: *const c_void, count: u32,
        names: *const i32, values: *const usize
    );
    cuLinkAddFile_v2(
        state: usize, kind: u32, path: *const c_void, count: u32, names: *const i32,
        values: *const usize
    );
    cuLinkComplete(state: usize, image: &mut *const c_void, bytes: &mut u64);
    cuLinkDestroy(state: usize);
    cuLaunchKernel(
        function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: usize, params: *const *const c_void, extra: *const *const c_void
    );
    cuPointerGetAttribute(to: &mut u64, attribute: u32, at: u64);
    cuArray3DCreate_v2(array: &mut usize, shape: &Shape);
    cuArray3DGetDescriptor_v2(shape: &mut Shape, array: usize);
    cuArrayDestroy(array: usize);
    cuArrayGetMemoryRequirements(needs: &mut Needs, array: usize, device: i32);
    cuMipmappedArrayCreate(mipmap: &mut usize, shape: &Shape, levels: u32);
    cuMipmappedArrayGetLevel(array: &mut usize, mipmap: usize, level: u32);
    cuMipmappedArrayDestroy(mipmap: usize);
    cuMipmappedArrayGetMemoryRequirements(needs: &mut Needs, mipmap: usize, device: i32);
    cuMemcpyHtoA_v2(array: usize, offset: u64, from: *const u8, bytes: u64);
    cuMemcpyAtoH_v2(to: *mut u8, array: usize, offset: u64, bytes: u64);
    cuMemcpyAtoA_v2(to: usize, offset: u64, from: usize, from_offset: u64, bytes: u64);
    cuMemcpy3D_v2(copy: &Copy3d);
}

/// The test's turn: started driver, primary context current.
pub(crate) struct Turn {
    pub(crate) driver: &'static Driver,
    pub(crate) context: usize,
    _alone: MutexGuard<'static, ()>,
}

pub(crate) fn turn() -> Turn {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let driver = DRIVER.get_or_init(|| {
        prepare();
        Driver::open()
    });
    assert_eq!(driver.cuInit(0), 0);
    let mut context = 0;
    assert_eq!(driver.cuDevicePrimaryCtxRetain(&mut context, 0), 0);
    assert_eq!(driver.cuCtxSetCurrent(context), 0);
    Turn { driver, context, _alone: alone }
}

impl Turn {
    pub(crate) fn free_bytes(&self) -> u64 {
        let (mut free, mut total) = (0, 0);
        assert_eq!(self.driver.cuMemGetInfo_v2(&mut free, &mut total), 0);
        free
    }

    pub(crate) fn allocate(&self, bytes: u64) -> u64 {
        let mut address = 0;
        assert_eq!(self.driver.cuMemAlloc_v2(&mut address, bytes), 0);
        address
    }

    pub(crate) fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut seen = vec![0; bytes];
        assert_eq!(self.driver.cuMemcpyDtoH_v2(seen.as_mut_ptr(), at, bytes as u64), 0);
        seen
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        assert_eq!(self.driver.cuMemcpyHtoD_v2(at, bytes.as_ptr(), bytes.len() as u64), 0);
    }

    pub(crate) fn create(&self, bytes: u64, props: &Props) -> u64 {
        let mut handle = 0;
        assert_eq!(self.driver.cuMemCreate(&mut handle, bytes, props, 0), 0);
        handle
    }

    pub(crate) fn reserve(&self, bytes: u64) -> u64 {
        let mut at = 0;
        assert_eq!(self.driver.cuMemAddressReserve(&mut at, bytes, 0, 0, 0), 0);
        at
    }

    /// Maps the handle and gives the card access.
    pub(crate) fn map(&self, at: u64, bytes: u64, handle: u64) {
        assert_eq!(self.driver.cuMemMap(at, bytes, 0, handle, 0), 0);
        assert_eq!(self.driver.cuMemSetAccess(at, bytes, &READ_WRITE, 1), 0);
    }

    pub(crate) fn event(&self) -> usize {
        let mut event = 0;
        assert_eq!(self.driver.cuEventCreate(&mut event, 0), 0);
        event
    }

    /// An event in the stream, behind what it has now.
    pub(crate) fn record(&self, stream: usize) -> usize {
        let event = self.event();
        assert_eq!(self.driver.cuEventRecord(event, stream), 0);
        event
    }

    /// Milliseconds between two events that have passed.
    pub(crate) fn between(&self, from: usize, to: usize) -> f64 {
        let mut milliseconds = f32::NAN;
        assert_eq!(self.driver.cuEventElapsedTime_v2(&mut milliseconds, from, to), 0);
        f64::from(milliseconds)
    }

    pub(crate) fn stream(&self) -> usize {
        let mut stream = 0;
        assert_eq!(self.driver.cuStreamCreate(&mut stream, 1), 0);
        stream
    }

    pub(crate) fn module(&self, ptx: &str) -> usize {
        let text = CString::new(ptx).expect("no null byte");
        let mut module = 0;
        assert_eq!(self.driver.cuModuleLoadData(&mut module, text.as_ptr().cast()), 0);
        module
    }

    pub(crate) fn function(&self, module: usize, name: &str) -> usize {
        let name = CString::new(name).expect("no null byte");
        let mut function = 0;
        assert_eq!(self.driver.cuModuleGetFunction(&mut function, module, name.as_ptr().cast()), 0);
        function
    }

    /// Launches one block with 64-bit parameters.
    pub(crate) fn launch(
        &self,
        function: usize,
        threads: u32,
        stream: usize,
        params: &[u64],
    ) -> u32 {
        self.launch_grid(function, (1, threads), stream, params)
    }

    /// Launches so many blocks of so many threads with 64-bit parameters.
    pub(crate) fn launch_grid(
        &self,
        function: usize,
        (blocks, threads): (u32, u32),
        stream: usize,
        params: &[u64],
    ) -> u32 {
        let pointers: Vec<*const c_void> =
            params.iter().map(|p| std::ptr::from_ref(p).cast()).collect();
        let params = pointers.as_ptr();
        self.driver.cuLaunchKernel(
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            0,
            stream,
            params,
            std::ptr::null(),
        )
    }
}

pub(crate) const READ_WRITE: AccessDesc = AccessDesc { location: [1, 0], flags: 3 };

/// Folder of this build's libraries and programs: two above the test's own file.
fn build_folder() -> PathBuf {
    let own = std::env::current_exe().expect("this test's file");
    own.ancestors().nth(2).expect("a build folder").to_owned()
}

/// The driver under test: this build's, unless another is named.
pub(crate) fn library_file() -> PathBuf {
    let named = std::env::var_os("CUDA_DRIVER_UNDER_TEST");
    named.map_or_else(|| build_folder().join("libcuda.so"), PathBuf::from)
}

/// One small card, or two for the rules that need a neighbour.
fn profile() -> &'static str {
    let own = std::env::current_exe().expect("this test's file");
    let is_conformance =
        own.file_name().is_some_and(|name| name.to_string_lossy().starts_with("conformance"));
    let two = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/two.toml");
    if is_conformance { two } else { "toy" }
}

/// Builds the driver and the machine's server, and chooses a machine for this process (or the
/// one of the test that started it).
fn prepare() {
    let given = ["SIMCUDA_MACHINE", "CUDA_DRIVER_UNDER_TEST"];
    if given.iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    // Cargo builds the driver for its tests too, but does not put it where it is loaded from.
    let packages = ["build", "--quiet", "-p", "simcudad", "-p", "simcuda-driver"];
    let built = Command::new(env!("CARGO")).args(packages).status();
    assert!(built.expect("cargo runs").success(), "server and driver could not be built");
    let folder = std::env::temp_dir().join(format!("simcuda-driver-test-{}", std::process::id()));
    let machine = [
        ("SIMCUDA_DIR", folder.to_str().expect("text")),
        ("SIMCUDA_MACHINE", "m"),
        ("SIMCUDA_PROFILE", profile()),
        ("SIMCUDA_STRICT", "1"),
    ];
    for (name, value) in machine {
        // SAFETY: tests take turns, and the first one is here before any thread reads the
        // environment.
        unsafe { std::env::set_var(name, value) };
    }
}
