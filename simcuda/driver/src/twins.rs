//! The forms for the per-thread default stream: the same functions under another name. Which
//! default stream is meant is known from the table ([`crate::entry`]).

use crate::entry::{Done, Sim};
use shim_cuda_headers::*;
use std::ffi::{c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

macro_rules! twins {
    ($($twin:ident = $base:ident($($arg:ident: $ty:ty),*);)*) => {
        #[allow(clippy::too_many_arguments, reason = "the vendor's own signatures")]
        impl Sim {
            $(
                pub(crate) fn $twin($($arg: $ty),*) -> Done {
                    Self::$base($($arg),*)
                }
            )*
        }
    };
}

twins! {
    cuEventRecord_ptsz = cuEventRecord(a: CUevent, b: CUstream);
    cuEventRecordWithFlags_ptsz = cuEventRecordWithFlags(a: CUevent, b: CUstream, c: c_uint);
    cuGraphInstantiateWithParams_ptsz = cuGraphInstantiateWithParams(a: *mut CUgraphExec, b: CUgraph, c: *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
    cuGraphLaunch_ptsz = cuGraphLaunch(a: CUgraphExec, b: CUstream);
    cuGraphUpload_ptsz = cuGraphUpload(a: CUgraphExec, b: CUstream);
    cuLaunchCooperativeKernel_ptsz = cuLaunchCooperativeKernel(a: CUfunction, b: c_uint, c: c_uint, d: c_uint, e: c_uint, f: c_uint, g: c_uint, h: c_uint, i: CUstream, j: *mut *mut c_void);
    cuLaunchHostFunc_ptsz = cuLaunchHostFunc(a: CUstream, b: CUhostFn, c: *mut c_void);
    cuLaunchHostFunc_v2_ptsz = cuLaunchHostFunc_v2(a: CUstream, b: CUhostFn, c: *mut c_void, d: c_uint);
    cuLaunchKernel_ptsz = cuLaunchKernel(a: CUfunction, b: c_uint, c: c_uint, d: c_uint, e: c_uint, f: c_uint, g: c_uint, h: c_uint, i: CUstream, j: *mut *mut c_void, k: *mut *mut c_void);
    cuLaunchKernelEx_ptsz = cuLaunchKernelEx(a: *const CUlaunchConfig, b: CUfunction, c: *mut *mut c_void, d: *mut *mut c_void);
    cuMemAllocAsync_ptsz = cuMemAllocAsync(a: *mut CUdeviceptr, b: usize, c: CUstream);
    cuMemAllocFromPoolAsync_ptsz = cuMemAllocFromPoolAsync(a: *mut CUdeviceptr, b: usize, c: CUmemoryPool, d: CUstream);
    cuMemcpy2D_v2_ptds = cuMemcpy2D_v2(a: *const CUDA_MEMCPY2D_v2);
    cuMemcpy2DAsync_v2_ptsz = cuMemcpy2DAsync_v2(a: *const CUDA_MEMCPY2D_v2, b: CUstream);
    cuMemcpy2DUnaligned_v2_ptds = cuMemcpy2DUnaligned_v2(a: *const CUDA_MEMCPY2D_v2);
    cuMemcpy3D_v2_ptds = cuMemcpy3D_v2(a: *const CUDA_MEMCPY3D_v2);
    cuMemcpy3DAsync_v2_ptsz = cuMemcpy3DAsync_v2(a: *const CUDA_MEMCPY3D_v2, b: CUstream);
    cuMemcpy3DBatchAsync_ptsz = cuMemcpy3DBatchAsync(a: usize, b: *mut CUDA_MEMCPY3D_BATCH_OP_v1, c: *mut usize, d: c_ulonglong, e: CUstream);
    cuMemcpy3DBatchAsync_v2_ptsz = cuMemcpy3DBatchAsync_v2(a: usize, b: *mut CUDA_MEMCPY3D_BATCH_OP_v1, c: c_ulonglong, d: CUstream);
    cuMemcpy3DPeer_ptds = cuMemcpy3DPeer(a: *const CUDA_MEMCPY3D_PEER_v1);
    cuMemcpy3DPeerAsync_ptsz = cuMemcpy3DPeerAsync(a: *const CUDA_MEMCPY3D_PEER_v1, b: CUstream);
    cuMemcpy3DWithAttributesAsync_ptsz = cuMemcpy3DWithAttributesAsync(a: *mut CUDA_MEMCPY3D_BATCH_OP_v1, b: c_ulonglong, c: CUstream);
    cuMemcpy_ptds = cuMemcpy(a: CUdeviceptr, b: CUdeviceptr, c: usize);
    cuMemcpyAsync_ptsz = cuMemcpyAsync(a: CUdeviceptr, b: CUdeviceptr, c: usize, d: CUstream);
    cuMemcpyAtoA_v2_ptds = cuMemcpyAtoA_v2(a: CUarray, b: usize, c: CUarray, d: usize, e: usize);
    cuMemcpyAtoD_v2_ptds = cuMemcpyAtoD_v2(a: CUdeviceptr, b: CUarray, c: usize, d: usize);
    cuMemcpyAtoH_v2_ptds = cuMemcpyAtoH_v2(a: *mut c_void, b: CUarray, c: usize, d: usize);
    cuMemcpyAtoHAsync_v2_ptsz = cuMemcpyAtoHAsync_v2(a: *mut c_void, b: CUarray, c: usize, d: usize, e: CUstream);
    cuMemcpyBatchAsync_ptsz = cuMemcpyBatchAsync(a: *mut CUdeviceptr, b: *mut CUdeviceptr, c: *mut usize, d: usize, e: *mut CUmemcpyAttributes_v1, f: *mut usize, g: usize, h: *mut usize, i: CUstream);
    cuMemcpyBatchAsync_v2_ptsz = cuMemcpyBatchAsync_v2(a: *mut CUdeviceptr, b: *mut CUdeviceptr, c: *mut usize, d: usize, e: *mut CUmemcpyAttributes_v1, f: *mut usize, g: usize, h: CUstream);
    cuMemcpyDtoA_v2_ptds = cuMemcpyDtoA_v2(a: CUarray, b: usize, c: CUdeviceptr, d: usize);
    cuMemcpyDtoD_v2_ptds = cuMemcpyDtoD_v2(a: CUdeviceptr, b: CUdeviceptr, c: usize);
    cuMemcpyDtoDAsync_v2_ptsz = cuMemcpyDtoDAsync_v2(a: CUdeviceptr, b: CUdeviceptr, c: usize, d: CUstream);
    cuMemcpyDtoH_v2_ptds = cuMemcpyDtoH_v2(a: *mut c_void, b: CUdeviceptr, c: usize);
    cuMemcpyDtoHAsync_v2_ptsz = cuMemcpyDtoHAsync_v2(a: *mut c_void, b: CUdeviceptr, c: usize, d: CUstream);
    cuMemcpyHtoA_v2_ptds = cuMemcpyHtoA_v2(a: CUarray, b: usize, c: *const c_void, d: usize);
    cuMemcpyHtoAAsync_v2_ptsz = cuMemcpyHtoAAsync_v2(a: CUarray, b: usize, c: *const c_void, d: usize, e: CUstream);
    cuMemcpyHtoD_v2_ptds = cuMemcpyHtoD_v2(a: CUdeviceptr, b: *const c_void, c: usize);
    cuMemcpyHtoDAsync_v2_ptsz = cuMemcpyHtoDAsync_v2(a: CUdeviceptr, b: *const c_void, c: usize, d: CUstream);
    cuMemcpyPeer_ptds = cuMemcpyPeer(a: CUdeviceptr, b: CUcontext, c: CUdeviceptr, d: CUcontext, e: usize);
    cuMemcpyPeerAsync_ptsz = cuMemcpyPeerAsync(a: CUdeviceptr, b: CUcontext, c: CUdeviceptr, d: CUcontext, e: usize, f: CUstream);
    cuMemcpyWithAttributesAsync_ptsz = cuMemcpyWithAttributesAsync(a: CUdeviceptr, b: CUdeviceptr, c: usize, d: *mut CUmemcpyAttributes_v1, e: CUstream);
    cuMemDiscardAndPrefetchBatchAsync_ptsz = cuMemDiscardAndPrefetchBatchAsync(a: *mut CUdeviceptr, b: *mut usize, c: usize, d: *mut CUmemLocation, e: *mut usize, f: usize, g: c_ulonglong, h: CUstream);
    cuMemDiscardBatchAsync_ptsz = cuMemDiscardBatchAsync(a: *mut CUdeviceptr, b: *mut usize, c: usize, d: c_ulonglong, e: CUstream);
    cuMemFreeAsync_ptsz = cuMemFreeAsync(a: CUdeviceptr, b: CUstream);
    cuMemPrefetchAsync_ptsz = cuMemPrefetchAsync(a: CUdeviceptr, b: usize, c: CUdevice, d: CUstream);
    cuMemPrefetchAsync_v2_ptsz = cuMemPrefetchAsync_v2(a: CUdeviceptr, b: usize, c: CUmemLocation, d: c_uint, e: CUstream);
    cuMemPrefetchBatchAsync_ptsz = cuMemPrefetchBatchAsync(a: *mut CUdeviceptr, b: *mut usize, c: usize, d: *mut CUmemLocation, e: *mut usize, f: usize, g: c_ulonglong, h: CUstream);
    cuMemsetD16_v2_ptds = cuMemsetD16_v2(a: CUdeviceptr, b: c_ushort, c: usize);
    cuMemsetD16Async_ptsz = cuMemsetD16Async(a: CUdeviceptr, b: c_ushort, c: usize, d: CUstream);
    cuMemsetD2D16_v2_ptds = cuMemsetD2D16_v2(a: CUdeviceptr, b: usize, c: c_ushort, d: usize, e: usize);
    cuMemsetD2D16Async_ptsz = cuMemsetD2D16Async(a: CUdeviceptr, b: usize, c: c_ushort, d: usize, e: usize, f: CUstream);
    cuMemsetD2D32_v2_ptds = cuMemsetD2D32_v2(a: CUdeviceptr, b: usize, c: c_uint, d: usize, e: usize);
    cuMemsetD2D32Async_ptsz = cuMemsetD2D32Async(a: CUdeviceptr, b: usize, c: c_uint, d: usize, e: usize, f: CUstream);
    cuMemsetD2D8_v2_ptds = cuMemsetD2D8_v2(a: CUdeviceptr, b: usize, c: c_uchar, d: usize, e: usize);
    cuMemsetD2D8Async_ptsz = cuMemsetD2D8Async(a: CUdeviceptr, b: usize, c: c_uchar, d: usize, e: usize, f: CUstream);
    cuMemsetD32_v2_ptds = cuMemsetD32_v2(a: CUdeviceptr, b: c_uint, c: usize);
    cuMemsetD32Async_ptsz = cuMemsetD32Async(a: CUdeviceptr, b: c_uint, c: usize, d: CUstream);
    cuMemsetD8_v2_ptds = cuMemsetD8_v2(a: CUdeviceptr, b: c_uchar, c: usize);
    cuMemsetD8Async_ptsz = cuMemsetD8Async(a: CUdeviceptr, b: c_uchar, c: usize, d: CUstream);
    cuStreamAddCallback_ptsz = cuStreamAddCallback(a: CUstream, b: CUstreamCallback, c: *mut c_void, d: c_uint);
    cuStreamAttachMemAsync_ptsz = cuStreamAttachMemAsync(a: CUstream, b: CUdeviceptr, c: usize, d: c_uint);
    cuStreamBatchMemOp_ptsz = cuStreamBatchMemOp(a: CUstream, b: c_uint, c: *mut CUstreamBatchMemOpParams_v1, d: c_uint);
    cuStreamBatchMemOp_v2_ptsz = cuStreamBatchMemOp_v2(a: CUstream, b: c_uint, c: *mut CUstreamBatchMemOpParams, d: c_uint);
    cuStreamBeginCapture_ptsz = cuStreamBeginCapture(a: CUstream);
    cuStreamBeginCapture_v2_ptsz = cuStreamBeginCapture_v2(a: CUstream, b: CUstreamCaptureMode);
    cuStreamBeginCaptureToGraph_ptsz = cuStreamBeginCaptureToGraph(a: CUstream, b: CUgraph, c: *const CUgraphNode, d: *const CUgraphEdgeData, e: usize, f: CUstreamCaptureMode);
    cuStreamCopyAttributes_ptsz = cuStreamCopyAttributes(a: CUstream, b: CUstream);
    cuStreamEndCapture_ptsz = cuStreamEndCapture(a: CUstream, b: *mut CUgraph);
    cuStreamGetAttribute_ptsz = cuStreamGetAttribute(a: CUstream, b: CUstreamAttrID, c: *mut CUstreamAttrValue_v1);
    cuStreamGetCaptureInfo_ptsz = cuStreamGetCaptureInfo(a: CUstream, b: *mut CUstreamCaptureStatus, c: *mut u64);
    cuStreamGetCaptureInfo_v2_ptsz = cuStreamGetCaptureInfo_v2(a: CUstream, b: *mut CUstreamCaptureStatus, c: *mut u64, d: *mut CUgraph, e: *mut *const CUgraphNode, f: *mut usize);
    cuStreamGetCaptureInfo_v3_ptsz = cuStreamGetCaptureInfo_v3(a: CUstream, b: *mut CUstreamCaptureStatus, c: *mut u64, d: *mut CUgraph, e: *mut *const CUgraphNode, f: *mut *const CUgraphEdgeData, g: *mut usize);
    cuStreamGetCtx_ptsz = cuStreamGetCtx(a: CUstream, b: *mut CUcontext);
    cuStreamGetCtx_v2_ptsz = cuStreamGetCtx_v2(a: CUstream, b: *mut CUcontext, c: *mut CUgreenCtx);
    cuStreamGetDevice_ptsz = cuStreamGetDevice(a: CUstream, b: *mut CUdevice);
    cuStreamGetFlags_ptsz = cuStreamGetFlags(a: CUstream, b: *mut c_uint);
    cuStreamGetId_ptsz = cuStreamGetId(a: CUstream, b: *mut c_ulonglong);
    cuStreamGetPriority_ptsz = cuStreamGetPriority(a: CUstream, b: *mut c_int);
    cuStreamIsCapturing_ptsz = cuStreamIsCapturing(a: CUstream, b: *mut CUstreamCaptureStatus);
    cuStreamQuery_ptsz = cuStreamQuery(a: CUstream);
    cuStreamSetAttribute_ptsz = cuStreamSetAttribute(a: CUstream, b: CUstreamAttrID, c: *const CUstreamAttrValue_v1);
    cuStreamSynchronize_ptsz = cuStreamSynchronize(a: CUstream);
    cuStreamUpdateCaptureDependencies_ptsz = cuStreamUpdateCaptureDependencies(a: CUstream, b: *mut CUgraphNode, c: usize, d: c_uint);
    cuStreamUpdateCaptureDependencies_v2_ptsz = cuStreamUpdateCaptureDependencies_v2(a: CUstream, b: *mut CUgraphNode, c: *const CUgraphEdgeData, d: usize, e: c_uint);
    cuStreamWaitEvent_ptsz = cuStreamWaitEvent(a: CUstream, b: CUevent, c: c_uint);
    cuStreamWaitValue32_ptsz = cuStreamWaitValue32(a: CUstream, b: CUdeviceptr, c: u32, d: c_uint);
    cuStreamWaitValue32_v2_ptsz = cuStreamWaitValue32_v2(a: CUstream, b: CUdeviceptr, c: u32, d: c_uint);
    cuStreamWaitValue64_ptsz = cuStreamWaitValue64(a: CUstream, b: CUdeviceptr, c: u64, d: c_uint);
    cuStreamWaitValue64_v2_ptsz = cuStreamWaitValue64_v2(a: CUstream, b: CUdeviceptr, c: u64, d: c_uint);
    cuStreamWriteValue32_ptsz = cuStreamWriteValue32(a: CUstream, b: CUdeviceptr, c: u32, d: c_uint);
    cuStreamWriteValue32_v2_ptsz = cuStreamWriteValue32_v2(a: CUstream, b: CUdeviceptr, c: u32, d: c_uint);
    cuStreamWriteValue64_ptsz = cuStreamWriteValue64(a: CUstream, b: CUdeviceptr, c: u64, d: c_uint);
    cuStreamWriteValue64_v2_ptsz = cuStreamWriteValue64_v2(a: CUstream, b: CUdeviceptr, c: u64, d: c_uint);
}
