//! What an array may cost: its shape, and an estimate in bytes for a driver that does not say.
//!
//! Not the truth: how a card lays an array out is its driver's own business.

/// `CUDA_ARRAY3D_LAYERED`: the depth counts layers.
const LAYERED: u32 = 0x01;
/// `CUDA_ARRAY3D_CUBEMAP`: the depth counts faces.
const CUBEMAP: u32 = 0x04;
/// `CUDA_ARRAY3D_SPARSE`: made without memory, which is mapped behind it piece by piece.
const SPARSE: u32 = 0x40;
/// `CUDA_ARRAY3D_DEFERRED_MAPPING`: made without memory, which is mapped behind it as a whole.
pub const DEFERRED_MAPPING: u32 = 0x80;

/// Rows begin at multiples of this.
const ROW_BYTES: u64 = 512;
/// An array takes a multiple of this: the granularity of physical memory on a card.
const GRANULE_BYTES: u64 = 2 << 20;

/// Size and format of an array, in the driver's numbers: a height or depth of 0 is a dimension less.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub format: u32,
    pub channels: u32,
    pub flags: u32,
    /// Of a mipmapped array; 1 for any other.
    pub levels: u32,
}

impl Shape {
    /// Whether the driver will put memory behind it: not if the shape is one that it refuses, nor
    /// if the program is to map memory that it has been charged for.
    #[must_use]
    pub const fn takes_memory(&self) -> bool {
        self.width > 0 && self.flags & (SPARSE | DEFERRED_MAPPING) == 0
    }

    /// Bytes of all levels; `u64::MAX` for more than that.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        let bytes = (0..self.levels()).fold(0_u64, |sum, n| sum.saturating_add(self.level(n)));
        bytes.div_ceil(GRANULE_BYTES).saturating_mul(GRANULE_BYTES)
    }

    /// As many levels as there can be: the driver makes no more, whatever it is asked for.
    fn levels(&self) -> u32 {
        let depth = if self.is_flat() { 0 } else { self.depth };
        let side = self.width.max(self.height).max(depth).max(1);
        self.levels.clamp(1, side.ilog2() + 1)
    }

    /// Bytes of one level. Each is half as large as the one before; layers stay as many.
    fn level(&self, n: u32) -> u64 {
        let half = |side: u64| (side >> n).max(1);
        let depth = if self.is_flat() { self.depth.max(1) } else { half(self.depth) };
        let row = half(self.width).saturating_mul(self.texel_bytes());
        let pitch = row.div_ceil(ROW_BYTES).saturating_mul(ROW_BYTES);
        pitch.saturating_mul(half(self.height)).saturating_mul(depth)
    }

    const fn is_flat(&self) -> bool {
        self.flags & (LAYERED | CUBEMAP) != 0
    }

    /// Bytes of one texel; of a format that is not known here, no fewer than it can have.
    fn texel_bytes(&self) -> u64 {
        let channel = match self.format {
            // Block compression: a byte a texel at most, whatever its channels.
            0x91..=0x9e => return 1,
            // Integers of 8 and 16 bits, half precision; then the normalised ones.
            0x01 | 0x08 | 0xc0..=0xc2 | 0xc6..=0xc8 => 1,
            0x02 | 0x09 | 0x10 | 0xc3..=0xc5 | 0xc9..=0xcb => 2,
            _ => 4,
        };
        channel * u64::from(self.channels.max(1))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;
    const FLOAT: u32 = 0x20;
    const PLAIN: Shape = Shape {
        width: 8192,
        height: 8192,
        depth: 0,
        format: FLOAT,
        channels: 4,
        flags: 0,
        levels: 1,
    };

    #[test]
    fn whole_rows_cost_what_they_hold() {
        assert_eq!(PLAIN.estimated_bytes(), 1024 * MIB);
        assert_eq!(Shape { depth: 3, ..PLAIN }.estimated_bytes(), 3 * 1024 * MIB);
        assert_eq!(Shape { format: 0x08, ..PLAIN }.estimated_bytes(), 256 * MIB);
        assert_eq!(Shape { format: 0x10, channels: 1, ..PLAIN }.estimated_bytes(), 128 * MIB);
        assert_eq!(Shape { format: 0x97, ..PLAIN }.estimated_bytes(), 64 * MIB);
    }

    #[test]
    fn rows_and_the_whole_are_rounded_up() {
        let narrow = Shape { width: 1, channels: 1, ..PLAIN };
        assert_eq!(narrow.estimated_bytes(), 4 * MIB);
        assert_eq!(Shape { height: 1, ..narrow }.estimated_bytes(), 2 * MIB);
        assert_eq!(Shape { height: 0, ..narrow }.estimated_bytes(), 2 * MIB);
    }

    #[test]
    fn levels_halve_every_side_but_not_the_layers() {
        let cube = Shape { width: 512, height: 512, depth: 512, channels: 1, ..PLAIN };
        assert_eq!(Shape { levels: 2, ..cube }.estimated_bytes(), (512 + 64) * MIB);
        let layers = Shape { levels: 2, flags: LAYERED, ..cube };
        assert_eq!(layers.estimated_bytes(), (512 + 128) * MIB);
        let faces = Shape { depth: 6, levels: 2, flags: CUBEMAP, ..cube };
        assert_eq!(faces.estimated_bytes(), 8 * MIB);
    }

    #[test]
    fn there_are_no_more_levels_than_a_side_can_be_halved() {
        let all = Shape { levels: 14, ..PLAIN };
        assert_eq!(all.estimated_bytes(), Shape { levels: u32::MAX, ..PLAIN }.estimated_bytes());
        assert_eq!(PLAIN.estimated_bytes(), Shape { levels: 0, ..PLAIN }.estimated_bytes());
        assert!(Shape { levels: 13, ..PLAIN }.estimated_bytes() <= all.estimated_bytes());
    }

    #[test]
    fn arrays_that_get_their_memory_later_take_none() {
        assert!(PLAIN.takes_memory());
        assert!(!Shape { width: 0, ..PLAIN }.takes_memory());
        assert!(!Shape { flags: SPARSE, ..PLAIN }.takes_memory());
        assert!(!Shape { flags: DEFERRED_MAPPING, ..PLAIN }.takes_memory());
    }

    proptest! {
        #[test]
        fn no_shape_wraps_round(
            width in 1_u64..,
            height: u64,
            depth: u64,
            format: u32,
            channels: u32,
            flags: u32,
            levels: u32,
        ) {
            let shape = Shape { width, height, depth, format, channels, flags, levels };
            let side = |n: u64| u128::from(n.max(1));
            let texels = side(width).saturating_mul(side(height)).saturating_mul(side(depth));
            let least = texels.min(u128::from(u64::MAX));
            prop_assert!(u128::from(shape.estimated_bytes()) >= least);
        }
    }
}
