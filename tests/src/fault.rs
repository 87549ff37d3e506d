//! What a test makes go wrong on its machine's simulated side: the control messages of simcuda, as a
//! connection that keeps the machine alive as long as the test has it.

use simcuda_protocol::control::{Control, Description, Health, Told};
use simcuda_protocol::place::Place;
use simcuda_protocol::{Client, Reply, Request, Start, Usage};

use crate::{Machine, artefact};

/// The simulated side of a machine.
#[derive(Debug)]
pub struct Faults {
    client: Client,
}

impl Machine {
    /// The simulated side of this machine, started if need be.
    ///
    /// # Panics
    ///
    /// If there is none: on a device, or when its server does not start.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let profile = self.profile().expect("only a simulated machine has faults on purpose");
        let start = Start {
            program: Some(artefact("sim/simcudad")),
            profile: Some(profile.to_owned()),
            faults: None,
        };
        let folder = self.runtime_dir().join("simcuda");
        let place = Place::new(folder, self.machine_name().to_owned()).expect("a machine's name");
        Faults { client: Client::connect(&place, &start).expect("the simulated machine starts") }
    }
}

impl Faults {
    /// The log of the first card's engines as it is now.
    ///
    /// # Panics
    ///
    /// If the machine has gone.
    #[must_use]
    pub fn mark(&self) -> simcuda_protocol::engines::Mark {
        self.client.engine_mark(0).expect("the machine answers")
    }

    /// Sets a fault as `halfwarp sim fault` takes it; its number, if it stays.
    ///
    /// # Panics
    ///
    /// If the machine refuses it.
    pub fn set(&self, fault: &str) -> Option<u64> {
        let read = fault.parse().unwrap_or_else(|error| panic!("{error}"));
        match self.tell(Control::Set(read)) {
            Told::Set { number } => number,
            other => panic!("{fault}: {other:?}"),
        }
    }

    /// Takes all faults back.
    pub fn clear(&self) {
        self.tell(Control::Clear(None));
    }

    /// How many calls the fault with this number has changed.
    ///
    /// # Panics
    ///
    /// If there is no such fault.
    #[must_use]
    pub fn hits(&self, number: u64) -> u64 {
        let Told::Faults(faults) = self.tell(Control::List) else { panic!("no list") };
        let fault = faults.iter().find(|fault| fault.number == number);
        fault.unwrap_or_else(|| panic!("no fault {number}: {faults:?}")).hit
    }

    /// What the machine itself says of a card, in NVML's order.
    ///
    /// # Panics
    ///
    /// If it has no such card.
    #[must_use]
    pub fn usage(&self, device: u32) -> Usage {
        match self.client.ask(&Request::Usage { device }).expect("the machine answers").0 {
            Reply::Usage(usage) => usage,
            other => panic!("card {device}: {other:?}"),
        }
    }

    /// How a card is.
    ///
    /// # Panics
    ///
    /// If the machine has no such card.
    #[must_use]
    pub fn health(&self, device: u32) -> Health {
        match self.tell(Control::Health { device }) {
            Told::Health(health) => health,
            other => panic!("card {device}: {other:?}"),
        }
    }

    /// The machine's server and who uses it.
    ///
    /// # Panics
    ///
    /// If it gives another answer.
    #[must_use]
    pub fn description(&self) -> Description {
        match self.tell(Control::Describe) {
            Told::Description(description) => description,
            other => panic!("{other:?}"),
        }
    }

    /// UUIDs of the cards, in NVML's order.
    #[must_use]
    pub fn uuids(&self) -> Vec<String> {
        self.client.devices().iter().map(simcuda_protocol::Device::uuid_text).collect()
    }

    fn tell(&self, control: Control) -> Told {
        self.client.control(control).expect("the machine answers").0
    }
}
