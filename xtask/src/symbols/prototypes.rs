//! Each row of the table against NVIDIA's own declaration, by gcc.
//!
//! A C file states every row's prototype from the table's Rust spellings and asks the compiler
//! whether it is the type that the typedef headers declare for that name and version. Sizes and
//! field offsets of the structs that we look into are compared the same way. The headers come from
//! pip and are never committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use shim_cuda_headers::types::*;
use shim_cuda_headers::{DriverFn, DriverRow, types};

use crate::command::target;

/// Headers of other projects that NVIDIA's include: only the few types named in prototypes.
const STAND_INS: &[(&str, &str)] = &[
    ("GL/gl.h", "typedef unsigned int GLuint; typedef unsigned int GLenum;"),
    ("EGL/egl.h", "typedef int EGLint; typedef unsigned int EGLBoolean;"),
    (
        "EGL/eglext.h",
        "typedef void *EGLImageKHR; typedef void *EGLStreamKHR; typedef void *EGLSyncKHR;",
    ),
    (
        "cudaProfiler.h",
        "#include <cuda.h>\ntypedef enum { CU_OUT_KEY_VALUE_PAIR, CU_OUT_CSV } CUoutput_mode;",
    ),
    (
        "vdpau/vdpau.h",
        "typedef unsigned int VdpDevice; typedef unsigned int VdpVideoSurface; \
         typedef unsigned int VdpOutputSurface; \
         typedef int VdpGetProcAddress(VdpDevice, unsigned int, void **);",
    ),
];

macro_rules! value_sizes {
    ($($symbol:ident $asked:literal $version:literal $stream:ident $memory:ident $gate:ident
       $capture:ident $lifetime:ident $start:ident $answer:ident
       ($($arg:ident: $ty:ty),*);)*) => {
        /// Size of every type that stands in a row, by its spelling.
        fn spelled_sizes() -> BTreeMap<&'static str, usize> {
            use core::ffi::{
                c_char, c_int, c_longlong, c_uchar, c_uint, c_ulonglong, c_ushort, c_void,
            };
            let _ = (size_of::<c_char>(), size_of::<c_longlong>(), size_of::<c_void>());
            BTreeMap::from([$($((stringify!($ty), size_of::<$ty>()),)*)*])
        }
    };
}
shim_cuda_headers::driver_table!(value_sizes);

macro_rules! layouts {
    ($($name:ident { $($field:ident = $theirs:literal),* $(,)? })*) => {
        /// Size and field offsets of the structs that we look into: name, size, fields.
        fn layouts() -> Vec<(&'static str, usize, Vec<(&'static str, usize)>)> {
            vec![$((
                stringify!($name),
                size_of::<types::$name>(),
                vec![$(($theirs, offset_of!(types::$name, $field))),*],
            )),*]
        }
    };
}

layouts! {
    CUuuid { bytes = "bytes" }
    CUmemLocation { kind = "type", id = "id" }
    CUmemAllocationProp_v1 {
        kind = "type", requested_handle_types = "requestedHandleTypes", location = "location",
        win32_handle_meta_data = "win32HandleMetaData",
        compression_type = "allocFlags.compressionType",
        gpu_direct_rdma_capable = "allocFlags.gpuDirectRDMACapable", usage = "allocFlags.usage",
    }
    CUmemAccessDesc_v1 { location = "location", flags = "flags" }
    CUmemPoolProps_v1 {
        alloc_type = "allocType", handle_types = "handleTypes", location = "location",
        win32_security_attributes = "win32SecurityAttributes", max_size = "maxSize", usage = "usage",
    }
    CUDA_ARRAY_DESCRIPTOR_v2 {
        width = "Width", height = "Height", format = "Format", num_channels = "NumChannels",
    }
    CUDA_ARRAY3D_DESCRIPTOR_v2 {
        width = "Width", height = "Height", depth = "Depth", format = "Format",
        num_channels = "NumChannels", flags = "Flags",
    }
    CUDA_ARRAY_DESCRIPTOR_v1 {
        width = "Width", height = "Height", format = "Format", num_channels = "NumChannels",
    }
    CUDA_ARRAY3D_DESCRIPTOR_v1 {
        width = "Width", height = "Height", depth = "Depth", format = "Format",
        num_channels = "NumChannels", flags = "Flags",
    }
    CUDA_ARRAY_MEMORY_REQUIREMENTS_v1 { size = "size", alignment = "alignment" }
    CUlaunchConfig {
        grid_dim = "gridDimX", block_dim = "blockDimX", shared_mem_bytes = "sharedMemBytes",
        stream = "hStream", attrs = "attrs", num_attrs = "numAttrs",
    }
    CUDA_MEMCPY2D_v2 {
        src = "srcXInBytes", dst = "dstXInBytes", width_in_bytes = "WidthInBytes",
        height = "Height",
    }
    CUDA_MEMCPY3D_v2 {
        src = "srcXInBytes", dst = "dstXInBytes", width_in_bytes = "WidthInBytes",
        height = "Height", depth = "Depth",
    }
    CUDA_KERNEL_NODE_PARAMS_v2 {
        func = "func", grid_dim = "gridDimX", block_dim = "blockDimX",
        shared_mem_bytes = "sharedMemBytes", kernel_params = "kernelParams", extra = "extra",
        kern = "kern", ctx = "ctx",
    }
    CUDA_MEMSET_NODE_PARAMS_v1 {
        dst = "dst", pitch = "pitch", value = "value", element_size = "elementSize",
        width = "width", height = "height",
    }
    CUipcMemHandle_v1 {} CUipcEventHandle_v1 {} CUeglFrame_v1 {}
}

