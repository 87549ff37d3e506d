//! How many instructions a second the interpreter runs: `cargo run --release -p simcuda-ptx
//! --example speed`. A measurement, not a test.

use std::cell::RefCell;
use std::time::Instant;

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
    let start = Instant::now();
    let stats = run(&module, kernel, &launch, &memory).expect("the kernel runs");
    let seconds = start.elapsed().as_secs_f64();
    let rate = stats.instructions as f64 / seconds / 1e6;
    println!("{what:24} {:>12} instructions {seconds:8.3} s {rate:8.0} M/s", stats.instructions);
}

fn main() {
    let clang = include_str!("../tests/data/clang/kernels-O2.ptx");
    measure("vectorAdd", clang, "vectorAdd", [4096, 1, 1], [256, 1, 1], 1 << 20);
    measure("tiled product, 256", clang, "mm", [16, 16, 1], [16, 16, 1], 256);
    let sum = include_str!("../tests/data/tinygrad/sum_rows.ptx");
    measure("tinygrad sum of rows", sum, "r_64_16_6", [64, 1, 1], [16, 1, 1], 0);
    let product = include_str!("../tests/data/tinygrad/matmul.ptx");
    measure("tinygrad product", product, "r_64_32_16_3", [32, 64, 1], [16, 1, 1], 0);
    let arithmetic = ".version 7.0 .target sm_75 .address_size 64
        .entry k(.param .u32 n) { .reg .pred %p; .reg .b32 %r<4>; .reg .f32 %f<4>;
            ld.param.u32 %r1, [n]; mov.f32 %f1, 1.0; mov.f32 %f2, 0.5; mov.u32 %r2, 0;
        LOOP: fma.rn.f32 %f1, %f1, %f2, %f2; add.u32 %r2, %r2, 1; mul.lo.u32 %r3, %r2, %r2;
            setp.lt.u32 %p, %r2, %r1; @%p bra LOOP; }";
    measure("arithmetic loop", arithmetic, "k", [64, 1, 1], [256, 1, 1], 2000);
}
