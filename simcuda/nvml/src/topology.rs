//! How cards lie: what is between two of them, which processors and memory are near, and the links.

use crate::entry::{
    Args, Card, Done, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_SUPPORTED, Nvml, card_of, cards,
};
use crate::identity::pci_info;
use crate::raw;

const SAME_CARD: u32 = 0;
const HOST_BRIDGE: u32 = 30;
const WHOLE_SYSTEM: u32 = 50;
const LEVELS: [u32; 6] = [SAME_CARD, 10, 20, HOST_BRIDGE, 40, WHOLE_SYSTEM];

const P2P_OK: u32 = 0;
const P2P_NOT_SUPPORTED: u32 = 5;
const P2P_NVLINK: u32 = 2;
const P2P_ATOMICS: u32 = 3;
const P2P_INDICES: u32 = 5;

const NVLINK_VERSION: u32 = 4;
const LINK_ERROR_KINDS: u32 = 5;
/// Peer-to-peer access and atomics over the link, and that this answer is valid.
const LINK_CAPABILITIES: [u32; 6] = [1, 0, 1, 0, 0, 1];
const TO_A_CARD: u32 = 0;
const LONG_BITS: u32 = 64;

fn level(one: &Card, other: &Card) -> u32 {
    if one.index == other.index {
        SAME_CARD
    } else if one.device().numa_node == other.device().numa_node {
        HOST_BRIDGE
    } else {
        WHOLE_SYSTEM
    }
}

/// The card at the other end of the link that the second parameter numbers.
fn end(args: Args) -> Result<Card, u32> {
    let card = args.card()?;
    let links = &card.device().nvlinks;
    if links.is_empty() {
        return Err(NOT_SUPPORTED);
    }
    let peer = *links.get(args.number(1) as usize).ok_or(INVALID_ARGUMENT)?;
    cards()?.into_iter().find(|card| card.index == peer).ok_or(INVALID_ARGUMENT)
}

/// Writes a set of bits as the caller's array of longs.
fn put_set(args: Args, words: u32, to: usize, bits: &[u32]) -> Done {
    for word in 0..words {
        let here = bits.iter().filter(|bit| **bit / LONG_BITS == word);
        let value = here.fold(0_u64, |set, bit| set | 1 << (bit % LONG_BITS));
        raw::put(args.pointer::<u64>(to).wrapping_add(word as usize), value)?;
    }
    Ok(())
}

/// Processors of a node of the host; the simulated nodes share those that the host has.
fn processors(node: u32) -> Vec<u32> {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let nodes = cards()
        .map_or(1, |cards| cards.iter().map(|card| card.device().numa_node + 1).max().unwrap_or(1));
    let share = (count / nodes).max(1);
    let first = (node * share).min(count - 1);
    (first..(first + share).min(count)).collect()
}

impl Nvml {
    pub(crate) fn nvmlDeviceGetTopologyCommonAncestor(args: Args) -> Done {
        let (card, other) = (args.card()?, card_of(args.0[1])?);
        args.answer(2, level(&card, &other))
    }

    /// All cards that are exactly so near, by a count that comes in as room and goes out as number.
    pub(crate) fn nvmlDeviceGetTopologyNearestGpus(args: Args) -> Done {
        let card = args.card()?;
        if !LEVELS.contains(&args.number(1)) {
            return Err(INVALID_ARGUMENT);
        }
        let mut near = cards()?;
        near.retain(|other| other.index != card.index && level(&card, other) == args.number(1));
        let room = raw::get(args.pointer::<u32>(2))? as usize;
        args.answer(2, near.len() as u32)?;
        if room == 0 {
            return Ok(());
        }
        if room < near.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        let to = args.pointer::<usize>(3);
        near.iter()
            .enumerate()
            .try_for_each(|(n, card)| raw::put(to.wrapping_add(n), card.handle()))
    }

    pub(crate) fn nvmlDeviceGetP2PStatus(args: Args) -> Done {
        let (card, other) = (args.card()?, card_of(args.0[1])?);
        let linked = card.device().nvlinks.contains(&other.index);
        let status = match args.number(2) {
            _ if card.index == other.index => return Err(INVALID_ARGUMENT),
            P2P_NVLINK | P2P_ATOMICS if !linked => P2P_NOT_SUPPORTED,
            index if index < P2P_INDICES => P2P_OK,
            _ => return Err(INVALID_ARGUMENT),
        };
        args.answer(3, status)
    }

    pub(crate) fn nvmlDeviceGetCpuAffinity(args: Args) -> Done {
        let node = args.card()?.device().numa_node;
        put_set(args, args.number(1), 2, &processors(node))
    }

    pub(crate) fn nvmlDeviceGetCpuAffinityWithinScope(args: Args) -> Done {
        Self::nvmlDeviceGetCpuAffinity(args)
    }

    pub(crate) fn nvmlDeviceGetMemoryAffinity(args: Args) -> Done {
        let node = args.card()?.device().numa_node;
        put_set(args, args.number(1), 2, &[node])
    }

    pub(crate) fn nvmlDeviceGetNumaNodeId(args: Args) -> Done {
        args.answer(1, args.card()?.device().numa_node)
    }

    pub(crate) fn nvmlDeviceGetNvLinkState(args: Args) -> Done {
        end(args)?;
        args.answer(2, 1_u32)
    }

    pub(crate) fn nvmlDeviceGetNvLinkVersion(args: Args) -> Done {
        end(args)?;
        args.answer(2, NVLINK_VERSION)
    }

    pub(crate) fn nvmlDeviceGetNvLinkCapability(args: Args) -> Done {
        end(args)?;
        let known = LINK_CAPABILITIES.get(args.number(2) as usize);
        args.answer(3, *known.ok_or(INVALID_ARGUMENT)?)
    }

    pub(crate) fn nvmlDeviceGetNvLinkRemotePciInfo_v2(args: Args) -> Done {
        args.answer(2, pci_info(&end(args)?))
    }

    pub(crate) fn nvmlDeviceGetNvLinkRemoteDeviceType(args: Args) -> Done {
        end(args)?;
        args.answer(2, TO_A_CARD)
    }

    pub(crate) fn nvmlDeviceGetNvLinkErrorCounter(args: Args) -> Done {
        end(args)?;
        if args.number(2) < LINK_ERROR_KINDS {
            args.answer(3, 0_u64)
        } else {
            Err(INVALID_ARGUMENT)
        }
    }
}