/// Compiles the comparison; the compiler's complaints are the differences.
pub(crate) fn compare(include: &Path) -> Result<()> {
    let folder = target().join("prototypes");
    for (name, text) in STAND_INS {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap_or(&folder))?;
        std::fs::write(&file, format!("#pragma once\n{text}\n"))?;
    }
    let source = folder.join("prototypes.c");
    std::fs::write(&source, text()?)?;
    let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "gcc".into()))
        .args(["-fsyntax-only", "-std=gnu11", "-fmax-errors=0", "-fno-diagnostics-show-caret"])
        // Also the forms that only old binaries ask for.
        .arg("-D__CUDA_API_VERSION_INTERNAL")
        .arg("-I")
        .arg(&folder)
        .arg("-isystem")
        .arg(include)
        .arg(&source)
        .output()?;
    if !output.status.success() {
        let complaints = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<&str> = complaints.lines().filter(|line| line.contains("error:")).collect();
        bail!(
            "{} differences between the table and NVIDIA's headers:\n{}",
            errors.len(),
            errors.iter().take(40).copied().collect::<Vec<_>>().join("\n")
        );
    }
    Ok(())
}

fn text() -> Result<String> {
    let mut c = String::from(
        "/* Made by `cargo xtask symbols`. */\n#include <stddef.h>\n#include <stdint.h>\n",
    );
    for header in ["", "GL", "EGL", "VDPAU", "Profiler"] {
        writeln!(c, "#include <cuda{header}Typedefs.h>")?;
    }
    for function in DriverFn::ALL {
        let row = function.row();
        writeln!(
            c,
            "_Static_assert(__builtin_types_compatible_p({}, CUresult (CUDAAPI *)({})), \"{}\");",
            typedef(row),
            parameters(row)?,
            row.symbol
        )?;
    }
    for (spelling, bytes) in spelled_sizes().iter().filter(|(spelling, _)| !spelling.contains('*'))
    {
        let theirs = c_type(spelling)?;
        writeln!(c, "_Static_assert(sizeof({theirs}) == {bytes}, \"size of {spelling}\");")?;
    }
    for (name, bytes, fields) in layouts() {
        writeln!(c, "_Static_assert(sizeof({name}) == {bytes}, \"size of {name}\");")?;
        for (field, offset) in fields {
            writeln!(
                c,
                "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");"
            )?;
        }
    }
    Ok(c)
}

/// The name under which the typedef headers declare the row's form.
fn typedef(row: &DriverRow) -> String {
    let stream = ["_ptsz", "_ptds"].into_iter().find(|s| row.symbol.ends_with(s)).unwrap_or("");
    format!("PFN_{}_v{}{stream}", row.asked, row.version)
}

fn parameters(row: &DriverRow) -> Result<String> {
    if row.params.is_empty() {
        return Ok("void".to_owned());
    }
    let spelled: Result<Vec<String>> = row.params.iter().map(|param| c_type(param)).collect();
    Ok(spelled?.join(", "))
}

/// A type as Rust spells it, in C: `*const *mut c_void` is `void *const *`.
pub(crate) fn c_type(rust: &str) -> Result<String> {
    // `stringify!` puts a space after the star or not, as the tokens came.
    if let Some(rest) = rust.strip_prefix('*') {
        let rest = rest.trim_start();
        if let Some(pointee) = rest.strip_prefix("mut ") {
            return Ok(format!("{} *", c_type(pointee)?));
        }
        if let Some(pointee) = rest.strip_prefix("const ") {
            return Ok(format!("{} const *", c_type(pointee)?));
        }
    }
    let c = match rust {
        "c_void" => "void",
        "c_char" => "char",
        "c_uchar" | "u8" => "unsigned char",
        "c_ushort" | "u16" => "unsigned short",
        "c_int" | "i32" => "int",
        "c_uint" => "unsigned int",
        "c_longlong" => "long long",
        "c_ulonglong" => "unsigned long long",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "f32" => "float",
        "f64" => "double",
        name if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => name,
        other => bail!("no C spelling is known for the table's type {other:?}"),
    };
    Ok(c.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_spelled_from_the_inside_out() {
        assert_eq!(c_type("*mut *mut c_void").expect("known"), "void * *");
        assert_eq!(c_type("*const CUuuid").expect("known"), "CUuuid const *");
        assert!(c_type("fn(u8)").is_err());
    }
}
