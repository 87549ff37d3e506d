//! Rules: stream memory operations.

use crate::api::MIB;
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

const GEQ: u32 = 0;
const EQ: u32 = 1;
const AND: u32 = 2;

/// `CUstreamBatchMemOpParams`.
fn op(kind: u64, at: u64, value: u64, flags: u64) -> [u64; 6] {
    [kind, at, value, flags, 0, 0]
}

rules! {
    /// cuda.h, CUstreamWaitValue_flags: wait until (int32_t)(*addr - value) >= 0, *addr == value,
    /// (*addr & value) != 0; cuStreamWaitValue32: blocks the stream, not the host.
    fn a_stream_waits_for_a_word_and_another_writes_it(turn) covers [
        cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuStreamWaitValue32_v2,
        cuStreamWaitValue32_v2_ptsz, cuStreamWriteValue32, cuStreamWriteValue32_ptsz,
        cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz
    ] {
        let (a, b, at) = (turn.stream(), turn.stream(), turn.allocate(MIB));
        for form in ["", "_ptsz", "_v2", "_v2_ptsz"] {
            for (rule, wanted, written) in [(GEQ, 7_u32, 9_u32), (EQ, 7, 7), (AND, 6, 2)] {
                turn.write(at, &[0; 8]);
                ok!(&format!("cuStreamWaitValue32{form}"), a, at, wanted, rule);
                ok!("cuMemsetD8Async", at + 4, 1_u8, 1_u64, a);
                fails!(600, "cuStreamQuery", a);
                assert_eq!(turn.read(at + 4, 1), [0]);
                ok!(&format!("cuStreamWriteValue32{form}"), b, at, written, 0_u32);
                ok!("cuStreamSynchronize", a);
                assert_eq!(turn.read(at, 5)[..4], written.to_le_bytes());
                assert_eq!(turn.read(at + 4, 1), [1]);
            }
            fails!(1, &format!("cuStreamWaitValue32{form}"), a, at + 1, 1_u32, EQ);
            fails!(1, &format!("cuStreamWriteValue32{form}"), a, NULL, 1_u32, 0_u32);
        }
    }

    /// cuda.h, cuStreamWaitValue64: the same with words of 64 bits; addresses are aligned to 8.
    fn a_stream_waits_for_a_word_of_64_bits(turn) covers [
        cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuStreamWaitValue64_v2,
        cuStreamWaitValue64_v2_ptsz, cuStreamWriteValue64, cuStreamWriteValue64_ptsz,
        cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz
    ] {
        let (a, b, at) = (turn.stream(), turn.stream(), turn.allocate(MIB));
        for form in ["", "_ptsz", "_v2", "_v2_ptsz"] {
            turn.write(at, &[0; 16]);
            ok!(&format!("cuStreamWaitValue64{form}"), a, at, 1_u64 << 40, GEQ);
            ok!("cuMemsetD8Async", at + 8, 1_u8, 1_u64, a);
            ok!(&format!("cuStreamWriteValue64{form}"), b, at, 1_u64, 0_u32);
            ok!("cuStreamSynchronize", b);
            fails!(600, "cuStreamQuery", a);
            ok!(&format!("cuStreamWriteValue64{form}"), b, at, 1_u64 << 41, 0_u32);
            ok!("cuStreamSynchronize", a);
            assert_eq!(turn.read(at + 8, 1), [1]);
            fails!(1, &format!("cuStreamWaitValue64{form}"), a, at + 4, 1_u64, EQ);
            fails!(1, &format!("cuStreamWriteValue64{form}"), a, at + 4, 1_u64, 0_u32);
        }
    }

    /// cuda.h, cuStreamBatchMemOp: the operations are enqueued in the order they appear in the
    /// array; flags must be 0; at most 256 operations.
    fn a_batch_of_operations_is_done_in_order(turn) covers [
        cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp_v2,
        cuStreamBatchMemOp_v2_ptsz
    ] {
        let (a, at) = (turn.stream(), turn.allocate(MIB));
        for form in ["", "_ptsz", "_v2", "_v2_ptsz"] {
            let name = format!("cuStreamBatchMemOp{form}");
            turn.write(at, &[0; 32]);
            // Write, wait for another's word, write again.
            let ops = [op(2, at, 5, 0), op(1, at + 4, 1, 1), op(5, at + 8, 6, 0)];
            ok!(&name, a, 3_u32, &ops, 0_u32);
            fails!(600, "cuStreamQuery", a);
            let b = turn.stream();
            ok!("cuStreamWriteValue32_v2", b, at + 4, 1_u32, 0_u32);
            ok!("cuStreamSynchronize", a);
            assert_eq!(turn.read(at, 16), [5, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
            fails!(1, &name, a, 3_u32, &ops, 1_u32);
            fails!(1, &name, a, 1_u32, &[op(99, at, 0, 0)], 0_u32);
            fails!(1, &name, a, 1_u32, NULL, 0_u32);
        }
    }
}
