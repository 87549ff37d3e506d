//! Types of the driver's ABI, as data: handles, numbers, and the few structs whose fields we read.
//!
//! C enums are plain integers here, never Rust enums: a newer driver may hand over a value that no
//! list of ours has. Handles are opaque words. A struct that we only pass on has no fields.
//! Sizes and offsets are compared with NVIDIA's header by gcc in `cargo xtask symbols`.
#![allow(non_camel_case_types, non_snake_case, reason = "the vendor's own names")]

use core::ffi::{c_int, c_uint, c_void};

/// A result code of the driver; the named ones are in [`crate::codes`].
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CUresult(pub u32);

/// A device ordinal in CUDA's own order.
pub type CUdevice = c_int;
/// An address in device memory.
pub type CUdeviceptr = u64;
/// A device address of the 32-bit ABI (before CUDA 3.2).
pub type CUdeviceptr_v1 = c_uint;

macro_rules! handles {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("Opaque handle `", stringify!($name), "`; 0 is the null handle.")]
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub usize);
    )*};
}

macro_rules! enums {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("C enum `", stringify!($name), "`, as the integer it is.")]
        pub type $name = c_uint;
    )*};
}

macro_rules! words {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("64-bit handle `", stringify!($name), "`.")]
        pub type $name = u64;
    )*};
}

macro_rules! callbacks {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("Function pointer `", stringify!($name), "`; may be null.")]
        pub type $name = *mut c_void;
    )*};
}

macro_rules! opaque {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("Struct `", stringify!($name), "`, only ever behind a pointer here.")]
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

handles! {
    CUarray, CUasyncCallbackHandle, CUcheckpointOperationHandle, CUcontext,
    CUcoredumpCallbackHandle, CUdevResourceDesc, CUeglStreamConnection, CUevent,
    CUexternalMemory, CUexternalSemaphore, CUfunction, CUgraph, CUgraphExec, CUgraphNode,
    CUgraphicsResource, CUgreenCtx, CUkernel, CUlibrary, CUlinkState, CUlogsCallbackHandle,
    CUmemoryPool, CUmipmappedArray, CUmodule, CUstream, CUsurfref, CUtexref, CUuserObject,
    EGLImageKHR, EGLStreamKHR, EGLSyncKHR
}

enums! {
    CUGLDeviceList, CUaddress_mode, CUarray_format, CUatomicOperation, CUcoredumpSettings,
    CUdevResourceType, CUdevice_P2PAttribute, CUdevice_attribute, CUdriverProcAddressQueryResult,
    CUexecAffinityType, CUfilter_mode, CUflushGPUDirectRDMAWritesScope,
    CUflushGPUDirectRDMAWritesTarget, CUfunc_cache, CUfunctionLoadingState, CUfunction_attribute,
    CUgraphExecUpdateResult, CUgraphMem_attribute, CUgraphNodeType, CUjitInputType, CUjit_option,
    CUkernelNodeAttrID, CUkernelNodeAttrValue_v1, CUlibraryOption, CUlimit, CUlogIterator,
    CUlogicalEndpointId, CUlogicalEndpointIpcHandleType, CUmemAccess_flags,
    CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationType,
    CUmemPool_attribute, CUmemRangeHandleType, CUmem_advise, CUmem_range_attribute,
    CUmoduleLoadingMode, CUmulticastGranularity_flags, CUoutput_mode, CUpointer_attribute,
    CUprocessState, CUsharedconfig, CUstreamAttrID, CUstreamAttrValue_v1,
    CUstreamBatchMemOpParams, CUstreamBatchMemOpParams_v1, CUstreamCaptureMode,
    CUstreamCaptureStatus, CUtensorMapAllocClass, CUtensorMapDataType, CUtensorMapFloatOOBfill,
    CUtensorMapIm2ColWideMode, CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle
}

words! {
    CUgraphConditionalHandle, CUmemGenericAllocationHandle, CUsurfObject_v1, CUtexObject_v1
}

