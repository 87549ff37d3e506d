//! How the cards of a node lie: which are linked to which, and which node of the host is near.

use anyhow::{Result, ensure};
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topology {
    /// Node of the host for each card, in NVML's order; all 0 where nothing is said.
    #[serde(default)]
    numa: Vec<u32>,
    /// Two cards and how many links are between them.
    #[serde(default)]
    nvlink: Vec<(u32, u32, u32)>,
    /// As many links between each two cards.
    #[serde(default)]
    nvlink_all: u32,
}

/// No card has more.
const LINKS_MAX: usize = 18;

impl Topology {
    pub(crate) fn check(&self, cards: u32) -> Result<()> {
        let numa = self.numa.len();
        ensure!(numa == 0 || numa == cards as usize, "numa names {numa} cards, there are {cards}");
        for (one, other, _) in &self.nvlink {
            let known = one != other && *one.max(other) < cards;
            ensure!(known, "nvlink [{one}, {other}] must name two of the {cards} cards");
        }
        for card in 0..cards {
            let links = self.nvlinks(card, cards).len();
            ensure!(links <= LINKS_MAX, "card {card} has {links} links, {LINKS_MAX} are possible");
        }
        Ok(())
    }

    pub(crate) fn numa_node(&self, card: u32) -> u32 {
        self.numa.get(card as usize).copied().unwrap_or(0)
    }

    /// Which card is at the other end of each of the card's links.
    pub(crate) fn nvlinks(&self, card: u32, cards: u32) -> Vec<u32> {
        let each = (0..cards).filter(|other| *other != card).map(|other| (other, self.nvlink_all));
        let named = self.nvlink.iter().filter_map(|(one, other, links)| match card {
            _ if card == *one => Some((*other, *links)),
            _ if card == *other => Some((*one, *links)),
            _ => None,
        });
        let all = each.chain(named);
        all.flat_map(|(end, links)| std::iter::repeat_n(end, links as usize)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Topology {
        toml::from_str(text).expect("a topology")
    }

    #[test]
    fn a_link_has_two_ends() {
        let bridged = read("numa = [0, 1]\nnvlink = [[0, 1, 2]]");
        bridged.check(2).expect("two cards");
        assert_eq!((bridged.nvlinks(0, 2), bridged.nvlinks(1, 2)), (vec![1, 1], vec![0, 0]));
        assert_eq!(bridged.numa_node(1), 1);
        assert_eq!(read("nvlink_all = 2").nvlinks(1, 3), [0, 0, 2, 2]);
    }

    #[test]
    fn a_map_of_other_cards_is_refused() {
        assert!(read("numa = [0]").check(2).is_err());
        assert!(read("nvlink = [[0, 2, 1]]").check(2).is_err());
        assert!(read("nvlink = [[1, 1, 1]]").check(2).is_err());
        assert!(read("nvlink_all = 10").check(3).is_err());
    }
}
