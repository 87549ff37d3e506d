//! Crash labels: the named places at which a test may stop or kill a process of ours.
//!
//! One table, at the foot of this file. Each label is a function that does nothing (two
//! instructions); its name and address stand in an ELF note, `.note.halfwarp`, of every binary that
//! calls it, kept in release builds and through `strip`. A test reads the notes and sets a
//! breakpoint by ptrace. No switch, branch or environment variable exists in production code.
//!
//! There is at least one label on each side of every driver call, every message and every change of
//! state. A label that no test run hits fails that run.
#![no_std]

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    pub name: &'static str,
    /// `library` or `broker`: whose process reaches it.
    pub place: &'static str,
    /// What has just happened there.
    pub after: &'static str,
}

/// Owner name of the notes.
pub const NOTE_OWNER: &str = "halfwarp";
/// Type of the notes; the descriptor is the address (8 bytes), then the name, NUL-terminated.
pub const NOTE_TYPE: u32 = 1;

macro_rules! labels {
    ($($place:ident { $($name:ident $after:literal;)* })*) => {
        /// Every label, in the table's order.
        pub const LABELS: &[Label] = &[$($(
            Label { name: stringify!($name), place: stringify!($place), after: $after },
        )*)*];

        $($(
            #[doc = concat!("Label `", stringify!($name), "`: ", $after, ".")]
            #[cfg(target_arch = "x86_64")]
            #[unsafe(naked)]
            pub extern "C" fn $name() {
                core::arch::naked_asm!(
                    "990: nop",
                    "ret",
                    ".pushsection .note.halfwarp,\"\",@note",
                    ".balign 4",
                    ".long 992f - 991f",
                    ".long 994f - 993f",
                    ".long 1",
                    "991: .asciz \"halfwarp\"",
                    "992: .balign 4",
                    "993: .quad 990b",
                    concat!(".asciz \"", stringify!($name), "\""),
                    "994: .balign 4",
                    ".popsection",
                )
            }
        )*)*
    };
}

labels! {
    library {
        join_connected "the socket is connected, nothing is said";
        join_hello_sent "the hello is on its way";
        join_welcomed "the pages are mapped, nobody knows of them yet";
        join_published "the process counts as joined, its thread is not started";
        charge_done "units are charged, the driver has not been asked";
        driver_allocated "the driver has allocated, the books do not know";
        allocation_entered "the books know the allocation";
        free_taken "the allocation is out of the books, the driver has not been asked";
        driver_freed "the driver has freed, the units are not released";
        free_released "the units are released";
        grow_asked "a grow is on its way";
        grant_applied "a grant is in the ledger word, the asker still sleeps";
        recall_given "the allowance is lowered, the broker does not know";
        recall_returned "the return is on its way";
        context_charged "a context is charged, the driver has not been asked";
        driver_made_context "the driver has made the context, its cost is not settled";
        context_settled "the context's cost is settled";
        gate_passed "a gate was passed by the slow way, the driver has not been asked";
        want_sent "the broker was told that a thread waits";
        gate_waiting "a thread is about to sleep at a closed gate";
        drain_asked "a drain is asked for, nothing is looked at";
        drain_marked "the marks of a drain are set, none is looked at";
        drained_sent "the answer to a drain is on its way";
        idle_sent "the broker was told that the turn is not needed";
        want_memory_sent "the broker was told that a thread waits for memory";
        chunk_mapped "a chunk is mapped";
        chunk_unmapped "a chunk is unmapped, the broker does not know";
        piece_pinned "part of a chunk is known to the driver";
        swap_out_asked "a swap-out is asked for, nothing is looked at";
        copy_out_begun "a piece is being copied out";
        copy_staged "a copy goes by way of buffers, none of it is done";
        copied_out "a piece is copied out, and still mapped";
        piece_unmapped "a piece is unmapped, its memory not released";
        handle_released "a piece's memory is released, the word not lowered";
        units_left "the word is lowered, the broker does not know";
        swap_in_asked "a swap-in is asked for, nothing is made";
        handle_created "a piece has memory again, not mapped";
        piece_mapped "a piece is mapped again, nobody may touch it";
        copy_in_begun "a piece is being copied back";
        copied_in "a piece is copied back, the books do not know";
        swap_done "a move is at its end, the broker does not know";
        swap_ended_sent "the end of a move is on its way";
        broker_lost "the connection has ended";
        rejoin_adopted "the new pages hold what was held, nothing is counted yet";
        rejoin_counted "the holdings are on their way to the new broker";
    }
    broker {
        peer_accepted "a connection is accepted, nothing is known of it";
        hello_read "a hello is read, nothing is decided";
        pages_made "the pages exist, the client has none";
        welcome_sent "the welcome is sent";
        frame_read "a frame of a joined process is read";
        frame_sent "a frame to a joined process is sent";
        state_before_rename "the new state is written beside the old";
        state_renamed "the new state is in place";
        death_seen "a process's end is known, nothing is decided";
        tenant_admitted "a tenant is admitted, nobody was told";
        tenant_removed "a tenant is gone";
    }
}
