//! How many instructions a second the interpreter runs: `cargo run --release -p simcuda-ptx
//! --example speed`. A measurement, not a test.

use std::cell::RefCell;

use simcuda_ptx::{Fault, Launch, Memory, Module, run};

/// One allocation at address 256.
struct Flat(RefCell<Vec<u8>>);

const BASE: u64 = 256;

impl Memory for Flat {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let bytes = into.len();
        let fault = Fault::Address { address, bytes, write: false };
        let at = address.checked_sub(BASE).ok_or(fault)? as usize;
        into.copy_from_slice(self.0.borrow().get(at..at + bytes).ok_or(fault)?);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let fault = Fault::Address { address, bytes: from.len(), write: true };
        let at = address.checked_sub(BASE).ok_or(fault)? as usize;
        self.0.borrow_mut().get_mut(at..at + from.len()).ok_or(fault)?.copy_from_slice(from);
        Ok(())
    }

    fn update(
        &self,
        address: u64,
        bytes: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.read(address, &mut word[..bytes])?;
        let old = u64::from_le_bytes(word);
        self.write(address, &change(old).to_le_bytes()[..bytes])?;
        Ok(old)
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn sleep_ns(&self, _ns: u64) {}
}

/// Time that this thread has had on a processor: others may be busy, too.
fn on_cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says");
    let ns = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    ns.expect("a number of nanoseconds") as f64 / 1e9
}

fn measure(what: &str, text: &str, name: &str, grid: [u32; 3], block: [u32; 3], scalar: u32) {
    let module = Module::parse(text).expect("the text is PTX");
    let kernel = module.kernel(name).expect("the kernel is there");
    let memory = Flat(RefCell::new(vec![0; 64 << 20]));
    let mut params = vec![0; kernel.param_bytes()];
    for (i, param) in kernel.params().iter().enumerate() {
        let value = if param.size == 8 { BASE + ((i as u64) << 24) } else { scalar.into() };
        let bytes = &value.to_le_bytes()[..param.size];
        params[param.offset..param.offset + param.size].copy_from_slice(bytes);
    }
    let globals = vec![BASE + (60 << 20); module.globals().len()];
    let launch =
        Launch { grid, block, dynamic_shared_bytes: 0, params: &params, globals: &globals };
    let start = on_cpu_seconds();
    let stats = run(&module, kernel, &launch, &memory).expect("the kernel runs");
    let seconds = on_cpu_seconds() - start;
    let rate = stats.instructions as f64 / seconds / 1e6;
    println!("{what:24} {:>12} instructions {seconds:8.3} s {rate:8.0} M/s", stats.instructions);
}

/// A loop of `body` over 64 blocks of 256 threads, 500 times.
fn measure_loop(what: &str, body: &str) {
    let text = format!(
        ".version 7.0 .target sm_75 .address_size 64
        .entry k(.param .u64 out, .param .u32 n) {{ .reg .pred %p, %q; .reg .b32 %r<9>;
            .reg .b64 %d<5>; .reg .f32 %f<4>; .reg .f64 %g<4>; .shared .b32 s[256];
            ld.param.u64 %d1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r4, %tid.x;
            mad.wide.u32 %d2, %r4, 4, %d1; mov.u32 %r5, s; mad.lo.u32 %r5, %r4, 4, %r5;
            mov.f32 %f1, 1.0; mov.f32 %f2, 0.5; mov.f64 %g1, 1.0; mov.f64 %g2, 0.5; mov.u64 %d3, 7;
        LOOP: {body} add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, %r1; @%p bra LOOP; }}"
    );
    measure(what, &text, "k", [64, 1, 1], [256, 1, 1], 500);
}

fn main() {
    measure_loop(
        "integers",
        "mul.lo.u32 %r3, %r2, %r4; xor.b32 %r6, %r3, %r2; shl.b32 %r7, %r6, 3; add.u32 %r4, %r7, %r4;",
    );
    measure_loop(
        "wide integers",
        "mul.lo.u64 %d3, %d3, %d3; add.u64 %d3, %d3, %d1; shr.u64 %d4, %d3, 7; xor.b64 %d3, %d4, %d3;",
    );
    measure_loop(
        "singles",
        "fma.rn.f32 %f1, %f1, %f2, %f2; add.f32 %f3, %f1, %f2; mul.f32 %f1, %f3, %f2; add.f32 %f1, %f1, %f2;",
    );
    measure_loop(
        "doubles",
        "fma.rn.f64 %g1, %g1, %g2, %g2; add.f64 %g3, %g1, %g2; mul.f64 %g1, %g3, %g2; add.f64 %g1, %g1, %g2;",
    );
    measure_loop(
        "singles towards zero",
        "add.rz.f32 %f1, %f1, %f2; mul.rz.f32 %f1, %f1, %f2; add.rz.f32 %f1, %f1, %f2; mul.rz.f32 %f1, %f1, %f2;",
    );
    measure_loop(
        "approximations",
        "sin.approx.f32 %f1, %f2; ex2.approx.f32 %f3, %f1; add.f32 %f2, %f3, %f1; mul.f32 %f2, %f2, %f1;",
    );
    measure_loop(
        "global memory",
        "ld.global.u32 %r3, [%d2]; add.u32 %r3, %r3, 1; st.global.u32 [%d2], %r3;",
    );
    measure_loop(
        "shared memory",
        "ld.shared.u32 %r3, [%r5]; add.u32 %r3, %r3, 1; st.shared.u32 [%r5], %r3;",
    );
    measure_loop("shuffles", "shfl.sync.bfly.b32 %r3, %r4, 1, 31, -1; add.u32 %r4, %r4, %r3;");
    measure_loop("atomics", "atom.global.add.u32 %r3, [%d2], 1;");
    measure_loop(
        "diverging",
        "and.b32 %r3, %r4, 1; setp.eq.u32 %q, %r3, 0; @%q bra EVEN; add.u32 %r6, %r6, 3; mul.lo.u32 %r7, %r6, %r6; bra MEET; EVEN: sub.u32 %r6, %r6, 1; xor.b32 %r7, %r6, %r2; MEET: add.u32 %r7, %r7, %r6;",
    );
    let clang = include_str!("../tests/data/clang/kernels-O2.ptx");
    measure("vectorAdd", clang, "vectorAdd", [4096, 1, 1], [256, 1, 1], 1 << 20);
    measure("tiled product, 256", clang, "mm", [16, 16, 1], [16, 16, 1], 256);
    let sum = include_str!("../tests/data/tinygrad/sum_rows.ptx");
    measure("tinygrad sum of rows", sum, "r_64_16_6", [64, 1, 1], [16, 1, 1], 0);
    let product = include_str!("../tests/data/tinygrad/matmul.ptx");
    measure("tinygrad product", product, "r_64_32_16_3", [32, 64, 1], [16, 1, 1], 0);
}