callbacks! {
    CUasyncCallback, CUcoredumpStatusCallback, CUgraphRecaptureCallback, CUhostFn,
    CUlogsCallback, CUoccupancyB2DSize, CUstreamCallback
}

opaque! {
    CUDA_ARRAY_SPARSE_PROPERTIES_v1, CUDA_BATCH_MEM_OP_NODE_PARAMS,
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1, CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1,
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_v1, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_v1,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_v1, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1,
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1, CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1,
    CUDA_FABRIC_COPY_BATCH_OP_v1, CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_HOST_NODE_PARAMS_v1,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_LAUNCH_PARAMS_v1, CUDA_MEMCPY2D_v1,
    CUDA_MEMCPY3D_BATCH_OP_v1, CUDA_MEMCPY3D_PEER_v1, CUDA_MEMCPY3D_v1,
    CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_RESOURCE_DESC_v1, CUDA_RESOURCE_VIEW_DESC_v1,
    CUDA_TEXTURE_DESC_v1, CU_DEV_SM_RESOURCE_GROUP_PARAMS, CUarrayMapInfo_v1,
    CUcheckpointCheckpointArgs, CUcheckpointLockArgs, CUcheckpointRestoreArgs,
    CUcheckpointUnlockArgs, CUcliqueInfo, CUctxCreateParams, CUdevResource, CUdevprop_v1,
    CUexecAffinityParam, CUgraphEdgeData, CUgraphExecUpdateResultInfo, CUgraphNodeParams,
    CUlogicalEndpointProp, CUmemDecompressParams, CUmemPoolPtrExportData_v1,
    CUmemcpyAttributes_v1, CUmulticastObjectProp, CUstreamCigCaptureParams, CUtensorMap,
    VdpGetProcAddress
}

/// 16 bytes that name a card for good; printed as `GPU-xxxxxxxx-…`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CUuuid {
    pub bytes: [u8; 16],
}

/// Where memory lies: a kind (`CU_MEM_LOCATION_TYPE_*`) and the number within that kind.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CUmemLocation {
    pub kind: c_uint,
    pub id: c_int,
}

/// What `cuMemCreate` is asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUmemAllocationProp_v1 {
    pub kind: CUmemAllocationType,
    pub requested_handle_types: CUmemAllocationHandleType,
    pub location: CUmemLocation,
    pub win32_handle_meta_data: *mut c_void,
    pub compression_type: u8,
    pub gpu_direct_rdma_capable: u8,
    pub usage: u16,
    pub reserved: [u8; 4],
}

/// Access of one location to a mapped range.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUmemAccessDesc_v1 {
    pub location: CUmemLocation,
    pub flags: CUmemAccess_flags,
}

/// What `cuMemPoolCreate` is asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUmemPoolProps_v1 {
    pub alloc_type: CUmemAllocationType,
    pub handle_types: CUmemAllocationHandleType,
    pub location: CUmemLocation,
    pub win32_security_attributes: *mut c_void,
    pub max_size: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

/// Size and format of a one- or two-dimensional array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_ARRAY_DESCRIPTOR_v2 {
    pub width: usize,
    pub height: usize,
    pub format: CUarray_format,
    pub num_channels: c_uint,
}

/// Size and format of a three-dimensional array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_ARRAY3D_DESCRIPTOR_v2 {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub format: CUarray_format,
    pub num_channels: c_uint,
    pub flags: c_uint,
}

/// As [`CUDA_ARRAY_DESCRIPTOR_v2`], before CUDA 3.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_ARRAY_DESCRIPTOR_v1 {
    pub width: c_uint,
    pub height: c_uint,
    pub format: CUarray_format,
    pub num_channels: c_uint,
}

/// As [`CUDA_ARRAY3D_DESCRIPTOR_v2`], before CUDA 3.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_ARRAY3D_DESCRIPTOR_v1 {
    pub width: c_uint,
    pub height: c_uint,
    pub depth: c_uint,
    pub format: CUarray_format,
    pub num_channels: c_uint,
    pub flags: c_uint,
}

