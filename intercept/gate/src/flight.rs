//! How much GPU time may be in flight at once, by estimate: never more than the bound, but always one
//! launch, however long.

/// What is in flight on one card.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flight {
    ns: u64,
    launches: u32,
}

impl Flight {
    /// Lets a launch go if it fits. `estimate_ns`: `None` if it was never measured, so that it runs
    /// alone. What it counts for from here on, or `None` if it does not fit.
    pub fn admit(&mut self, estimate_ns: Option<u64>, bound_ns: u32) -> Option<u64> {
        let bound = u64::from(bound_ns);
        let cost = estimate_ns.unwrap_or(bound).max(1);
        if self.launches > 0 && self.ns.saturating_add(cost) > bound {
            return None;
        }
        self.ns = self.ns.saturating_add(cost);
        self.launches += 1;
        Some(cost)
    }

    /// So many launches that counted for so much have ended, or count no more.
    pub fn land(&mut self, cost_ns: u64, launches: u32) {
        self.launches = self.launches.saturating_sub(launches);
        self.ns = if self.launches == 0 { 0 } else { self.ns.saturating_sub(cost_ns) };
    }

    /// Nothing is in flight.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.launches == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUND: u32 = 4_000_000;

    #[test]
    fn a_launch_that_was_never_measured_runs_alone() {
        let mut flight = Flight::default();
        assert!(flight.admit(Some(10), BOUND).is_some());
        assert_eq!(flight.admit(None, BOUND), None);
        flight.land(10, 1);
        let cost = flight.admit(None, BOUND).expect("alone");
        assert_eq!(flight.admit(Some(1), BOUND), None, "nothing beside it");
        flight.land(cost, 1);
        assert!(flight.is_empty());
    }

    #[test]
    fn one_launch_goes_however_long_it_is() {
        let mut flight = Flight::default();
        assert!(flight.admit(Some(500_000_000), BOUND).is_some());
        assert_eq!(flight.admit(Some(1), BOUND), None);
    }

    proptest! {
        #[test]
        fn what_is_in_flight_stays_within_the_bound_unless_it_is_one_launch(
            steps in prop::collection::vec((prop::option::of(0_u64..10_000_000), any::<bool>()), 0..300),
            bound in 1_u32..5_000_000,
        ) {
            let mut flight = Flight::default();
            let mut costs = Vec::new();
            for (estimate, lands) in steps {
                if lands {
                    if let Some(cost) = costs.pop() { flight.land(cost, 1) }
                } else if let Some(cost) = flight.admit(estimate, bound) {
                    costs.push(cost);
                }
                let sum: u64 = costs.iter().sum();
                prop_assert!(sum <= u64::from(bound) || costs.len() == 1);
                prop_assert_eq!(flight.is_empty(), costs.is_empty());
                if costs.is_empty() {
                    prop_assert!(flight.clone().admit(estimate, bound).is_some(), "one always goes");
                }
            }
        }
    }
}
