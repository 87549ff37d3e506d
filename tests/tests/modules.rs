//! What modules hold on the card counts, and one that does not fit is refused.

use std::time::Duration;

use halfwarp_tests::{MIB, Machine, guest, until};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn mem_16_a_modules_variables_count_as_the_card_shows_them() {
    let machine = Machine::new();
    let file = machine.runtime_dir().join("big.ptx");
    let program = [guest("modules"), file];
    let mut program = machine.tenant(&["--memory", "1GiB"]).program(program).start();
    for part in ["context", "module", "library", "nothing"] {
        let beginning = format!("HELD {part} ");
        let held = program.line(&beginning, DEADLINE);
        let held: u64 = held.trim_start_matches(&beginning).parse().expect("bytes");
        until(DEADLINE, "the card shows what the program holds", || {
            let gpu = machine.gpus().remove(0);
            let used = gpu.memory_used_bytes.map_or(0, |bytes| bytes.0);
            (used.abs_diff(held) <= MIB).then_some(())
        });
        program.say("on");
    }
    let ended = program.end(DEADLINE);
    assert!(ended.status.success(), "{}", ended.all());
    for (limit, code) in [("383MiB", 2), ("385MiB", 0)] {
        let program = [guest("modules").into_os_string(), "fits".into()];
        let ended = machine.tenant(&["--memory", limit]).program(program).finish(DEADLINE);
        assert!(ended.stdout.contains(&format!("LOADED {code}")), "{limit}: {}", ended.all());
        assert_eq!(ended.status.success(), code == 2, "{limit}: {}", ended.all());
    }
}
