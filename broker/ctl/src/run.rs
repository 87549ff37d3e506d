//! `halfwarp run`: finds or starts the broker, asks it for a tenant, runs the program with the
//! library in it, passes signals on, gives the tenant back unless a daemon was left, ends as the
//! program did.

mod child;
mod environment;
pub(crate) mod keeper;

use std::{
    ffi::OsString,
    path::Path,
    process::{Child, ExitCode},
    time::Duration,
};

use halfwarp_rest::{Admitted, NewTenant};

pub(crate) use environment::{SIM_ENVIRONMENT, preloadable};
use keeper::Keeper;

use crate::{
    args::RunArgs,
    artefacts::Artefacts,
    broker::{self, Origin, Place, asking, speaks_our_version},
    client::{CallError, Client},
    failure::Failure,
};

/// Characters of a tenant's name.
const NAME_MAX: usize = 63;

/// The program has ended; its caller does not wait long for a broker that does not answer.
const GIVE_BACK_DEADLINE: Duration = Duration::from_secs(1);

pub(crate) fn run(asked: &RunArgs) -> Result<ExitCode, Failure> {
    let artefacts = Artefacts::beside_self()?;
    let library = preloadable(artefacts.sound_library()?)?;
    let place = Place::choose(&asked.which)?;
    let mut keeper = Keeper::start()?;
    let (client, broker, admitted) = admit(asked, &place, &artefacts, keeper.pid())?;
    keeper.keep(&admitted.token);
    let variables = environment::of_a_tenant(&admitted, &library, place.sim.as_ref(), |name| {
        std::env::var_os(name)
    });
    let ended = child::run(&asked.command, &variables, broker);
    if !keeper::carried(&admitted.token) {
        give_back(&client.within(GIVE_BACK_DEADLINE), admitted.id);
    }
    ended.map(ExitCode::from)
}

/// A tenant of the broker that serves in `place`; a private one is started if there is none.
fn admit(
    asked: &RunArgs,
    place: &Place,
    artefacts: &Artefacts,
    keeper: u32,
) -> Result<(Client, Option<Child>, Admitted), Failure> {
    let wish = wish(asked, keeper);
    for last in [false, true] {
        let (client, child) = connect(place, artefacts)?;
        match client.admit(&wish) {
            Ok(admitted) => return Ok((client, child, admitted)),
            // A private broker ends after its last tenant, perhaps just now; another can be had.
            Err(CallError::Absent(_) | CallError::Deserted(_) | CallError::Garbage(_))
                if place.origin == Origin::Private && !last => {}
            Err(error) => {
                let tried = format!("asking for a tenant at {}", client.socket().display());
                return Err(error.failure(tried));
            }
        }
    }
    unreachable!("the last round returns")
}

fn connect(place: &Place, artefacts: &Artefacts) -> Result<(Client, Option<Child>), Failure> {
    if place.origin == Origin::Private {
        let private = broker::private(place, artefacts)?;
        return Ok((private.client, private.child));
    }
    let client = Client::new(&place.dir)?;
    let node = client.node().map_err(|error| error.failure(asking(&client)))?;
    speaks_our_version(&node, &client)?;
    Ok((client, None))
}

fn wish(asked: &RunArgs, keeper: u32) -> NewTenant {
    NewTenant {
        name: asked.name.clone().or_else(|| program_name(&asked.command[0])),
        gpus: asked.gpus.clone(),
        memory: asked.memory.clone(),
        compute: asked.compute,
        mode: asked.mode,
        priority: asked.priority,
        group: asked.group.clone(),
        swap: asked.swap,
        on_reclaim: asked.on_reclaim,
        runner_pid: Some(keeper),
    }
}

/// A tenant's name is printable and has 1 to 63 characters; a file's name need not.
fn program_name(program: &OsString) -> Option<String> {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    // What shows nothing itself may change how its neighbours show.
    let harmless = |c: char| c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric();
    let name: String =
        name.chars().map(|c| if harmless(c) { c } else { '?' }).take(NAME_MAX).collect();
    (!name.is_empty()).then_some(name)
}

/// Ends the tenant at once, since no process is left that could join it. Where one has joined and lives
/// on (with another text in its environment's place by now), the broker ends it after the last of them.
fn give_back(client: &Client, id: u64) {
    let ended = client.tenant(id).and_then(|tenant| {
        let lives = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
        if tenant.processes.iter().any(|process| lives(process.pid)) {
            return Ok(());
        }
        client.dismiss(id)
    });
    match ended {
        Ok(()) => {}
        // Gone already, as it should be, or there is nobody left to give it to.
        Err(CallError::Absent(_) | CallError::Deserted(_)) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => {
            let failure = error.failure(format!("giving back tenant {id}"));
            eprintln!("halfwarp: {failure}; the broker ends it by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_tenant_is_named_after_its_program() {
        let name = |program: &[u8]| program_name(&OsString::from_vec(program.to_vec()));
        assert_eq!(name(b"/usr/bin/python3").as_deref(), Some("python3"));
        assert_eq!(name(b"a\nb").as_deref(), Some("a?b"));
        assert_eq!(name("a\u{202e}b é".as_bytes()).as_deref(), Some("a?b é"));
        assert_eq!(name(b"/opt/\xff\xfe").as_deref(), Some("??"));
        assert_eq!(name("é".repeat(80).as_bytes()).map(|n| n.chars().count()), Some(63));
        assert_eq!(name(b"/").as_deref(), Some("/"));
        assert_eq!(name(b""), None, "the broker finds a name, and the shell's 127 follows");
    }
}
