//! Attributes of streams: what was set is what is said. Only the priority means anything here.

use crate::entry::{Done, Sim};
use crate::raw;
use crate::stream::{self, Attributes};
use shim_cuda_headers::*;

/// Numbers of the attributes that streams have: access window, ways to wait, priority, memory
/// domains.
const KNOWN: [CUstreamAttrID; 5] = [1, 3, PRIORITY, 9, 10];
const PRIORITY: CUstreamAttrID = 8;

fn known(attribute: CUstreamAttrID) -> Done {
    if KNOWN.contains(&attribute) { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
}

impl Sim {
    /// Partial: remembered; only the priority means anything.
    pub(crate) fn cuStreamSetAttribute(
        stream: CUstream,
        attribute: CUstreamAttrID,
        value: *const CUstreamAttrValue_v1,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        known(attribute)?;
        let value: [u8; 64] = raw::get(value.cast())?;
        if attribute == PRIORITY {
            let wanted = i32::from_le_bytes([value[0], value[1], value[2], value[3]]);
            if !(stream::GREATEST_PRIORITY..=0).contains(&wanted) {
                return Err(CUresult::INVALID_VALUE);
            }
            stream.set_priority(wanted);
        }
        stream.attributes().insert(attribute, value);
        Ok(())
    }

    /// Partial: says what was set.
    pub(crate) fn cuStreamGetAttribute(
        stream: CUstream,
        attribute: CUstreamAttrID,
        value: *mut CUstreamAttrValue_v1,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        known(attribute)?;
        let set = stream.attributes().get(&attribute).copied();
        let mut answer = set.unwrap_or([0; 64]);
        if attribute == PRIORITY {
            answer[..4].copy_from_slice(&stream.priority().to_le_bytes());
        }
        raw::put(value.cast(), answer)
    }

    /// Partial: copies what was set.
    pub(crate) fn cuStreamCopyAttributes(to: CUstream, from: CUstream) -> Done {
        let (to, from) = (stream::resolve(to)?, stream::resolve(from)?);
        if to.context.handle != from.context.handle {
            return Err(CUresult::INVALID_VALUE);
        }
        let copied: Attributes = from.attributes().clone();
        if copied.contains_key(&PRIORITY) {
            to.set_priority(from.priority());
        }
        to.attributes().extend(copied);
        Ok(())
    }
}
