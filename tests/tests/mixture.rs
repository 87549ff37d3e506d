//! Random orders to several processes of a tenant, each with threads that do not wait for each other, and
//! random kills; what comes of them is compared with the model, with the tenant's figures and with the
//! card's own count, after every round.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use halfwarp_model::{MIB, Order, Tenant};
use halfwarp_tests::{Machine, Running, guest, start, until};

const LINE: Duration = Duration::from_secs(60);
const LIMIT_BYTES: u64 = 2 << 30;
const CONTEXT_BYTES: u64 = 128 * MIB;
const PROCESSES: u32 = 4;
const SLOTS: u32 = 24;
/// Orders to each process in a round.
const ORDERS: u64 = 50;
const SHORT_ROUNDS: u64 = 20;
/// A process is killed in one of so many rounds.
const KILLS: u64 = 3;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Processes of one tenant, started with the environment of its first.
struct Crew {
    machine: Machine,
    first: Running,
    environment: Vec<(String, String)>,
    members: BTreeMap<u32, Running>,
    next: u32,
    model: Tenant,
}

impl Crew {
    fn new(seed: u64) -> Self {
        let machine = Machine::new();
        let tenancy = machine.tenant(&["--memory", "2GiB", "--name", "crew"]);
        // A shell that makes no CUDA call keeps the tenant.
        let mut first = tenancy.program(["sh", "-c", "echo PID $$; read line"]).start();
        let pid = first.line("PID ", LINE);
        let path = format!("/proc/{}/environ", pid.trim_start_matches("PID "));
        let variables = fs::read(path).expect("the environment of a process of ours");
        let variables = String::from_utf8(variables).expect("text");
        let pairs = variables.split('\0').filter_map(|pair| pair.split_once('='));
        let environment = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let model = Tenant::new(LIMIT_BYTES, seed);
        Self { machine, first, environment, members: BTreeMap::new(), next: 0, model }
    }

    fn hire(&mut self) {
        // A context needs room too, and pools may have some of it.
        let ids: Vec<u32> = self.members.keys().copied().collect();
        for id in ids {
            if self.model.held_bytes() + CONTEXT_BYTES <= LIMIT_BYTES {
                break;
            }
            self.empty(id);
            self.compare();
        }
        let mut command = Command::new(guest("mixture"));
        command.env_clear().envs(self.environment.iter().map(|(n, v)| (n, v)));
        let mut member = start(&mut command);
        member.line("READY", LINE);
        self.members.insert(self.next, member);
        self.model.begin(self.next, CONTEXT_BYTES);
        self.next += 1;
    }

    /// One round: orders to all, perhaps a kill, and all answers.
    fn round(&mut self) {
        self.model.begin_round();
        let mut sent: BTreeMap<u32, u64> = BTreeMap::new();
        let ids: Vec<u32> = self.members.keys().copied().collect();
        for _ in 0..ORDERS {
            for id in &ids {
                if let Some(order) = self.model.order(*id, SLOTS) {
                    self.members.get_mut(id).expect("a member").say(&words(order));
                    *sent.entry(*id).or_default() += 1;
                }
            }
        }
        if self.model.pick(KILLS) == 0 {
            let victim = ids[usize::try_from(self.model.pick(ids.len() as u64)).expect("small")];
            let killed = self.members.remove(&victim).expect("a member");
            killed.signal(rustix::process::Signal::KILL);
            let _ = killed.end(LINE);
            self.model.end(victim);
            sent.remove(&victim);
        }
        for (id, count) in sent {
            for _ in 0..count {
                self.answer(id);
            }
        }
    }

    /// A process gives back all it holds.
    fn empty(&mut self, id: u32) {
        for order in self.model.give_all(id) {
            self.members.get_mut(&id).expect("a member").say(&words(order));
            self.answer(id);
        }
    }

    fn answer(&mut self, id: u32) {
        let member = self.members.get_mut(&id).expect("a member");
        let line = member.line("A ", LINE);
        let numbers: Vec<u32> =
            line.split_whitespace().skip(1).map(|w| w.parse().expect("a number")).collect();
        self.model.answered(id, numbers[0], numbers[1]).expect("an answer by the rules");
    }

    /// Nothing moves: every figure there is must be the model's.
    fn compare(&mut self) {
        let mut held = Vec::new();
        // The first look of each may shrink its pools; the second sees them all as they are.
        for look in 0..2 {
            for (id, member) in &mut self.members {
                member.say("s");
                let line = member.line("S ", LINE);
                let numbers: Vec<u64> =
                    line.split_whitespace().skip(1).map(|w| w.parse().expect("bytes")).collect();
                assert_eq!(numbers[0], LIMIT_BYTES);
                assert!(numbers[1] <= LIMIT_BYTES);
                self.model.pools_have(*id, numbers[2]).expect("pools by the rules");
                if look == 1 {
                    held.push(LIMIT_BYTES - numbers[1]);
                }
            }
        }
        for bytes in held {
            self.model.holds("the program", bytes).expect("the model's figure");
        }
        let model = &self.model;
        until(LINE, "the ledger and the card's own count are the model's", || {
            let gpu = self.machine.gpus().remove(0);
            let tenant = self.machine.tenant_named("crew").gpus.remove(0);
            let used = gpu.memory_used_bytes.map_or(0, |bytes| bytes.0);
            let all = [tenant.held_bytes.0, used].map(|bytes| model.holds("it", bytes));
            all.into_iter().all(|same| same.is_ok()).then_some(())
        });
    }
}

fn words(order: Order) -> String {
    match order {
        Order::Take { slot, way, bytes } => format!("t {slot} {} {}", way as u8, bytes / MIB),
        Order::Give { slot } => format!("g {slot}"),
    }
}

#[test]
fn mem_15_what_any_order_leads_to_is_what_the_model_says() {
    let seed = setting("HALFWARP_SEED", 1);
    let rounds = setting("HALFWARP_ROUNDS", SHORT_ROUNDS);
    println!("seed {seed}");
    let mut crew = Crew::new(seed);
    for _ in 0..rounds {
        while crew.members.len() < PROCESSES as usize {
            crew.hire();
        }
        crew.round();
        crew.compare();
    }
    let ids: Vec<u32> = crew.members.keys().copied().collect();
    for id in ids {
        crew.empty(id);
    }
    crew.compare();
    while let Some((id, member)) = crew.members.pop_last() {
        drop(member);
        crew.model.end(id);
    }
    crew.compare();
    crew.first.say("end");
    assert!(crew.first.end(LINE).status.success());
}
