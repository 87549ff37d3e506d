//! Rules of the books of movable memory that hold whatever comes in whatever order: no byte is lost
//! or counted twice, nothing is in two places, and what was refused is as it was.

use halfwarp_books::{Backing, Freeing, Gone, Home, NoRoom, SLAB_BYTES, Slot, Where};
use proptest::prelude::*;
use shim_cuda_headers::CUcontext;

const ON: Slot = Slot(0);
const HOME: Home = Home { slot: ON, context: CUcontext(7), device: 0 };
const CHUNK_BYTES: u64 = 16 << 20;

/// One step of a program, of our thread, or of the driver that answers it.
#[derive(Clone, Debug)]
enum Step {
    Small(u64),
    /// Pieces of two MiB each.
    Large(u8),
    Free(prop::sample::Index),
    Reap,
    BeginLeave,
    /// Whether the driver copied, unmapped and released it.
    EndLeave(bool, bool, bool),
    BeginArrive,
    EndArrive(bool, bool),
    Touch,
    EndContext,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..1_u64 << 20).prop_map(Step::Small),
        (1..5_u8).prop_map(Step::Large),
        any::<prop::sample::Index>().prop_map(Step::Free),
        Just(Step::Reap),
        Just(Step::BeginLeave),
        (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(a, b, c)| Step::EndLeave(a, b, c)),
        Just(Step::EndLeave(true, true, true)),
        Just(Step::BeginArrive),
        (any::<bool>(), any::<bool>()).prop_map(|(a, b)| Step::EndArrive(a, b)),
        Just(Step::EndArrive(true, true)),
        Just(Step::Touch),
        Just(Step::EndContext),
    ];
    prop::collection::vec(step, 1..200)
}

/// What a driver would have: the books' own figures are compared with it.
#[derive(Default)]
struct World {
    backing: Backing,
    live: Vec<(u64, u64)>,
    /// Handles that are there.
    handles: Vec<u64>,
    next: u64,
    leaving: Vec<u64>,
    arriving: Vec<u64>,
}

impl World {
    fn make(&mut self, bytes: u64) -> (u64, Vec<(u64, u64, u64)>) {
        let base = (self.next + 1) << 32;
        let pieces = bytes / SLAB_BYTES;
        let made = (0..pieces)
            .map(|i| {
                self.next += 1;
                self.handles.push(self.next);
                (base + i * SLAB_BYTES, SLAB_BYTES, self.next)
            })
            .collect();
        (base, made)
    }

    fn undo(&mut self, gone: Gone) {
        let mapped = gone.mapped.iter().map(|(_, _, handle)| *handle);
        for handle in mapped.chain(gone.handles.iter().map(|(handle, _)| *handle)) {
            let at = self.handles.iter().position(|known| *known == handle);
            self.handles.swap_remove(at.expect("released once"));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Small(bytes) => {
                let placed = self.backing.place(HOME, bytes);
                let at = placed.unwrap_or_else(|| {
                    let (_, made) = self.make(SLAB_BYTES);
                    self.backing.enter_slab(made[0], HOME, bytes).expect("an empty slab has room")
                });
                self.live.push((at, bytes));
            }
            Step::Large(pieces) => {
                let bytes = u64::from(pieces) * SLAB_BYTES;
                let (base, made) = self.make(bytes);
                self.backing.enter_large(base, bytes - 5, HOME, &made);
                self.live.push((base, bytes - 5));
            }
            Step::Free(index) if !self.live.is_empty() => {
                let (at, _) = self.live.swap_remove(index.index(self.live.len()));
                match self.backing.free(at) {
                    Freeing::Foreign => panic!("{at:#x} is ours"),
                    Freeing::Gone(Some(gone)) => self.undo(gone),
                    Freeing::Dying | Freeing::Gone(None) => {}
                }
                assert!(matches!(self.backing.free(at), Freeing::Foreign), "freed once");
            }
            Step::Free(_) => {}
            Step::Reap => {
                let mut list = self.backing.take_dying();
                for gone in self.backing.reap(&mut list) {
                    self.undo(gone);
                }
                list.into_iter().for_each(|base| self.backing.put_back(base));
            }
            Step::BeginLeave if self.arriving.is_empty() => {
                if let Ok(Some((piece, _))) = self.backing.begin_leave(ON, 0) {
                    self.leaving.push(piece.address);
                }
            }
            Step::BeginArrive if self.leaving.is_empty() => {
                if let Some(piece) = self.backing.begin_arrive(ON) {
                    self.arriving.push(piece.address);
                }
            }
            Step::BeginLeave | Step::BeginArrive => {}
            Step::EndLeave(copied, unmapped, released) => {
                self.end_leave(copied, unmapped, released)
            }
            Step::EndArrive(created, copied) => self.end_arrive(created, copied),
            Step::Touch => self.backing.forget_copies(ON, None),
            Step::EndContext => {
                let latest = self.backing.latest();
                self.backing.end_context(HOME.context, latest);
                self.live.clear();
            }
        }
    }

