//! What a program is told of its memory: by CUDA, by NVML, by the broker's own listings.

use std::time::Duration;

use halfwarp_tests::{GIB, MIB, Machine, Running, artefact, finish, guest};

const LINE: Duration = Duration::from_secs(60);

/// The lines of one showing, and the programs behind them.
fn shown(program: &mut Running) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let line = program.line("", LINE);
        if line == "END" {
            return lines;
        }
        lines.push(line.split_whitespace().map(str::to_owned).collect());
    }
}

fn views(machine: &Machine, options: &[&str], mib: &[&str]) -> Running {
    let program = [guest("views").into_os_string()].into_iter();
    machine.tenant(options).program(program.chain(mib.iter().map(Into::into))).start()
}

fn numbers(words: &[String]) -> Vec<u64> {
    words.iter().map(|word| word.parse().expect("a number")).collect()
}

/// Pid and bytes of each entry of a list.
fn entries(line: &[String]) -> Vec<(u32, u64)> {
    let entry = |word: &String| {
        let (pid, bytes) = word.split_once(':').expect("pid:bytes");
        (pid.parse().expect("a pid"), bytes.parse().expect("bytes"))
    };
    let mut entries: Vec<_> = line[3..].iter().map(entry).collect();
    entries.sort_unstable();
    entries
}

#[test]
fn view_02_without_a_limit_every_answer_is_the_drivers() {
    let machine = Machine::with_profile("node-2");
    let program = [guest("views").into_os_string(), "dump".into()];
    let mut plain = machine.natively(&program[0]);
    let plain = finish(plain.arg(&program[1]), LINE);
    assert!(plain.status.success(), "{}", plain.all());
    let mut preloaded = machine.natively(&program[0]);
    preloaded.arg(&program[1]).env("LD_PRELOAD", artefact("libhalfwarp.so"));
    let preloaded = finish(&mut preloaded, LINE);
    // The pid is the only word that may differ.
    let without_pids = |text: &str| {
        let lines = text.lines().map(|line| match line.split_once(':') {
            Some((head, bytes)) if line.starts_with("LIST") => {
                format!("{} :{bytes}", head.rsplit_once(' ').map_or(head, |(h, _)| h))
            }
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(without_pids(&plain.stdout), without_pids(&preloaded.stdout));

    let compute = machine.tenant(&["--compute", "100%", "--gpu", "any:2"]).program(program);
    let compute = compute.finish(LINE);
    assert!(compute.status.success(), "{}", compute.all());
    let figures = |text: &str| {
        let kept = without_pids(text).into_iter();
        kept.filter(|line| !line.starts_with("LIST")).collect::<Vec<_>>()
    };
    assert_eq!(figures(&plain.stdout), figures(&compute.stdout), "memory and attributes");
}

#[test]
fn view_03_nvml_lists_the_tenants_own_processes() {
    let machine = Machine::new();
    let mut stranger = views(&machine, &["--memory", "4GiB", "--name", "stranger"], &["700"]);
    shown(&mut stranger);
    let mut pair = views(&machine, &["--memory", "4GiB", "--name", "pair"], &["300", "200"]);
    shown(&mut pair);
    let context = 128 * MIB;
    for (program, name, expected) in [
        (&mut stranger, "stranger", vec![700 * MIB + context]),
        (&mut pair, "pair", vec![200 * MIB + context, 300 * MIB + context]),
    ] {
        let mut pids: Vec<u32> =
            machine.tenant_named(name).processes.iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        program.say("look");
        let lines = shown(program);
        let lists: Vec<_> = lines.iter().filter(|line| line[0] == "LIST").collect();
        assert_eq!(lists.len(), 4);
        for line in &lists[..3] {
            let seen = entries(line);
            assert_eq!(seen.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), pids, "{name}");
            let mut sizes: Vec<u64> = seen.iter().map(|(_, bytes)| *bytes).collect();
            sizes.sort_unstable();
            let near = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= MIB;
            assert!(sizes.iter().zip(&expected).all(near), "{name}: {sizes:?}");
        }
        assert_eq!(entries(lists[3]), [], "no graphics processes");
    }
}

#[test]
fn every_view_of_a_tenant_shows_its_slice_on_each_of_its_cards() {
    let machine = Machine::with_profile("node-2");
    let options = ["--gpu", "1,0", "--memory", "4GiB,2GiB", "--name", "slice"];
    let mut program = views(&machine, &options, &["512"]);
    let lines = shown(&mut program);
    let cards = machine.tenant_named("slice").gpus;
    assert_eq!(cards.len(), 2);
    let limits = [4 * GIB, 2 * GIB];
    for (ordinal, (card, limit)) in cards.iter().zip(limits).enumerate() {
        assert_eq!(card.limit_bytes.0, limit);
        let held = card.held_bytes.0;
        let cuda = lines.iter().find(|line| line[0] == "CUDA" && line[2] == card.uuid);
        let cuda = cuda.expect("CUDA shows the card");
        assert_eq!(cuda[1], ordinal.to_string(), "CUDA's order is the tenant's");
        assert_eq!(numbers(&cuda[3..4]), [limit]);
        if ordinal == 0 {
            assert_eq!(numbers(&cuda[4..5]), [limit - held]);
            assert!(held >= 512 * MIB);
        }
        let nvml = lines.iter().find(|line| line[0] == "NVML" && line[2] == card.uuid);
        let nvml = nvml.expect("NVML shows the card");
        assert_eq!(nvml[1], card.index.to_string(), "NVML's order is its own");
        let expected = [limit, held, limit - held];
        assert_eq!(numbers(&nvml[3..6]), expected);
        assert_eq!(numbers(&nvml[6..9]), expected);
    }
    let program = [guest("views").into_os_string(), "nvml".into()];
    let tenancy = machine.tenant(&["--memory", "1GiB", "--name", "onlooker"]).program(program);
    let ended = tenancy.finish(LINE);
    assert!(ended.stdout.contains(&format!(" {GIB} 0 {GIB} ")), "without CUDA: {}", ended.all());
}
