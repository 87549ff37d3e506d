//! Which cards a tenant gets: by index, by UUID or the beginning of one, or any that fits.

use crate::{
    admit::{Reason, Rejection},
    card::Uuid,
};

/// A card to choose from.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) uuid: Uuid,
    pub(crate) index: u32,
    /// What was promised to nobody; `any` takes the card with the most.
    pub(crate) free_units: u64,
    pub(crate) tenants: usize,
}

enum Wish {
    This(Uuid),
    Any(usize),
}

/// Cards in the order asked for. `fits(card, place)` says whether the card can take what is asked
/// at that place of the list, or why not; `any` passes over cards that can't.
pub(crate) fn select(
    cards: &[Choice],
    wishes: &[String],
    fits: impl Fn(Uuid, usize) -> Result<(), Rejection>,
) -> Result<Vec<Uuid>, Rejection> {
    if cards.is_empty() {
        return Err(Rejection::new(
            Reason::NoGpu,
            "this broker has no GPU",
            "`halfwarp doctor` says what the driver shows",
        ));
    }
    let any = [String::from("any")];
    let wishes = if wishes.is_empty() { &any } else { wishes };
    let wishes = wishes.iter().map(|text| read(cards, text)).collect::<Result<Vec<_>, _>>()?;
    let mut named = Vec::new();
    for wish in &wishes {
        if let Wish::This(uuid) = wish {
            if named.contains(uuid) {
                return Err(Rejection::new(
                    Reason::GpuTwice,
                    format!("{uuid} is named twice"),
                    "name each card once",
                ));
            }
            named.push(*uuid);
        }
    }
    let mut chosen = Vec::new();
    for wish in wishes {
        match wish {
            Wish::This(uuid) => chosen.push(uuid),
            Wish::Any(count) => {
                for _ in 0..count {
                    let taken: Vec<_> = named.iter().chain(&chosen).copied().collect();
                    chosen.push(best(cards, &taken, |uuid| fits(uuid, chosen.len()))?);
                }
            }
        }
    }
    Ok(chosen)
}

/// The card with most free that fits and is not taken.
fn best(
    cards: &[Choice],
    taken: &[Uuid],
    fits: impl Fn(Uuid) -> Result<(), Rejection>,
) -> Result<Uuid, Rejection> {
    let mut left: Vec<_> = cards.iter().filter(|card| !taken.contains(&card.uuid)).collect();
    left.sort_by_key(|card| (std::cmp::Reverse(card.free_units), card.tenants, card.index));
    let mut refused = None;
    for card in left {
        match fits(card.uuid) {
            Ok(()) => return Ok(card.uuid),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        let message = format!("more cards are asked for than the {} there are", cards.len());
        Rejection::new(Reason::NotEnoughGpus, message, "`halfwarp gpus` lists them")
    }))
}

fn read(cards: &[Choice], text: &str) -> Result<Wish, Rejection> {
    let unknown = || {
        let there: Vec<_> =
            cards.iter().map(|card| format!("{} ({})", card.index, card.uuid)).collect();
        let message = format!("there is no GPU {text:?}; there are {}", there.join(", "));
        let help = "name an index, a UUID or its unique beginning, `any`, or `any:N`";
        Rejection::new(Reason::NoSuchGpu, message, help)
    };
    if text == "any" {
        return Ok(Wish::Any(1));
    }
    if let Some(count) = text.strip_prefix("any:") {
        let count = count.parse::<usize>().ok().filter(|n| *n > 0);
        return count.map(Wish::Any).ok_or_else(unknown);
    }
    if text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit()) {
        let index = text.parse::<u32>().map_err(|_| unknown())?;
        let card = cards.iter().find(|card| card.index == index);
        return card.map(|card| Wish::This(card.uuid)).ok_or_else(unknown);
    }
    let beginning = text.strip_prefix("GPU-").unwrap_or(text).to_ascii_lowercase();
    let begins = |card: &&Choice| card.uuid.to_string()["GPU-".len()..].starts_with(&beginning);
    let mut found = cards.iter().filter(begins).filter(|_| !beginning.is_empty());
    match (found.next(), found.next()) {
        (Some(card), None) => Ok(Wish::This(card.uuid)),
        (Some(_), Some(_)) => Err(Rejection::new(
            Reason::AmbiguousGpu,
            format!("{text:?} begins the UUID of more than one GPU"),
            "write more of it",
        )),
        (None, _) => Err(unknown()),
    }
}
