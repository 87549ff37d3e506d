//! How long kernels take, learnt: for each key the last samples, and of those an upper estimate.
//!
//! A key is a function with the size of its launch, since one function spans a factor of thousands by
//! its grid; or a graph. The estimate is the second largest of the last [`WINDOW`] samples (95 of 100
//! are below it), the largest while there are fewer: one odd sample does not stand for long, and what
//! has become faster is forgotten with the window.
//!
//! A table of fixed size: where a set is full, the key that was not asked for the longest goes.

/// Samples that are kept of each key.
pub const WINDOW: usize = 20;
const WAYS: usize = 8;
/// How many sets whoever makes a table gives it.
pub const SETS: usize = 32;

/// What a launch is, as far as its duration goes. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(u64);

impl Key {
    /// Of a launch of `threads` in all with so many shared bytes.
    #[must_use]
    pub const fn kernel(function: usize, threads: u64, shared_bytes: u32) -> Self {
        let size =
            ((threads | 1).ilog2() as u64) << 8 | (u32::BITS - shared_bytes.leading_zeros()) as u64;
        Self(mix(function as u64 ^ size << 48 ^ size) | 1)
    }

    /// Of a graph that can be launched.
    #[must_use]
    pub const fn graph(handle: usize) -> Self {
        Self(mix(handle as u64 ^ 1 << 63) | 1)
    }
}

/// One round of the finaliser that splitmix64 has.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    /// In nanoseconds; the longest that fits stands for all that are longer.
    samples: [u32; WINDOW],
    count: u8,
    next: u8,
    asked: u64,
}

const EMPTY: Entry = Entry { key: 0, samples: [0; WINDOW], count: 0, next: 0, asked: 0 };

/// Some keys of a table.
#[derive(Clone, Copy, Debug)]
pub struct Set([Entry; WAYS]);

impl Set {
    /// Nothing yet.
    pub const NEW: Self = Self([EMPTY; WAYS]);
}

/// What has been learnt, in memory that whoever learns gives: at least one set.
#[derive(Debug)]
pub struct Durations<S> {
    sets: S,
    now: u64,
}

impl<S: AsMut<[Set]>> Durations<S> {
    /// Nothing yet.
    #[must_use]
    pub const fn new(sets: S) -> Self {
        Self { sets, now: 0 }
    }

    fn set(&mut self, key: Key) -> &mut [Entry; WAYS] {
        self.now += 1;
        let sets = self.sets.as_mut();
        let count = sets.len();
        &mut sets[(key.0 >> 32) as usize % count].0
    }

    /// An upper estimate in nanoseconds; `None` if no launch of this key was ever measured.
    pub fn estimate_ns(&mut self, key: Key) -> Option<u64> {
        let now = self.now;
        let entry = self.set(key).iter_mut().find(|entry| entry.key == key.0)?;
        entry.asked = now;
        let samples = entry.samples.iter().take(entry.count.into());
        let (mut first, mut second) = (0, 0);
        for sample in samples {
            if *sample > first {
                (first, second) = (*sample, first);
            } else if *sample > second {
                second = *sample;
            }
        }
        let full = usize::from(entry.count) == WINDOW;
        Some(u64::from(if full { second } else { first }))
    }

    /// A launch took so long.
    pub fn learn(&mut self, key: Key, took_ns: u64) {
        let now = self.now;
        let set = self.set(key);
        let at = set.iter().position(|entry| entry.key == key.0).unwrap_or_else(|| {
            let longest = (0..WAYS).min_by_key(|at| set[*at].asked).unwrap_or(0);
            set[longest] = Entry { key: key.0, asked: now, ..EMPTY };
            longest
        });
        let entry = &mut set[at];
        entry.samples[usize::from(entry.next)] = u32::try_from(took_ns).unwrap_or(u32::MAX).max(1);
        entry.next = (entry.next + 1) % WINDOW as u8;
        entry.count = (entry.count + 1).min(WINDOW as u8);
    }

    /// A graph's handle may stand for another one from here on.
    pub fn forget(&mut self, key: Key) {
        for entry in self.set(key) {
            if entry.key == key.0 {
                *entry = EMPTY;
            }
        }
    }

    /// Functions' handles may stand for others from here on.
    pub fn forget_all(&mut self) {
        self.sets.as_mut().fill(Set::NEW);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Key = Key::kernel(0x7000, 1024, 0);

    #[test]
    fn a_key_that_was_never_measured_has_no_estimate() {
        let mut durations = Durations::new([Set::NEW; SETS]);
        assert_eq!(durations.estimate_ns(KEY), None);
        durations.learn(KEY, 5);
        assert_eq!(durations.estimate_ns(KEY), Some(5));
        durations.forget(KEY);
        assert_eq!(durations.estimate_ns(KEY), None);
    }

    #[test]
    fn the_size_of_a_launch_is_part_of_its_key() {
        let same = Key::kernel(0x7000, 1500, 0);
        assert_eq!(KEY, same, "within a factor of two");
        assert_ne!(KEY, Key::kernel(0x7000, 2048, 0));
        assert_ne!(KEY, Key::kernel(0x7000, 1024, 4096));
        assert_ne!(KEY, Key::kernel(0x8000, 1024, 0));
        assert_ne!(KEY, Key::graph(0x7000));
        let _ = Key::kernel(0, u64::MAX, u32::MAX);
    }

    #[test]
    fn one_odd_sample_counts_until_the_window_is_full_and_no_longer() {
        let mut durations = Durations::new([Set::NEW; SETS]);
        durations.learn(KEY, 1_000_000);
        (0..18).for_each(|_| durations.learn(KEY, 100));
        assert_eq!(durations.estimate_ns(KEY), Some(1_000_000));
        durations.learn(KEY, 100);
        assert_eq!(durations.estimate_ns(KEY), Some(100));
    }

    #[test]
    fn the_key_that_was_not_asked_for_the_longest_gives_way() {
        let mut durations = Durations::new([Set::NEW; SETS]);
        for function in 1..10_000 {
            durations.learn(Key::kernel(function << 8, 32, 0), 7);
            durations.learn(KEY, 9);
            assert_eq!(durations.estimate_ns(KEY), Some(9), "the key in use is gone");
        }
    }

    proptest! {
        #[test]
        fn of_the_last_samples_at_most_one_is_above_the_estimate(
            samples in prop::collection::vec(1_u64..10_000_000_000, 1..200),
        ) {
            let mut durations = Durations::new([Set::NEW; SETS]);
            for (i, sample) in samples.iter().enumerate() {
                durations.learn(KEY, *sample);
                let estimate = durations.estimate_ns(KEY).expect("measured");
                let longest = u64::from(u32::MAX);
                let last = samples[..=i].iter().rev().take(WINDOW).map(|s| (*s).min(longest));
                prop_assert!(last.clone().filter(|s| *s > estimate).count() <= 1);
                prop_assert!(last.max().expect("a sample") >= estimate, "no estimate is made up");
            }
        }

        #[test]
        fn what_became_faster_is_believed_within_a_window(slow in 1_u64..1 << 30, fast in 1_u64..1 << 20) {
            let mut durations = Durations::new([Set::NEW; SETS]);
            (0..100).for_each(|_| durations.learn(KEY, slow));
            (0..WINDOW).for_each(|_| durations.learn(KEY, fast));
            prop_assert_eq!(durations.estimate_ns(KEY), Some(fast));
        }
    }
}