/// What must be mapped behind an array that was made without memory, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CUDA_ARRAY_MEMORY_REQUIREMENTS_v1 {
    pub size: usize,
    pub alignment: usize,
    pub reserved: [c_uint; 4],
}

/// Shape, stream and attributes of a launch by `cuLaunchKernelEx`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUlaunchConfig {
    pub grid_dim: [c_uint; 3],
    pub block_dim: [c_uint; 3],
    pub shared_mem_bytes: c_uint,
    pub stream: CUstream,
    pub attrs: *mut c_void,
    pub num_attrs: c_uint,
}

/// One side of a [`CUDA_MEMCPY2D_v2`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy2dSide {
    pub x_in_bytes: usize,
    pub y: usize,
    pub memory_type: c_uint,
    pub host: *mut c_void,
    pub device: CUdeviceptr,
    pub array: CUarray,
    pub pitch: usize,
}

/// A two-dimensional copy: source, destination, width in bytes, height in rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY2D_v2 {
    pub src: Memcpy2dSide,
    pub dst: Memcpy2dSide,
    pub width_in_bytes: usize,
    pub height: usize,
}

/// One side of a [`CUDA_MEMCPY3D_v2`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3dSide {
    pub x_in_bytes: usize,
    pub y: usize,
    pub z: usize,
    pub lod: usize,
    pub memory_type: c_uint,
    pub host: *mut c_void,
    pub device: CUdeviceptr,
    pub array: CUarray,
    pub reserved: *mut c_void,
    pub pitch: usize,
    pub height: usize,
}

/// A three-dimensional copy: source, destination, width in bytes, height in rows, depth in slices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMCPY3D_v2 {
    pub src: Memcpy3dSide,
    pub dst: Memcpy3dSide,
    pub width_in_bytes: usize,
    pub height: usize,
    pub depth: usize,
}

/// A kernel node of a graph.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_KERNEL_NODE_PARAMS_v2 {
    pub func: CUfunction,
    pub grid_dim: [c_uint; 3],
    pub block_dim: [c_uint; 3],
    pub shared_mem_bytes: c_uint,
    pub kernel_params: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kern: CUkernel,
    pub ctx: CUcontext,
}

/// A fill node of a graph.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_MEMSET_NODE_PARAMS_v1 {
    pub dst: CUdeviceptr,
    pub pitch: usize,
    pub value: c_uint,
    pub element_size: c_uint,
    pub width: usize,
    pub height: usize,
}

macro_rules! blobs {
    ($($name:ident $bytes:literal $align:literal),* $(,)?) => {$(
        #[doc = concat!("Struct `", stringify!($name), "`, passed by value and never looked into.")]
        #[repr(C, align($align))]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            pub bytes: [u8; $bytes],
        }
    )*};
}

blobs! { CUipcMemHandle_v1 64 1, CUipcEventHandle_v1 64 1, CUeglFrame_v1 64 8 }

const _: () = {
    assert!(size_of::<CUmemAllocationProp_v1>() == 32);
    assert!(size_of::<CUmemAccessDesc_v1>() == 12);
    assert!(size_of::<CUmemPoolProps_v1>() == 88);
    assert!(size_of::<CUDA_ARRAY_DESCRIPTOR_v2>() == 24);
    assert!(size_of::<CUDA_ARRAY3D_DESCRIPTOR_v2>() == 40);
    assert!(size_of::<CUDA_ARRAY_DESCRIPTOR_v1>() == 16);
    assert!(size_of::<CUDA_ARRAY3D_DESCRIPTOR_v1>() == 24);
    assert!(size_of::<CUDA_ARRAY_MEMORY_REQUIREMENTS_v1>() == 32);
    assert!(size_of::<CUlaunchConfig>() == 56);
    assert!(size_of::<CUDA_MEMCPY2D_v2>() == 128);
    assert!(size_of::<CUDA_MEMCPY3D_v2>() == 200);
    assert!(size_of::<CUDA_KERNEL_NODE_PARAMS_v2>() == 72);
    assert!(size_of::<CUDA_MEMSET_NODE_PARAMS_v1>() == 40);
};
