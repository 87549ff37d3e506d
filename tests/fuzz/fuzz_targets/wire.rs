//! Any packet is read whole or refused, and what was read says the same when it is sent again.
#![no_main]

use halfwarp_api::wire::{ToBroker, ToClient};

libfuzzer_sys::fuzz_target!(|packet: &[u8]| {
    if let Ok(frame) = ToBroker::decode(packet) {
        assert_eq!(ToBroker::decode(&frame.encode()), Ok(frame));
    }
    if let Ok(frame) = ToClient::decode(packet) {
        assert_eq!(ToClient::decode(&frame.encode()), Ok(frame));
    }
});
