//! Who becomes a tenant. What is guaranteed must fit: the sum of requests on a card never exceeds
//! its memory, the sum of shares never 100 %. Limits may overlap. Every refusal has a reason of a
//! closed set, says what was found, and what to do.

use std::collections::BTreeSet;

use halfwarp_api::{GPUS, UNIT_BYTES, wire::Token};
use halfwarp_rest::{Amount, Bytes, MemoryWish, Mode, NewTenant, OnReclaim, Problem, ShareWish};

use crate::{
    card::{Card, Uuid},
    event::{Action, Admitted, Happening, Kind, Runner},
    reclaim::Lending,
    residency::Suspension,
    select::{self, Choice},
    state::State,
    tenant::{Tenant, TenantGpu},
};

const NAME_MAX: usize = 63;
pub(crate) const PRIORITY: std::ops::RangeInclusive<u16> = 1..=1000;
const PRIORITY_NORMAL: u16 = 500;

macro_rules! reasons {
    ($($variant:ident $text:literal,)*) => {
        /// Why something was refused.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Reason { $($variant,)* }

        impl Reason {
            /// As the API spells it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

reasons! {
    NoGpu "no-gpu",
    NoSuchGpu "no-such-gpu",
    AmbiguousGpu "ambiguous-gpu",
    GpuTwice "gpu-twice",
    NotEnoughGpus "not-enough-gpus",
    TooManyGpus "too-many-gpus",
    MemoryCount "memory-count",
    NoMemory "no-memory",
    RequestAboveLimit "request-above-limit",
    LimitAboveCard "limit-above-card",
    CardFull "card-full",
    SharesFull "shares-full",
    ShareMissing "share-missing",
    ModeDiffers "mode-differs",
    Priority "priority",
    Name "name",
    Group "group",
    Lease "lease",
    NoSwap "no-swap",
    HostPool "host-pool",
    CannotMove "cannot-move",
    WrongUser "wrong-user",
    RunnerGone "runner-gone",
    UnknownTenant "unknown-tenant",
    Malformed "malformed",
    NoSuchPath "no-such-path",
    NoSuchMethod "no-such-method",
    TooLarge "too-large",
    Internal "internal",
}

/// A refusal, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejection {
    pub reason: Reason,
    /// What was tried and what was found.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Rejection {
    pub fn new(reason: Reason, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { reason, message: message.into(), help: help.into() }
    }

    /// As the API says it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let reason = self.reason.as_str().to_owned();
        Problem { reason, message: self.message.clone(), help: self.help.clone() }
    }
}

impl State {
    /// Whether a card that was asked for would have to be less full. [`crate::Event::CallBack`] may
    /// make it so.
    #[must_use]
    pub fn lacks_room_for(&self, ask: &NewTenant) -> bool {
        self.entitle(ask).is_err_and(|rejection| rejection.reason == Reason::CardFull)
    }

    pub(crate) fn admit(
        &mut self,
        ask: &NewTenant,
        token: Token,
        uid: u32,
        runner: Option<Runner>,
        at_s: u64,
        actions: &mut Vec<Action>,
    ) {
        let mut tenant = match self.entitle(ask) {
            Ok(tenant) => tenant,
            Err(rejection) => {
                self.count_admission_refusal(rejection.reason.as_str());
                let told = Happening::new(Kind::TenantRefused, rejection.message.clone());
                actions.push(Action::Tell(told));
                actions.push(Action::Rejected(rejection));
                return;
            }
        };
        let id = self.next_tenant;
        self.next_tenant += 1;
        (tenant.id, tenant.token, tenant.uid) = (id, token, uid);
        tenant.party = self.party_of(uid, tenant.group.as_deref()).unwrap_or(id);
        (tenant.runner, tenant.started_at_s) = (runner, at_s);
        let gpus: Vec<_> = tenant.gpus.iter().map(|gpu| gpu.uuid).collect();
        for gpu in &tenant.gpus {
            let compute = gpu.share_percent > 0 || tenant.priority != PRIORITY_NORMAL;
            if let Some(card) = self.cards.get_mut(&gpu.uuid) {
                card.mode = match (ask.mode, card.mode) {
                    (Some(mode), _) => mode,
                    (None, Mode::Timesharing) if compute => Mode::Fair,
                    (None, mode) => mode,
                };
            }
        }
        let told = Happening::new(Kind::TenantAdmitted, format!("{} admitted", tenant.name));
        actions.push(Action::Tell(told.tenant(id)));
        actions.push(Action::Admitted(Admitted { id, token, gpus }));
        actions.push(Action::Save);
        self.tenants.insert(id, tenant);
        self.compute.stale = true;
        self.note_tenants(0);
    }

    /// Whether a request fits beside those of others and what others keep above theirs. One that
    /// does not rise always does.
    fn can_guarantee(
        &self,
        card: &Card,
        request: Bytes,
        now: Option<(&Tenant, &TenantGpu)>,
    ) -> Result<(), Rejection> {
        let (index, uuid, total) = (card.facts.index, card.facts.uuid, card.facts.total_bytes);
        let own = now.map_or(0, |(_, gpu)| u64::from(gpu.request_units));
        let own_kept = now.map_or(0, |(tenant, gpu)| tenant.owed_units(gpu) - own);
        let requested = (self.requested_units(uuid) - own) * UNIT_BYTES;
        let kept = (self.kept_units(uuid) - own_kept) * UNIT_BYTES;
        let left = total.saturating_sub(requested + kept);
        if request.0 <= left || now.is_some() && request.0 <= own * UNIT_BYTES {
            return Ok(());
        }
        let [requested, kept, total, left] = [requested, kept, total, left].map(Bytes);
        let mut message = format!(
            "{request} of GPU {index} cannot be guaranteed: {requested} of {total} are \
             guaranteed to others, {left} are left"
        );
        if kept.0 > 0 {
            message +=
                &format!("; {kept} are lent to tenants that cannot be made to give them back");
        }
        let help = "ask for less, for another card, or end a tenant (`halfwarp ps`)";
        Err(Rejection::new(Reason::CardFull, message, help))
    }

    /// Whether there is host memory for one more tenant's copies.
    fn can_swap(&self) -> Result<(), Rejection> {
        let pool = self.host_pool();
        if pool.total_bytes == 0 {
            let message = "swap was asked for, and this broker has no host pool";
            let help = "start the program without --swap, or set host_pool in halfwarpd.toml";
            return Err(Rejection::new(Reason::NoSwap, message, help));
        }
        if self.pool_left_bytes() == 0 {
            let message = format!(
                "swap was asked for, and all of the host pool of {} is taken",
                Bytes(pool.total_bytes)
            );
            let help = "enlarge host_pool, end tenants with swap, or start without --swap";
            return Err(Rejection::new(Reason::HostPool, message, help));
        }
        Ok(())
    }

    /// The entitlement that was asked for, if it can be given.
    fn entitle(&self, ask: &NewTenant) -> Result<Tenant, Rejection> {
        let name = readable(ask.name.as_deref(), Reason::Name)?.unwrap_or("unnamed").to_owned();
        let group = readable(ask.group.as_deref(), Reason::Group)?.map(str::to_owned);
        let priority = ask.priority.unwrap_or(PRIORITY_NORMAL);
        if !PRIORITY.contains(&priority) {
            let message = format!("priority {priority} is not within 1 to 1000");
            let help = "use high (1000), normal (500), low (100) or a number between";
            return Err(Rejection::new(Reason::Priority, message, help));
        }
        if ask.swap {
            self.can_swap()?;
        }
        let fits = |uuid, place| self.entitle_gpu(ask, uuid, place).map(|_| ());
        let chosen = select::select(&self.choices(), &ask.gpus, fits)?;
        if chosen.len() > GPUS {
            let message =
                format!("{} cards were asked for; a tenant has {GPUS} at most", chosen.len());
            return Err(Rejection::new(Reason::TooManyGpus, message, "ask for fewer cards"));
        }
        if ask.memory.len() > 1 && ask.memory.len() != chosen.len() {
            let message = format!(
                "{} amounts of memory were given for {} cards",
                ask.memory.len(),
                chosen.len()
            );
            let help = "give one amount for all cards, or one for each";
            return Err(Rejection::new(Reason::MemoryCount, message, help));
        }
        let may_end = ask.on_reclaim.unwrap_or(self.config.on_reclaim) == OnReclaim::End;
        let gpus = chosen.iter().enumerate();
        let gpus = gpus.map(|(place, uuid)| self.entitle_gpu(ask, *uuid, place));
        Ok(Tenant {
            id: 0,
            token: Token::default(),
            name,
            uid: 0,
            group,
            party: 0,
            priority,
            runner: None,
            runner_gone: false,
            ending: false,
            started_at_s: 0,
            gpus: gpus.collect::<Result<_, _>>()?,
            processes: BTreeSet::new(),
            lending: Lending { may_end, ..Lending::default() },
            swap: ask.swap,
            suspension: Suspension::default(),
            suspension_until: 0,
            suspension_failed: None,
            absent: BTreeSet::new(),
        })
    }

    /// Who a tenant of this group takes turns with.
    pub(crate) fn party_of(&self, uid: u32, group: Option<&str>) -> Option<u64> {
        let group = group?;
        let same = |t: &&Tenant| t.uid == uid && t.group.as_deref() == Some(group);
        self.tenants.values().find(same).map(|t| t.party)
    }

    fn choices(&self) -> Vec<Choice> {
        let mut choices: Vec<_> = self
            .cards
            .values()
            .map(|card| Choice {
                uuid: card.facts.uuid,
                index: card.facts.index,
                free_units: self.spare_units(card.facts.uuid),
                tenants: self.slots_on(card.facts.uuid).len(),
            })
            .collect();
        choices.sort_by_key(|choice| choice.index);
        choices
    }

    /// What is asked at one place of the list, on this card.
    fn entitle_gpu(
        &self,
        ask: &NewTenant,
        uuid: Uuid,
        place: usize,
    ) -> Result<TenantGpu, Rejection> {
        let Some(card) = self.cards.get(&uuid) else {
            let message = format!("there is no GPU {uuid}");
            return Err(Rejection::new(Reason::NoSuchGpu, message, "`halfwarp gpus` lists them"));
        };
        let wish = if ask.memory.len() == 1 { ask.memory.first() } else { ask.memory.get(place) };
        let (request, limit) = self.memory_on(card, wish, None)?;
        let compute = share_of(ask.compute, wish);
        self.share_fits(card, compute, ask.mode, None)?;
        let units = |bytes: Bytes| u32::try_from(bytes.0 / UNIT_BYTES).unwrap_or(u32::MAX);
        Ok(TenantGpu {
            share_percent: compute.share.0,
            share_limit_percent: compute.limit.0,
            ..TenantGpu::new(uuid, units(request), units(limit))
        })
    }

    /// Request and limit on a card, for a new tenant or in place of what `now` is. Without a wish
    /// nothing is guaranteed and the card is the limit.
    pub(crate) fn memory_on(
        &self,
        card: &Card,
        wish: Option<&MemoryWish>,
        now: Option<(&Tenant, &TenantGpu)>,
    ) -> Result<(Bytes, Bytes), Rejection> {
        let total = Bytes(card.facts.total_bytes);
        let index = card.facts.index;
        let Some(wish) = wish else { return Ok((Bytes(0), total)) };
        let (request, limit) = (wish.request.on_card(total), wish.limit.on_card(total));
        if request > limit {
            let message =
                format!("on GPU {index} the request {request} is above the limit {limit}");
            let help = "give request..limit with the request no larger";
            return Err(Rejection::new(Reason::RequestAboveLimit, message, help));
        }
        if limit.0 < UNIT_BYTES {
            let message = format!("the memory limit on GPU {index} is {limit}");
            return Err(Rejection::new(Reason::NoMemory, message, "give a limit above 0"));
        }
        if limit > total {
            let message =
                format!("the memory limit {limit} is above GPU {index}, which has {total}");
            return Err(Rejection::new(Reason::LimitAboveCard, message, "give a smaller limit"));
        }
        self.can_guarantee(card, request, now)?;
        Ok((request, limit))
    }

    /// Whether a tenant can have this share beside the others: a new one, or `but` with another share.
    pub(crate) fn share_fits(
        &self,
        card: &Card,
        compute: ShareWish,
        mode: Option<Mode>,
        but: Option<u64>,
    ) -> Result<(), Rejection> {
        let (uuid, index) = (card.facts.uuid, card.facts.index);
        let others = self.tenants.values().filter(|t| Some(t.id) != but);
        let here: Vec<_> = others.flat_map(|t| &t.gpus).filter(|gpu| gpu.uuid == uuid).collect();
        let taken: u32 = here.iter().map(|gpu| u32::from(gpu.share_percent)).sum();
        let left = 100_u32.saturating_sub(taken);
        if u32::from(compute.share.0) > left {
            let message = format!(
                "a share of {} was asked for on GPU {index}, and {left}% are left",
                compute.share
            );
            let help = "ask for a smaller share (--compute) or another card";
            return Err(Rejection::new(Reason::SharesFull, message, help));
        }
        if let Some(mode) = mode.filter(|mode| !here.is_empty() && *mode != card.mode) {
            let message = format!(
                "GPU {index} is in mode {:?} and has tenants; asked for {mode:?}",
                card.mode
            );
            let help = "leave --mode away, or choose another card";
            return Err(Rejection::new(Reason::ModeDiffers, message.to_lowercase(), help));
        }
        if mode.unwrap_or(card.mode) == Mode::Strict && compute.share.0 == 0 {
            let message = format!("gpu {index} is in mode strict, and no share was asked for");
            return Err(Rejection::new(Reason::ShareMissing, message, "add --compute P%"));
        }
        Ok(())
    }
}

/// A part of the memory asks for the same part of the compute time, unless that is given too.
fn share_of(compute: Option<ShareWish>, memory: Option<&MemoryWish>) -> ShareWish {
    let limit = halfwarp_rest::Percent(100);
    match (compute, memory.map(|wish| wish.request)) {
        (Some(compute), _) => compute,
        (None, Some(Amount::Percent(share))) => ShareWish { share, limit },
        (None, _) => ShareWish { share: halfwarp_rest::Percent(0), limit },
    }
}

/// A name of a tenant or of a group, if it can be printed.
fn readable(name: Option<&str>, reason: Reason) -> Result<Option<&str>, Rejection> {
    let Some(name) = name else { return Ok(None) };
    let printable = name.chars().all(|c| !c.is_control() && !is_format(c));
    if name.is_empty() || name.chars().count() > NAME_MAX || !printable {
        let shown: String = name.chars().take(NAME_MAX).collect();
        let what = if reason == Reason::Group { "group" } else { "tenant" };
        let message = format!("{shown:?} is no name for a {what}");
        let help = format!("use 1 to 63 printable characters (--{})", reason.as_str());
        return Err(Rejection::new(reason, message, help));
    }
    Ok(Some(name))
}

/// Characters that show nothing themselves and change what stands around them.
const fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
