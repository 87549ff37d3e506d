//! Any image of device code is refused or becomes a module.
#![no_main]

use simcuda_image::{Target, module};

libfuzzer_sys::fuzz_target!(|image: &[u8]| {
    let _ = module(image, Target { capability: 75, machine_code: true });
});
