//! Who is entitled to how much of a card right now, among those that ask. Pure arithmetic.
//!
//! Everybody has its share. What nobody's share covers goes to the highest class, equally, as far as
//! its limits let it, and what is left then to the next class.

/// One that asks for the card. Fractions of the card's time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Asker {
    pub(crate) class: u16,
    pub(crate) share: f64,
    pub(crate) limit: f64,
}

/// The part of the card for each.
pub(crate) fn rates(askers: &[Asker]) -> Vec<f64> {
    let mut rates: Vec<f64> = askers.iter().map(|asker| asker.share.min(asker.limit)).collect();
    let mut left = (1.0 - rates.iter().sum::<f64>()).max(0.0);
    let mut classes: Vec<u16> = askers.iter().map(|asker| asker.class).collect();
    classes.sort_unstable_by_key(|class| std::cmp::Reverse(*class));
    classes.dedup();
    for class in classes {
        let mut open: Vec<usize> = (0..askers.len())
            .filter(|&at| askers[at].class == class && rates[at] < askers[at].limit)
            .collect();
        // Those with the least room fill first, so that one round is enough.
        let room = |rates: &[f64], at: usize| askers[at].limit - rates[at];
        open.sort_by(|&a, &b| room(&rates, a).total_cmp(&room(&rates, b)));
        let mut to_go = open.len();
        for at in open {
            let part = (left / to_go as f64).min(room(&rates, at));
            rates[at] += part;
            left -= part;
            to_go -= 1;
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(class: u16, share: f64, limit: f64) -> Asker {
        Asker { class, share, limit }
    }

    fn percents(askers: &[Asker]) -> Vec<i32> {
        rates(askers).into_iter().map(|rate| (rate * 100.0).round() as i32).collect()
    }

    #[test]
    fn what_no_share_covers_is_split_equally() {
        assert_eq!(percents(&[asker(500, 0.2, 1.0), asker(500, 0.3, 1.0)]), [45, 55]);
        assert_eq!(percents(&[asker(500, 0.25, 1.0)]), [100]);
        assert_eq!(percents(&[asker(500, 0.6, 1.0), asker(500, 0.0, 1.0)]), [80, 20]);
        assert_eq!(percents(&[]), [0; 0]);
    }

    #[test]
    fn a_limit_holds_and_others_get_what_it_leaves() {
        assert_eq!(percents(&[asker(500, 0.25, 0.4), asker(500, 0.25, 1.0)]), [40, 60]);
        assert_eq!(percents(&[asker(500, 0.25, 0.25)]), [25], "strict");
        let three = [asker(500, 0.0, 1.0), asker(500, 0.0, 0.1), asker(500, 0.0, 1.0)];
        assert_eq!(percents(&three), [45, 10, 45]);
    }

    #[test]
    fn a_higher_class_gets_all_but_what_is_guaranteed_to_lower_ones() {
        assert_eq!(percents(&[asker(1000, 0.0, 1.0), asker(100, 0.25, 1.0)]), [75, 25]);
        assert_eq!(percents(&[asker(1000, 0.5, 1.0), asker(100, 0.0, 1.0)]), [100, 0]);
        let capped = [asker(1000, 0.1, 0.6), asker(500, 0.1, 0.2), asker(100, 0.0, 1.0)];
        assert_eq!(percents(&capped), [60, 20, 20], "what limits leave goes down the classes");
    }
}
