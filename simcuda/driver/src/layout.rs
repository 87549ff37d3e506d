//! Structures of the driver's interface that no other part of the project looks into, by the
//! header's order of fields. Pointers are plain words here, so that a graph may keep them.

use shim_cuda_headers::{
    CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS_v1, CUarray, CUmemLocation, CUmemPoolProps_v1,
    Memcpy3dSide,
};

/// The word as the pointer that it is.
fn pointer<T>(word: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(word)
}

/// One side of `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopySide {
    pub(crate) x_in_bytes: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) lod: usize,
    pub(crate) memory_type: u32,
    pub(crate) host: usize,
    pub(crate) device: u64,
    pub(crate) array: usize,
    pub(crate) reserved: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`; and `CUDA_MEMCPY3D_PEER`, whose contexts are the reserved words.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyParams {
    pub(crate) src: CopySide,
    pub(crate) dst: CopySide,
    pub(crate) width_in_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

impl CopySide {
    pub(crate) fn of_driver(&self) -> Memcpy3dSide {
        Memcpy3dSide {
            x_in_bytes: self.x_in_bytes,
            y: self.y,
            z: self.z,
            lod: self.lod,
            memory_type: self.memory_type,
            host: pointer(self.host),
            device: self.device,
            array: CUarray(self.array),
            reserved: std::ptr::null_mut(),
            pitch: self.pitch,
            height: self.height,
        }
    }
}

impl CopyParams {
    pub(crate) fn of_driver(&self) -> CUDA_MEMCPY3D_v2 {
        CUDA_MEMCPY3D_v2 {
            src: self.src.of_driver(),
            dst: self.dst.of_driver(),
            width_in_bytes: self.width_in_bytes,
            height: self.height,
            depth: self.depth,
        }
    }
}

/// `CUDA_KERNEL_NODE_PARAMS` of the first version; the second has two more fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelParamsV1 {
    pub(crate) function: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) params: usize,
    pub(crate) extra: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelParams {
    pub(crate) v1: KernelParamsV1,
    pub(crate) kernel: usize,
    pub(crate) context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS` of the second version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillParams {
    pub(crate) v1: CUDA_MEMSET_NODE_PARAMS_v1,
    pub(crate) context: usize,
}

/// `CUDA_MEMCPY_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyNodeParams {
    pub(crate) flags: i32,
    pub(crate) reserved: i32,
    pub(crate) context: usize,
    pub(crate) copy: CopyParams,
}

/// `CUDA_HOST_NODE_PARAMS` of the first version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostParams {
    pub(crate) function: usize,
    pub(crate) data: usize,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocateParams {
    pub(crate) pool: CUmemPoolProps_v1,
    pub(crate) access: usize,
    pub(crate) access_count: usize,
    pub(crate) bytes: usize,
    pub(crate) address: u64,
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchParams {
    pub(crate) context: usize,
    pub(crate) count: u32,
    pub(crate) ops: usize,
    pub(crate) flags: u32,
}

/// `CUstreamBatchMemOpParams`: the fields of waiting and writing, which lie alike.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemOp {
    pub(crate) operation: u32,
    /// Of a barrier or a flush, which have nothing else.
    pub(crate) short_flags: u32,
    pub(crate) address: u64,
    pub(crate) value: u64,
    pub(crate) flags: u32,
    pub(crate) padding: u32,
    pub(crate) alias: u64,
    pub(crate) reserved: u64,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstantiateParams {
    pub(crate) flags: u64,
    pub(crate) upload_stream: usize,
    pub(crate) error_node: usize,
    pub(crate) result: u32,
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UpdateResult {
    pub(crate) result: u32,
    pub(crate) error_node: usize,
    pub(crate) error_from_node: usize,
}

/// `CUmemcpyAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyAttributes {
    pub(crate) source_order: u32,
    pub(crate) from_hint: CUmemLocation,
    pub(crate) to_hint: CUmemLocation,
    pub(crate) flags: u32,
}

/// `CUmemcpy3DOperand`: what lies where depends on the kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchOperand {
    /// 1 a pointer, 2 an array.
    pub(crate) kind: u32,
    /// Pointer: address, row length and layer height in elements, hint. Array: handle, x, y, z.
    pub(crate) words: [usize; 4],
}

/// `CUDA_MEMCPY3D_BATCH_OP`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchCopy {
    pub(crate) from: BatchOperand,
    pub(crate) to: BatchOperand,
    pub(crate) extent: [usize; 3],
    pub(crate) source_order: u32,
    pub(crate) flags: u32,
}

/// `CUgraphNodeParams`: the kind, and room for what each kind has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeHead {
    pub(crate) kind: u32,
    pub(crate) reserved: [i32; 3],
}

/// Where the kind's own part begins.
pub(crate) const NODE_PART_BYTES: usize = 16;

const _: () = {
    assert!(size_of::<CopyParams>() == 200);
    assert!(size_of::<KernelParamsV1>() == 56);
    assert!(size_of::<KernelParams>() == 72);
    assert!(size_of::<FillParams>() == 48);
    assert!(size_of::<CopyNodeParams>() == 216);
    assert!(size_of::<AllocateParams>() == 120);
    assert!(size_of::<BatchParams>() == 32);
    assert!(size_of::<MemOp>() == 48);
    assert!(size_of::<InstantiateParams>() == 32);
    assert!(size_of::<UpdateResult>() == 24);
    assert!(size_of::<CopyAttributes>() == 24);
    assert!(size_of::<BatchOperand>() == 40);
    assert!(size_of::<BatchCopy>() == 112);
    assert!(size_of::<NodeHead>() == NODE_PART_BYTES);
};