    fn end_leave(&mut self, copied: bool, unmapped: bool, released: bool) {
        let Some(address) = self.leaving.pop() else { return };
        let piece = self.backing.pieces().find(|p| p.address == address).expect("there").clone();
        let handle = piece.handle.expect("on the card");
        if !copied || !unmapped {
            self.backing.stay(address, copied);
        } else if released {
            self.handles.retain(|known| *known != handle);
            self.backing.left(address, None);
        } else {
            self.backing.left(address, Some(handle));
        }
    }

    fn end_arrive(&mut self, created: bool, copied: bool) {
        let Some(address) = self.arriving.pop() else { return };
        let piece = self.backing.pieces().find(|p| p.address == address).expect("there").clone();
        let handle = piece.handle.or_else(|| {
            created.then(|| {
                self.next += 1;
                self.handles.push(self.next);
                self.next
            })
        });
        match handle {
            Some(handle) if copied => self.backing.arrived(address, handle),
            Some(handle) if piece.handle.is_some() => {
                self.backing.stay_away(address, Some(handle));
            }
            other => {
                self.handles.retain(|known| Some(*known) != other);
                self.backing.stay_away(address, None);
            }
        }
    }

    fn judge(&mut self) {
        let mut copies = 0;
        let mut handles = Vec::new();
        for piece in self.backing.pieces() {
            let copy: u64 = piece.copy.iter().flatten().map(|part| part.bytes).sum();
            assert!(copy == 0 || copy == piece.bytes, "a copy is whole");
            let on_card = matches!(piece.at, Where::Resident | Where::Leaving);
            assert!(!on_card || piece.handle.is_some(), "what is on the card has a handle");
            assert!(on_card || copy == piece.bytes, "what is not has a copy");
            copies += copy;
            handles.extend(piece.handle);
        }
        handles.sort_unstable();
        self.handles.sort_unstable();
        assert_eq!(handles, self.handles, "each handle once");
        assert_eq!(self.backing.room(ON).used_bytes(), copies, "and each copy");
        for (at, bytes) in &self.live {
            for address in [*at, at + bytes / 2, at + bytes - 1] {
                let seen = self.backing.find(address).expect("a live allocation is found");
                assert_eq!((seen.base, seen.bytes), (*at, *bytes));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn nothing_is_lost_and_nothing_is_twice(steps in steps()) {
        let mut world = World::default();
        world.backing.room(ON).enter(1, CHUNK_BYTES);
        world.backing.room(ON).enter(2, CHUNK_BYTES / 2);
        for step in steps {
            world.step(step);
            world.judge();
        }
        while !world.leaving.is_empty() {
            world.end_leave(true, true, true);
        }
        while !world.arriving.is_empty() {
            world.end_arrive(true, true);
        }
        world.step(Step::EndContext);
        world.step(Step::Reap);
        world.judge();
        assert_eq!(world.backing.pieces().count(), 0, "a context takes all along");
        assert_eq!(world.handles, Vec::<u64>::new());
        assert_eq!(world.backing.room(ON).free_bytes(), CHUNK_BYTES * 3 / 2);
    }
}

#[test]
fn what_has_no_room_for_its_copy_does_not_leave() {
    let mut backing = Backing::default();
    backing.room(ON).enter(1, SLAB_BYTES);
    let pieces = [(1 << 32, SLAB_BYTES, 1), ((1 << 32) + SLAB_BYTES, SLAB_BYTES, 2)];
    backing.enter_large(1 << 32, 2 * SLAB_BYTES, HOME, &pieces);
    let (first, is_true) = backing.begin_leave(ON, 0).expect("room").expect("a piece");
    assert!(!is_true);
    backing.left(first.address, None);
    assert_eq!(backing.begin_leave(ON, 0).err(), Some(NoRoom));
    assert!(!backing.is_whole());
    assert_eq!(backing.swapped_bytes(ON), SLAB_BYTES);
}

#[test]
fn a_copy_that_is_still_true_is_said_to_be() {
    let mut backing = Backing::default();
    backing.room(ON).enter(1, SLAB_BYTES);
    backing.enter_large(1 << 32, SLAB_BYTES, HOME, &[(1 << 32, SLAB_BYTES, 1)]);
    for touched in [false, true] {
        let (piece, _) = backing.begin_leave(ON, 0).expect("room").expect("a piece");
        backing.left(piece.address, None);
        backing.begin_arrive(ON).expect("it is away");
        backing.arrived(piece.address, 2);
        if touched {
            backing.forget_copies(ON, None);
        }
        let (piece, is_true) = backing.begin_leave(ON, 0).expect("room").expect("a piece");
        assert_eq!(is_true, !touched);
        backing.stay(piece.address, true);
    }
}
