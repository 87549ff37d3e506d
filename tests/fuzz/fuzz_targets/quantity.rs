//! Any text is a quantity or an error, and a quantity is read back as it is printed.
#![no_main]

use halfwarp_rest::{MemoryWish, ShareWish};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(wish) = text.parse::<MemoryWish>() {
        assert_eq!(wish.to_string().parse(), Ok(wish));
    }
    if let Ok(wish) = text.parse::<ShareWish>() {
        assert_eq!(wish.to_string().parse(), Ok(wish));
    }
});
