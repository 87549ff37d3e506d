//! How long a busy tenant stays on a card while another that does not fit beside it waits. Long enough
//! that moving costs a tenth of the time; not longer than `max_turn`, at the price of up to three
//! tenths; and where even that does not hold, `thrash_period`.

use std::collections::BTreeMap;

use crate::{
    Nanos,
    card::Uuid,
    event::{Action, Happening, Kind},
    state::State,
};

use super::{line::Asker, moves::Place};

/// No turn is shorter, however fast the link.
const TURN_MIN_NS: Nanos = 1_000_000_000;
/// Parts of the time that moving may take, in percent.
const COST_PERCENT: Nanos = 10;
const COST_MAX_PERCENT: Nanos = 30;

/// The turns of those who compete for a card.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    of: BTreeMap<u64, Nanos>,
    /// Moving takes too much of the time even so.
    pub(crate) thrashes: bool,
}

impl Turns {
    pub(crate) fn get(&self, place: Place) -> Nanos {
        self.of.get(&place.id).copied().unwrap_or(TURN_MIN_NS)
    }
}

impl State {
    pub(crate) fn turns_on(&mut self, now: Nanos, card: Uuid, asker: &Asker) -> Turns {
        let switch_ns = self.residency.switch_ns.get(&card).copied().unwrap_or(0);
        let mut weights = BTreeMap::new();
        for place in self.swap_places() {
            let Some(gpu) = self.place_gpu(place).filter(|gpu| gpu.uuid == card) else { continue };
            let busy = self.idle_at(place).is_none_or(|at| at > now);
            let waits = gpu.residence.wanted_since.is_some() || place == asker.place;
            if waits || busy && self.resident_units(place) > 0 {
                weights.insert(place.id, u64::from(gpu.share_percent.max(1)));
            }
        }
        weights.entry(asker.place.id).or_insert(1);
        let turns = share_out(&weights, switch_ns, self.config.swap);
        let known = self.residency.thrashing.entry(card).or_default();
        *known = turns.thrashes;
        turns
    }

    /// Says once that a card's tenants do not fit together.
    pub(crate) fn tell_thrashing(&mut self, card: Uuid, was: bool, actions: &mut Vec<Action>) {
        let thrashes = self.residency.thrashing.get(&card).copied().unwrap_or(false);
        if thrashes && !was {
            let text = "tenants that are busy do not fit on the card together, and moving them takes \
                        too long for short turns: one waits while the other works. Lower limits, \
                        another card, or fewer tenants would help";
            actions.push(Action::Tell(Happening::new(Kind::NoRoom, text).gpu(card)));
        }
    }
}

/// Turns by weight.
fn share_out(weights: &BTreeMap<u64, u64>, switch_ns: Nanos, swap: super::SwapConfig) -> Turns {
    let count = weights.len() as u64;
    let sum: u64 = weights.values().sum::<u64>().max(1);
    let moving = switch_ns.saturating_mul(count);
    let heaviest = weights.values().max().copied().unwrap_or(1);
    // All turns together, so that moving is a tenth of turns and moving.
    let wanted = moving * (100 - COST_PERCENT) / COST_PERCENT;
    let most = swap.max_turn_ns.saturating_mul(sum) / heaviest;
    let mut cycle = wanted.max(TURN_MIN_NS * count).min(most);
    let thrashes = moving * 100 > (cycle + moving) * COST_MAX_PERCENT;
    if thrashes {
        cycle = swap.thrash_period_ns.saturating_mul(sum) / heaviest;
    }
    let of = weights.iter().map(|(id, weight)| (*id, cycle / sum * weight)).collect();
    Turns { of, thrashes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SwapConfig;

    const S: Nanos = 1_000_000_000;

    fn turns(weights: [u64; 2], switch_ns: Nanos) -> ([Nanos; 2], bool) {
        let weights = BTreeMap::from([(1, weights[0]), (2, weights[1])]);
        let turns = share_out(&weights, switch_ns, SwapConfig::default());
        ([turns.of[&1], turns.of[&2]], turns.thrashes)
    }

    #[test]
    fn moving_costs_a_tenth_and_turns_follow_the_shares() {
        let ([one, two], thrashes) = turns([25, 75], S / 2);
        assert_eq!((one + two, two / one, thrashes), (9 * S, 3, false));
    }

    #[test]
    fn no_turn_is_longer_than_the_longest_and_moving_may_then_cost_more() {
        let ([one, two], thrashes) = turns([1, 1], 3 * S);
        assert_eq!((one, two, thrashes), (10 * S, 10 * S, false));
    }

    #[test]
    fn where_moving_costs_too_much_turns_are_long() {
        let ([one, two], thrashes) = turns([1, 1], 6 * S);
        assert_eq!((one, two, thrashes), (60 * S, 60 * S, true));
    }
}
