//! The samples, as a tenant with room for them: each checks its own result against the host's.

use std::fs;
use std::path::Path;
use std::time::Duration;

use halfwarp_tests::{Machine, artefact};

const DEADLINE: Duration = Duration::from_secs(120);
/// Samples whose end is another than PASSED, with what they are run with instead.
const BY_HAND: &[&str] = &["memoryHog", "spin", "bandwidthTest"];

#[test]
fn every_sample_that_computes_agrees_with_the_host() {
    let machine = Machine::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda-samples");
    let mut ran = Vec::new();
    for entry in fs::read_dir(folder).expect("cuda-samples").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_sample = entry.path().join(&name).with_extension("c").exists();
        if !is_sample || BY_HAND.contains(&name.as_str()) {
            continue;
        }
        let program = artefact("samples").join(&name);
        let ended = machine.tenant(&["--memory", "1GiB"]).program([program]).finish(DEADLINE);
        assert!(ended.status.success(), "{name}: {}", ended.all());
        assert!(ended.stdout.ends_with("PASSED\n"), "{name}: {}", ended.all());
        ran.push(name);
    }
    assert!(ran.len() >= 9, "only {ran:?} ran");
}

#[test]
fn samples_bear_sizes_that_fill_no_block() {
    let machine = Machine::new();
    let odd: &[&[&str]] = &[
        &["reduction", "--size", "1"],
        &["reduction", "--size", "1000003"],
        &["transpose", "--width", "1", "--height", "97"],
        &["transpose", "--width", "33", "--height", "17"],
        &["histogram", "--size", "4097"],
        &["nbody", "--bodies", "97", "--steps", "3"],
        &["mandelbrot", "--width", "37", "--height", "19", "--most", "50"],
        &["vectorAddRuntime", "--size", "257"],
        &["streamsRuntime", "--size", "1021"],
    ];
    for words in odd {
        let program = artefact("samples").join(words[0]).into_os_string();
        let words = std::iter::once(program).chain(words[1..].iter().map(Into::into));
        let ended = machine.tenant(&["--memory", "1GiB"]).program(words).finish(DEADLINE);
        assert!(ended.stdout.ends_with("PASSED\n"), "{}", ended.all());
    }
}

#[test]
fn a_program_of_the_runtime_api_has_its_tenants_limit() {
    let machine = Machine::new();
    let program = artefact("samples").join("streamsRuntime");
    let ended = machine.tenant(&["--memory", "512MiB"]).program([program]).finish(DEADLINE);
    assert!(ended.stdout.ends_with("PASSED\n"), "{}", ended.all());
    let refused = machine.events().into_iter().find(|event| event.kind == "out-of-memory");
    let bytes = refused.and_then(|event| event.bytes).map(|bytes| bytes.0);
    assert_eq!(bytes, Some((512 << 20) + 1), "what it asked for beyond all it was told of");
}
