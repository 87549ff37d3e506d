//! Who may join: a peer whose tenant is known, whose user is the tenant's, and whose library speaks
//! our version. Also the end of a connection, which is not the end of its process.

use halfwarp_api::{
    version::{CURRENT, Version},
    wire::{Refusal, Token},
};

use crate::{
    Nanos,
    event::{Action, ClientId, Happening, Kind, Peer, WelcomeGpu},
    residency::Stay,
    state::State,
    tenant::{Process, ProcessGpu},
};

impl State {
    pub(crate) fn hello(
        &mut self,
        now: Nanos,
        client: ClientId,
        (peer, at_s): (Peer, u64),
        version: Version,
        token: Token,
        actions: &mut Vec<Action>,
    ) {
        let id = match self.may_join(&peer, version, token) {
            Ok(id) => id,
            Err(why) => {
                self.count_join_refusal(why);
                let told = Happening::new(Kind::JoinRefused, why.text()).pid(peer.pid);
                actions.push(Action::Tell(told));
                actions.push(Action::Refuse { client, why });
                return;
            }
        };
        let (carried, closed_at) = self.take_over(id, peer.pid, actions);
        let former: Vec<Stay> = carried.iter().map(|(_, stay)| stay.clone()).collect();
        let stays = self.first_stays(id, &former);
        let Some(tenant) = self.tenants.get_mut(&id) else { return };
        let returning = tenant.absent.contains(&peer.pid);
        let fresh = ProcessGpu { returning, ..ProcessGpu::default() };
        let mut gpus = vec![fresh; tenant.gpus.len()];
        for (gpu, (carried_units, _)) in gpus.iter_mut().zip(carried) {
            gpu.carried_units = carried_units;
        }
        for (gpu, stay) in gpus.iter_mut().zip(stays) {
            gpu.stay = stay;
        }
        tenant.processes.insert(client);
        let told = Happening::new(Kind::Joined, format!("{} joined {}", peer.command, tenant.name));
        actions.push(Action::Tell(told.tenant(id).pid(peer.pid)));
        let process = Process {
            tenant: id,
            peer,
            joined_at_s: at_s,
            connected: true,
            closed_at,
            gpus,
            notes: 0,
            notes_since: 0,
        };
        self.processes.insert(client, process);
        self.has_joined_stays(now, client);
        let gpus = self.welcome_gpus(id, client, actions);
        actions.push(Action::Welcome { client, tenant: id, gpus });
        self.count_join();
        self.tell_headcount(id, actions);
        self.tell_exhausted(id, actions);
        actions.push(Action::Save);
    }

    fn welcome_gpus(
        &mut self,
        id: u64,
        client: ClientId,
        actions: &mut Vec<Action>,
    ) -> Vec<WelcomeGpu> {
        let leases = self.first_words(client, actions);
        let swap = self.tenants.get(&id).is_some_and(|tenant| tenant.swap);
        let stays = self.processes.get(&client).into_iter().flat_map(|p| &p.gpus);
        let residencies = stays.map(|gpu| gpu.stay.words);
        let gpus = self.tenants.get(&id).map(|tenant| &tenant.gpus);
        let words = leases.into_iter().zip(residencies);
        let told = gpus.into_iter().flatten().zip(words);
        let told = told.map(|(gpu, (lease, residency))| WelcomeGpu {
            swap,
            residency,
            uuid: gpu.uuid,
            limit_units: gpu.limit_units,
            context_units: self.cards.get(&gpu.uuid).map_or(0, |c| c.context_estimate_units()),
            lease,
        });
        told.collect()
    }

    fn may_join(&self, peer: &Peer, version: Version, token: Token) -> Result<u64, Refusal> {
        if !CURRENT.accepts(version) {
            return Err(Refusal::Version);
        }
        if peer.pid == 0 {
            return Err(Refusal::NoIdentity);
        }
        let tenant = self.tenants.values().find(|t| t.token == token && !t.ending);
        let tenant = tenant.ok_or(Refusal::UnknownTenant)?;
        if tenant.uid != peer.uid {
            return Err(Refusal::WrongUser);
        }
        let of_this_pid = self.processes.values().filter(|p| p.peer.pid == peer.pid).count();
        if self.processes.len() >= self.config.processes_max
            || of_this_pid >= self.config.joins_of_a_pid_max
        {
            return Err(Refusal::Full);
        }
        Ok(tenant.id)
    }

    /// A process whose connection broke joins again: its former record goes, what was promised to
    /// it stays promised until its first grow says what it still holds.
    /// When its connection broke is remembered too: it may be another program by now.
    fn take_over(
        &mut self,
        tenant: u64,
        pid: u32,
        actions: &mut Vec<Action>,
    ) -> (Vec<(u32, Stay)>, Option<Nanos>) {
        let former = self
            .processes
            .iter()
            .find(|(_, p)| p.tenant == tenant && p.peer.pid == pid && !p.connected);
        let Some(former) = former.map(|(client, _)| *client) else { return Default::default() };
        let Some(process) = self.processes.remove(&former) else { return Default::default() };
        if let Some(tenant) = self.tenants.get_mut(&tenant) {
            tenant.processes.remove(&former);
        }
        actions.push(Action::Forget { client: former });
        let promised = |gpu: &ProcessGpu| {
            (u32::try_from(gpu.promised_units()).unwrap_or(u32::MAX), gpu.stay.clone())
        };
        (process.gpus.iter().map(promised).collect(), process.closed_at)
    }

    /// The connection's end. The process may live on with its memory, and may join again.
    pub(crate) fn closed(&mut self, now: Nanos, client: ClientId, actions: &mut Vec<Action>) {
        let Some(process) = self.processes.get_mut(&client) else { return };
        process.connected = false;
        process.closed_at = Some(now);
        for gpu in &mut process.gpus {
            gpu.recall = None;
            gpu.measuring = None;
        }
        let tenant = process.tenant;
        self.drop_grows_of(client);
        for at in self.pages_of_client(client) {
            self.drains_no_more(now, at, actions);
            self.moves_no_more(at);
        }
        let places = self.places(tenant);
        self.go_on_without(now, &places, actions);
        self.serve_tenant(now, tenant, actions);
    }

    pub(crate) fn tell_headcount(&self, tenant: u64, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get(&tenant) else { return };
        let processes = u32::try_from(tenant.processes.len()).unwrap_or(u32::MAX);
        let each = tenant.processes.iter();
        actions.extend(each.map(|client| Action::Headcount { client: *client, processes }));
    }
}
