//! The assembly of stage one for x86-64, System V ABI; another architecture is another file like it.
//!
//! Four trampolines: the two dispatchers behind the exported functions, `dlsym` and `dlvsym`. Each leaves
//! through a jump, so the program's return address stays on the stack: glibc takes `RTLD_NEXT` and
//! RUNPATH from it, and a debugger sees no frame of ours. And the bytes that stage two has in every
//! thread, which the language cannot spell without its standard library.

use core::arch::{global_asm, naked_asm};

use halfwarp_gate::stage::THREAD_BYTES;

use crate::{
    lookup::{
        REAL_DLSYM, REAL_DLVSYM, find_dlsym_slow, find_dlvsym_slow, handle_for, versioned_answer,
    },
    open::{DRIVER_SLOTS, NVML_SLOTS, open_driver_slow, open_nvml_slow},
};

macro_rules! dispatcher {
    ($(#[$meta:meta])* $name:ident $slots:ident $open:ident) => {
        $(#[$meta])*
        #[unsafe(naked)]
        pub(crate) extern "C" fn $name() {
            naked_asm!(
                "2: mov r10, qword ptr [rip + {slots}]",
                "test r10, r10",
                "jz 3f",
                "jmp qword ptr [r10 + 8 * r11]",
                // Every register that can carry an argument, across a call of ours. At entry the
                // stack is 8 off a multiple of 16; eight pushes keep it so, 136 mends it.
                "3: push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "push r11",
                "sub rsp, 136",
                "movups [rsp], xmm0",
                "movups [rsp + 16], xmm1",
                "movups [rsp + 32], xmm2",
                "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4",
                "movups [rsp + 80], xmm5",
                "movups [rsp + 96], xmm6",
                "movups [rsp + 112], xmm7",
                "call {open}",
                "movups xmm0, [rsp]",
                "movups xmm1, [rsp + 16]",
                "movups xmm2, [rsp + 32]",
                "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]",
                "movups xmm5, [rsp + 80]",
                "movups xmm6, [rsp + 96]",
                "movups xmm7, [rsp + 112]",
                "add rsp, 136",
                "pop r11",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp 2b",
                slots = sym $slots,
                open = sym $open,
            )
        }
    };
}

dispatcher! {
    /// Jumps to the slot of driver row `r11`; the first call of the process fills the slots.
    dispatch_driver DRIVER_SLOTS open_driver_slow
}
dispatcher! {
    /// Jumps to the slot of NVML row `r11`.
    dispatch_nvml NVML_SLOTS open_nvml_slow
}

/// Every look-up of the process comes through here. Names that do not begin like ours go straight
/// on, in seven instructions; for the others [`handle_for`] may put another handle in place of the
/// caller's. Either way the real `dlsym` answers the caller itself.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn dlsym() {
    naked_asm!(
        "test rsi, rsi",
        "jz 2f",
        "movzx eax, byte ptr [rsi]",
        "cmp al, 0x63", // 'c'
        "je 3f",
        "cmp al, 0x6e", // 'n'
        "je 3f",
        "2: mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "jz 4f",
        "jmp rax",
        "3: push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov rdx, qword ptr [rsp + 24]",
        "call {handle_for}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "mov rdi, rax",
        "jmp 2b",
        "4: push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp 2b",
        real = sym REAL_DLSYM,
        handle_for = sym handle_for,
        find = sym find_dlsym_slow,
    )
}

/// As `dlsym`, for look-ups under a version. For names that begin like ours [`versioned_answer`] may
/// have the answer; else the real `dlvsym` answers the caller itself.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn dlvsym() {
    naked_asm!(
        "test rsi, rsi",
        "jz 2f",
        "movzx eax, byte ptr [rsi]",
        "cmp al, 0x63", // 'c'
        "je 3f",
        "cmp al, 0x6e", // 'n'
        "je 3f",
        "2: mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "jz 4f",
        "jmp rax",
        "3: push rdi",
        "push rsi",
        "push rdx",
        "mov rcx, qword ptr [rsp + 24]",
        "call {answer}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2b",
        "ret",
        "4: push rdi",
        "push rsi",
        "push rdx",
        "call {find}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp 2b",
        real = sym REAL_DLVSYM,
        answer = sym versioned_answer,
        find = sym find_dlvsym_slow,
    )
}

// A cache line's own: two threads never write to one line here.
global_asm!(
    ".pushsection .tbss.halfwarp_thread,\"awT\",@nobits",
    ".balign 64",
    ".globl halfwarp_thread",
    ".hidden halfwarp_thread",
    ".type halfwarp_thread, @object",
    ".size halfwarp_thread, {bytes}",
    "halfwarp_thread: .zero {bytes}",
    ".popsection",
    bytes = const THREAD_BYTES,
);

/// How far those bytes lie from a thread's pointer; the loader fills the number in.
#[unsafe(naked)]
pub(crate) extern "C" fn thread_block() -> isize {
    naked_asm!("mov rax, qword ptr [rip + halfwarp_thread@GOTTPOFF]", "ret")
}
