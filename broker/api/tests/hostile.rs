//! The decoders against bytes that nobody meant: the short form, for every test run, of the fuzz
//! target `wire` in `tests/fuzz`.

use halfwarp_api::wire::{FRAME_BYTES, ToBroker, ToClient};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_packet_is_read_whole_or_refused(packet in prop::collection::vec(any::<u8>(), 0..80)) {
        if packet.len() != FRAME_BYTES {
            prop_assert!(ToBroker::decode(&packet).is_err());
            prop_assert!(ToClient::decode(&packet).is_err());
        }
    }

    #[test]
    fn a_frame_that_was_read_says_the_same_again(
        tag in prop_oneof![1u8..8, 64u8..74],
        rest in prop::collection::vec(any::<u8>(), FRAME_BYTES - 1),
        small in any::<bool>(),
    ) {
        let mut packet = vec![tag];
        packet.extend(rest);
        if small {
            // Numbers that fit their fields, so that most packets are read.
            packet[1] %= 16;
            packet[2..4].copy_from_slice(&[1, 0]);
            packet[12..16].fill(0);
            packet[20..24].fill(0);
        }
        if let Ok(frame) = ToBroker::decode(&packet) {
            prop_assert_eq!(ToBroker::decode(&frame.encode()), Ok(frame));
        }
        if let Ok(frame) = ToClient::decode(&packet) {
            prop_assert_eq!(ToClient::decode(&frame.encode()), Ok(frame));
        }
    }
}
