//! Random programs: the interpreter and the reference evaluator must leave the same bytes.
//!
//! `HALFWARP_ROUNDS` programs from `HALFWARP_SEED`; the full size is `cargo xtask long ptx`.

mod common;

use std::collections::BTreeMap;

use common::{Arg, Device, launch};
use simcuda_ptx::Module;
use simcuda_ptx_reference::{Form, Random};
use simcuda_ptx_reference::{
    THREAD_BYTES, THREADS, evaluate, forms, generate, input, names, render,
};

/// How often each form must have been reached, at the least.
const LEAST: u64 = 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn interpreted(text: &str, input: &[u8]) -> Result<Vec<u8>, String> {
    let module = Module::parse(text).map_err(|error| error.to_string())?;
    let device = Device::new();
    let (from, to) = (device.upload(input), device.allocate(THREADS * THREAD_BYTES));
    let shape = [[1, 1, 1], [THREADS as u32, 1, 1]];
    launch(&device, &module, "k", shape, 0, &[Arg::U64(from), Arg::U64(to)])
        .map_err(|fault| fault.to_string())?;
    Ok(device.download(to, THREADS * THREAD_BYTES))
}

/// One program on one input; the reason where the two differ.
fn compare(
    random: &mut Random,
    forms: &[Form],
    reached: &mut BTreeMap<String, u64>,
) -> Result<(), String> {
    let program = generate(random, forms);
    let input = input(random);
    let text = render(&program, forms);
    let expected = evaluate(&program, forms, &input, reached);
    let actual = interpreted(&text, &input).map_err(|why| format!("{why}\n{text}"))?;
    let differ = actual.iter().zip(&expected).position(|(x, y)| x != y);
    let Some(at) = differ else { return Ok(()) };
    let (thread, word) = (at / THREAD_BYTES, at % THREAD_BYTES / 8 * 8);
    let start = thread * THREAD_BYTES + word;
    let (is, wanted) = (&actual[start..start + 8], &expected[start..start + 8]);
    Err(format!("thread {thread}, byte {word}: {is:02x?} instead of {wanted:02x?}\n{text}"))
}

#[test]
fn random_programs_compute_what_the_reference_says() {
    let rounds = number("HALFWARP_ROUNDS").unwrap_or(1000);
    let seed = number("HALFWARP_SEED").unwrap_or(1);
    let forms = forms();
    let mut random = Random::new(seed);
    let mut reached = BTreeMap::new();
    for round in 0..rounds {
        if let Err(why) = compare(&mut random, &forms, &mut reached) {
            panic!("program {round} of seed {seed}: {why}");
        }
    }
    println!("{rounds} programs of seed {seed}, none unequal; reached:");
    let count = |name: &String| reached.get(name).copied().unwrap_or(0);
    let names = names(&forms);
    names.iter().for_each(|name| println!("{:>8}  {name}", count(name)));
    println!("{} forms", names.len());
    let seldom: Vec<&String> = names.iter().filter(|name| count(name) < LEAST).collect();
    assert!(seldom.is_empty(), "reached fewer than {LEAST} times: {seldom:?}");
}

#[test]
fn each_form_alone_computes_what_the_reference_says() {
    let forms = forms();
    let mut failures = Vec::new();
    for form in &forms {
        let mut random = Random::new(7);
        let alone = std::slice::from_ref(form);
        for _ in 0..2 {
            if let Err(why) = compare(&mut random, alone, &mut BTreeMap::new()) {
                let why = why.lines().next().unwrap_or_default().to_owned();
                failures.push(format!("{}: {why}", form.name));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
