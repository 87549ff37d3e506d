//! Rules: plain, pitched and page-locked memory, and memory by modules.

use crate::api::MIB;
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

const PTX: &std::ffi::CStr = c"
.version 7.5
.target sm_75
.address_size 64
.visible .global .align 4 .u32 value = 5;
.visible .entry set(.param .u64 at) { .reg .u64 %a; .reg .u32 %b; ld.param.u64 %a, [at]; mov.u32 %b, 3; st.global.u32 [%a], %b; ret; }
";

fn free_bytes() -> u64 {
    let (mut free, mut total) = (0_u64, 0_u64);
    ok!("cuMemGetInfo_v2", &mut free, &mut total);
    free
}

rules! {
    /// cuda.h, cuMemAlloc: allocates bytesize bytes of linear memory on the device; bytesize 0 is
    /// CUDA_ERROR_INVALID_VALUE; cuMemFree frees what cuMemAlloc or cuMemAllocPitch returned.
    fn plain_memory_is_taken_and_given_back(turn) covers [cuMemAlloc_v2, cuMemFree_v2] {
        let before = free_bytes();
        let mut at = 0_u64;
        ok!("cuMemAlloc_v2", &mut at, 64 * MIB);
        assert_eq!(free_bytes(), before - 64 * MIB);
        turn.write(at + 64 * MIB - 4, &[1, 2, 3, 4]);
        assert_eq!(turn.read(at + 64 * MIB - 4, 4), [1, 2, 3, 4]);
        fails!(1, "cuMemFree_v2", at + 512);
        ok!("cuMemFree_v2", at);
        assert_eq!(free_bytes(), before);
        fails!(1, "cuMemFree_v2", at);
        fails!(1, "cuMemAlloc_v2", &mut at, 0_u64);
        fails!(1, "cuMemAlloc_v2", NULL, MIB);
        fails!(2, "cuMemAlloc_v2", &mut at, 1_u64 << 50);
        assert_eq!(free_bytes(), before);
    }

    /// cuda.h, cuMemAllocPitch: at least WidthInBytes * Height bytes, rows a pitch apart that meets
    /// the alignment of ElementSizeBytes, which is 4, 8 or 16.
    fn pitched_memory_has_room_for_all_its_rows(turn) covers [cuMemAllocPitch_v2] {
        let (mut at, mut pitch) = (0_u64, 0_u64);
        ok!("cuMemAllocPitch_v2", &mut at, &mut pitch, 1000_u64, 100_u64, 4_u32);
        assert!(pitch >= 1000 && pitch.is_multiple_of(256), "a pitch of {pitch}");
        turn.write(at + 99 * pitch + 996, &[1, 2, 3, 4]);
        assert_eq!(turn.read(at + 99 * pitch + 996, 4), [1, 2, 3, 4]);
        fails!(1, "cuMemAllocPitch_v2", &mut at, &mut pitch, 1000_u64, 100_u64, 5_u32);
        fails!(1, "cuMemAllocPitch_v2", &mut at, NULL, 1000_u64, 100_u64, 4_u32);
        ok!("cuMemFree_v2", at);
    }

    /// cuda.h, cuMemHostAlloc, cuMemAllocHost: page-locked host memory that the device can access,
    /// as is its device pointer; cuMemFreeHost frees it. No device pays for it.
    fn page_locked_memory_is_the_hosts_and_the_cards_too(turn) covers [
        cuMemHostAlloc, cuMemAllocHost, cuMemAllocHost_v2, cuMemFreeHost
    ] {
        let before = free_bytes();
        let memory = turn.allocate(MIB);
        for name in ["cuMemHostAlloc", "cuMemAllocHost", "cuMemAllocHost_v2"] {
            let mut host = 0_usize;
            if name == "cuMemHostAlloc" {
                ok!(name, &mut host, 4096_u64, 2_u32);
                fails!(1, name, &mut host, 4096_u64, 0x100_u32);
            } else {
                ok!(name, &mut host, 4096_u64);
                fails!(1, name, NULL, 4096_u64);
            }
            let mut device = 0_u64;
            ok!("cuMemHostGetDevicePointer_v2", &mut device, host, 0_u32);
            ok!("cuMemsetD8_v2", device, 7_u32, 16_u64);
            ok!("cuMemcpyDtoD_v2", memory, device, 16_u64);
            assert_eq!(turn.read(memory, 16), [7; 16]);
            ok!("cuMemFreeHost", host);
            fails!(1, "cuMemFreeHost", host);
        }
        ok!("cuMemFree_v2", memory);
        assert_eq!(free_bytes(), before);
        fails!(1, "cuMemFreeHost", NULL);
    }

    /// cuda.h, cuMemHostRegister: page-locks memory of the program and maps it for the device;
    /// registered twice is CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712), unregistering what is
    /// not registered CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED (713).
    fn registered_memory_is_known_to_the_card(turn) covers [
        cuMemHostRegister, cuMemHostRegister_v2, cuMemHostUnregister
    ] {
        let pages = vec![3_u8; 1 << 16];
        let at = pages.as_ptr() as u64;
        let memory = turn.allocate(MIB);
        for name in ["cuMemHostRegister", "cuMemHostRegister_v2"] {
            ok!(name, at, 1_u64 << 16, 2_u32);
            fails!(712, name, at, 1_u64 << 16, 2_u32);
            let mut device = 0_u64;
            ok!("cuMemHostGetDevicePointer_v2", &mut device, at, 0_u32);
            ok!("cuMemcpyDtoD_v2", memory, device, 16_u64);
            assert_eq!(turn.read(memory, 16), [3; 16]);
            ok!("cuMemHostUnregister", at);
            fails!(713, "cuMemHostUnregister", at);
            fails!(1, name, NULL, 4096_u64, 0_u32);
            fails!(1, name, at, 4096_u64, 0x100_u32);
        }
    }

    /// cuda.h, cuModuleLoadData, cuModuleLoad, cuModuleLoadFatBinary: loads a module into the
    /// current context; cuModuleUnload: its handles are not valid after it.
    fn a_module_brings_its_kernels_and_takes_them_away(turn) covers [
        cuModuleLoad, cuModuleLoadData, cuModuleLoadDataEx, cuModuleLoadFatBinary, cuModuleUnload
    ] {
        let memory = turn.allocate(MIB);
        let file = std::env::temp_dir().join(format!("conformance-{}.ptx", std::process::id()));
        std::fs::write(&file, PTX.to_bytes_with_nul()).expect("a file");
        let path = std::ffi::CString::new(file.to_str().expect("text")).expect("no null");
        for name in ["cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary"] {
            let (mut module, mut function) = (0_usize, 0_usize);
            match name {
                "cuModuleLoad" => ok!(name, &mut module, path.as_ptr() as u64),
                "cuModuleLoadDataEx" => {
                    ok!(name, &mut module, PTX.as_ptr() as u64, 0_u32, NULL, NULL);
                }
                _ => ok!(name, &mut module, PTX.as_ptr() as u64),
            }
            ok!("cuModuleGetFunction", &mut function, module, c"set".as_ptr() as u64);
            turn.write(memory, &[0; 4]);
            assert_eq!(turn.launch(function, 1, 0, &[memory]), 0);
            assert_eq!(turn.read(memory, 4), [3, 0, 0, 0]);
            ok!("cuModuleUnload", module);
            assert_eq!(turn.launch(function, 1, 0, &[memory]), 400);
            fails!(400, "cuModuleUnload", module);
        }
        let mut module = 0_usize;
        fails!(301, "cuModuleLoad", &mut module, c"/nowhere/at/all".as_ptr() as u64);
        std::fs::remove_file(file).expect("the file is there");
    }

    /// cuda.h, cuLibraryLoadData, cuLibraryLoadFromFile: loads a library, whose kernels are there
    /// in every context; cuLibraryUnload: using its handles afterwards is an error.
    fn a_library_brings_its_kernels_and_takes_them_away(turn) covers [
        cuLibraryLoadData, cuLibraryLoadFromFile, cuLibraryUnload
    ] {
        let memory = turn.allocate(MIB);
        let file = std::env::temp_dir().join(format!("conformance-l-{}.ptx", std::process::id()));
        std::fs::write(&file, PTX.to_bytes_with_nul()).expect("a file");
        let path = std::ffi::CString::new(file.to_str().expect("text")).expect("no null");
        for (name, from) in [("cuLibraryLoadData", PTX.as_ptr()), ("cuLibraryLoadFromFile", path.as_ptr())] {
            let (mut library, mut kernel) = (0_usize, 0_usize);
            ok!(name, &mut library, from as u64, NULL, NULL, 0_u32, NULL, NULL, 0_u32);
            ok!("cuLibraryGetKernel", &mut kernel, library, c"set".as_ptr() as u64);
            turn.write(memory, &[0; 4]);
            assert_eq!(turn.launch(kernel, 1, 0, &[memory]), 0);
            assert_eq!(turn.read(memory, 4), [3, 0, 0, 0]);
            ok!("cuLibraryUnload", library);
            fails!(400, "cuLibraryUnload", library);
        }
        std::fs::remove_file(file).expect("the file is there");
    }
}
