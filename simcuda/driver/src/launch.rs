//! (being written)
#[derive(Debug)]
pub(crate) struct KernelLaunch;
pub(crate) fn perform(
    _: &KernelLaunch,
    _: &crate::engine::Engine,
    _: &crate::space::Observer,
) -> Result<(), shim_cuda_headers::CUresult> {
    Ok(())
}
