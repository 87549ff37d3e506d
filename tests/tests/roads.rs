//! The roads of `tests/roads.toml`: each row's program natively, where everything can be had, and as a
//! tenant, where what the row expects must come about. See the head of that file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use halfwarp_tests::roads::{Step, limited, steps};
use halfwarp_tests::{Ended, Machine, artefact, finish, guest};
use serde::Deserialize;
use shim_cuda_headers::DriverFn;
use shim_cuda_headers::row::{Answer, Lifetime, Memory};

const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    library: Vec<Library>,
    road: Vec<Road>,
}

/// What is built for the programs; `cargo xtask build` reads the rest of it.
#[derive(Deserialize)]
struct Library {
    name: String,
    sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Road {
    name: String,
    program: String,
    built: Option<String>,
    #[serde(default, rename = "options")]
    _options: Vec<String>,
    #[serde(default)]
    arguments: Vec<String>,
    /// A folder of a driver that comes first on the library path.
    library_path: Option<String>,
    /// The file of that folder which must be the driver then.
    drives: Option<String>,
    expect: Expect,
    why: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Expect {
    Limit,
    Nothing,
    Closed,
    Past,
}

fn table() -> Table {
    toml::from_str(include_str!("../roads.toml")).expect("tests/roads.toml")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("roads")
}

impl Road {
    /// The words of its command.
    fn words(&self) -> Vec<OsString> {
        let roads = guest("roads");
        let driver = artefact("sim/libcuda.so.1");
        let filled = |text: &str| {
            text.replace("@DRIVER", &driver.to_string_lossy())
                .replace("@ROADS", &roads.to_string_lossy())
        };
        let mut words: Vec<OsString> = vec!["env".into()];
        words.push(format!("ROAD_DRIVER={}", driver.display()).into());
        words.push(format!("ODD_DRIVER_BENEATH={}", driver.display()).into());
        if let Some(folder) = &self.library_path {
            let folder = roads.join(folder);
            words.push(format!("LD_LIBRARY_PATH={}", folder.display()).into());
            words.push(format!("ODD_DRIVER_ITSELF={}/libcuda.so.1", folder.display()).into());
            words.push(format!("ODD_DRIVER_OTHER={}/libcuda.so.1.1", folder.display()).into());
        }
        words.push(roads.join(self.built.as_ref().unwrap_or(&self.program)).into());
        words.extend(self.arguments.iter().map(|argument| filled(argument).into()));
        words
    }

    fn natively(&self) -> Result<(), String> {
        let machine = Machine::new();
        let words = self.words();
        let mut command = machine.natively(&words[0]);
        let ended = finish(command.args(&words[1..]), DEADLINE);
        let steps = steps(&ended);
        match self.expect {
            Expect::Nothing if steps.is_empty() => Ok(()),
            Expect::Nothing => Err(format!("it leads somewhere natively: {}", ended.all())),
            _ if steps.is_empty() || !ended.status.success() => Err(ended.all()),
            _ if steps.iter().all(Step::can_be_had) => Ok(()),
            _ => Err(format!("natively not all can be had: {}", ended.all())),
        }
    }

    fn as_a_tenant(&self) -> Result<(), String> {
        let machine = Machine::new();
        let ended = machine.tenant(&["--memory", "1GiB"]).program(self.words()).finish(DEADLINE);
        let steps = steps(&ended);
        match self.expect {
            Expect::Nothing if steps.is_empty() => Ok(()),
            Expect::Nothing => Err(format!("it leads somewhere: {}", ended.all())),
            Expect::Closed => closed(&ended),
            Expect::Past if steps.iter().any(|step| step.codes == (0, 0)) => Ok(()),
            Expect::Past => Err(format!("it is caught now, say so in the table: {}", ended.all())),
            Expect::Limit => {
                limited(&machine, &ended)?;
                self.check_driver(&ended)
            }
        }
    }

    fn check_driver(&self, ended: &Ended) -> Result<(), String> {
        let Some(drives) = &self.drives else { return Ok(()) };
        let wanted = format!("DRIVER {}", guest("roads").join(drives).display());
        if ended.stdout.lines().any(|line| line == wanted) {
            return Ok(());
        }
        Err(format!("{wanted:?} is not said: {}", ended.all()))
    }
}

/// Refused the GPU, with one line, and nothing allocated.
fn closed(ended: &Ended) -> Result<(), String> {
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let said = lines.len() == 1 && lines[0].starts_with("halfwarp: no GPU for this process");
    if said && ended.stdout.contains("LOST start gave 802") && steps(ended).is_empty() {
        return Ok(());
    }
    Err(format!("not refused with one line: {}", ended.all()))
}

fn all(go: impl Fn(&Road) -> Result<(), String>) {
    let failed: Vec<String> = table()
        .road
        .iter()
        .filter_map(|road| go(road).err().map(|why| format!("{}: {why}", road.name)))
        .collect();
    assert!(failed.is_empty(), "{} roads:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn on_every_road_the_limit_holds_and_the_brokers_log_has_the_refusal_with_its_pid() {
    all(Road::as_a_tenant);
}

#[test]
fn every_road_leads_to_the_driver_when_nobody_is_in_between() {
    all(Road::natively);
}

#[test]
fn every_program_has_a_row_and_every_row_a_program() {
    let table = table();
    let mut used: BTreeSet<String> =
        table.road.iter().map(|road| format!("{}.c", road.program)).collect();
    used.extend(table.library.iter().flat_map(|library| library.sources.clone()));
    let mut there = BTreeSet::new();
    for folder in ["", "lib", "driver"] {
        for entry in fs::read_dir(sources().join(folder)).expect("tests/roads").flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "c") {
                let path = path.strip_prefix(sources()).expect("below").to_path_buf();
                there.insert(path.to_string_lossy().into_owned());
            }
        }
    }
    assert_eq!(used, there, "rows on the left, files on the right");
    let names: BTreeSet<_> = table.road.iter().map(|road| &road.name).collect();
    assert_eq!(names.len(), table.road.len(), "names of roads are unique");
    for road in &table.road {
        let file = guest("roads").join(road.built.as_ref().unwrap_or(&road.program));
        assert!(file.exists(), "{} is not built", file.display());
        assert_eq!(road.why.is_some(), road.expect == Expect::Past, "{}: `why`", road.name);
    }
    for library in &table.library {
        assert!(guest("roads").join(&library.name).exists(), "{} is not built", library.name);
    }
}

/// Rows that give out memory of a size asked for; what only passes on memory that was charged already
/// (imports, mappings, retained handles) has tests of its own.
#[test]
fn every_row_that_gives_memory_is_gone_through_by_the_programs_of_all_forms() {
    let passes_on = ["cuMemImportFromShareableHandle", "cuMemMap", "cuMemRetainAllocationHandle"];
    let gives = |f: &&DriverFn| {
        let row = f.row();
        row.answer == Answer::Hook
            // What another process holds is charged there.
            && !matches!(row.memory, Memory::Nothing | Memory::Context | Memory::Host | Memory::Ipc)
            && matches!(
                row.lifetime,
                Lifetime::MakesMemory | Lifetime::MakesHandle | Lifetime::MakesArray
            )
            && !passes_on.contains(&row.symbol)
    };
    let listed: BTreeSet<&str> =
        DriverFn::ALL.iter().filter(gives).map(|f| f.row().symbol).collect();
    let text = fs::read_to_string(sources().join("forms.c")).expect("forms.c");
    let rows = text.lines().filter_map(|line| line.strip_prefix("    {\""));
    let called: BTreeSet<&str> = rows.filter_map(|row| row.split('"').next()).collect();
    assert_eq!(listed, called, "the table on the left, forms.c on the right");
}
