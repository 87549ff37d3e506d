//! What a demo has shown, in sentences, and what it should have shown and has not. Pure.

use std::fmt;

use halfwarp_rest::Gpu;

use super::watch::{Seen, SeenPart};
use crate::output::{exact, held};

#[derive(Debug)]
pub(super) struct Verdict {
    facts: Vec<String>,
    pub(super) missing: Vec<String>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nseen, by the broker's API and the programs' own output:")?;
        self.facts.iter().try_for_each(|fact| writeln!(f, "  {fact}"))?;
        if self.missing.is_empty() {
            return writeln!(f, "nothing is missing");
        }
        writeln!(f, "missing:")?;
        self.missing.iter().try_for_each(|what| writeln!(f, "  {what}"))
    }
}

pub(super) fn of(seen: &Seen, card: &Gpu) -> Verdict {
    let [small, large] = &seen.parts;
    let mut verdict = Verdict { facts: Vec::new(), missing: Vec::new() };
    let shared = format!("both tenants had processes on {} at once", card.name);
    verdict.expect(seen.together, shared, "both tenants on the card at once");
    refusal(&mut verdict, small);
    neighbour(&mut verdict, large);
    for part in [small, large] {
        limit_and_end(&mut verdict, part);
    }
    verdict.missing.extend(
        seen.api_trouble
            .as_ref()
            .map(|trouble| format!("an answer of the API each time: {trouble}")),
    );
    if !verdict.missing.is_empty() {
        verdict.missing.extend([small, large].into_iter().flat_map(said));
    }
    verdict
}

impl Verdict {
    fn expect(&mut self, seen: bool, fact: String, missing: impl Into<String>) {
        if seen {
            self.facts.push(fact);
        } else {
            self.missing.push(missing.into());
        }
    }
}

/// The small tenant asked for too much and was refused as CUDA refuses.
fn refusal(verdict: &mut Verdict, small: &SeenPart) {
    verdict.expect(
        small.refused > 0,
        format!(
            "small was refused {} times by the API's count, holding up to {} of {}",
            small.refused,
            held(small.most_held_when_refused_bytes.unwrap_or_default()),
            exact(small.limit_bytes)
        ),
        "a refusal of the small tenant in the API",
    );
    let hog = small.hog.as_ref();
    let line = hog.and_then(|hog| hog.line("then CUDA_ERROR_OUT_OF_MEMORY"));
    verdict.expect(
        line.is_some(),
        format!("memoryHog in small {}", line.unwrap_or_default()),
        "CUDA_ERROR_OUT_OF_MEMORY in memoryHog's output",
    );
    verdict.expect(
        hog.is_some_and(|hog| hog.passed()),
        "memoryHog's blocks kept what was written to them and were given back: PASSED".to_owned(),
        "PASSED from memoryHog",
    );
    verdict.expect(
        small.work.passed() && small.work.correct > 0,
        format!("matrixMul beside it made {} correct products: PASSED", small.work.correct),
        "PASSED from matrixMul in the small tenant",
    );
}

/// The large tenant went on as if nothing had happened.
fn neighbour(verdict: &mut Verdict, large: &SeenPart) {
    let after =
        large.correct_at_others_refusal.map(|before| large.work.correct.saturating_sub(before));
    verdict.expect(
        after.is_some_and(|after| after > 0) && large.work.passed(),
        format!(
            "vectorAdd in large made {} correct additions, {} of them after that refusal: PASSED",
            large.work.correct,
            after.unwrap_or_default()
        ),
        format!(
            "correct results of the large tenant after the refusal, and PASSED (it had {})",
            large.work.correct
        ),
    );
    verdict.expect(
        large.refused == 0,
        "large was refused nothing".to_owned(),
        format!("an undisturbed neighbour: large was refused {} times", large.refused),
    );
}

fn limit_and_end(verdict: &mut Verdict, part: &SeenPart) {
    let (most, limit) = (held(part.most_held_bytes), exact(part.limit_bytes));
    verdict.expect(
        part.most_held_bytes.0 > 0 && part.most_held_bytes <= part.limit_bytes,
        format!("{} never held more than {most} of its {limit}", part.name),
        format!("{} within its {limit}: it held up to {most}", part.name),
    );
    match part.exit_code {
        Some(0) => {}
        Some(code) => {
            verdict.missing.push(format!("exit code 0 from {}: it was {code}", part.name));
        }
        None => verdict.missing.push(format!("the end of {} in time", part.name)),
    }
}

/// What the programs of a tenant said, for whoever has to find out why something is missing.
fn said(part: &SeenPart) -> Vec<String> {
    let logs = [Some(&part.runner), Some(&part.work), part.hog.as_ref()];
    let lines = logs.into_iter().flatten().flat_map(|log| log.text().lines());
    lines.map(|line| format!("  {} said: {line}", part.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::part::Log;
    use halfwarp_rest::{Bytes, Mode};

    fn card() -> Gpu {
        Gpu {
            index: 0,
            uuid: "GPU-a".to_owned(),
            name: "a card".to_owned(),
            lease_ms: 100,
            mode: Mode::Timesharing,
            memory_total_bytes: Bytes(16 << 30),
            memory_used_bytes: None,
            memory_requested_bytes: Bytes(0),
            memory_held_bytes: Bytes(0),
            memory_settling_bytes: Bytes(0),
            context_bytes: Bytes(0),
            context_measured: true,
            tenants: Vec::new(),
        }
    }

    type Spoil = fn(&mut Seen);

    fn part(name: &'static str, limit: u64) -> SeenPart {
        SeenPart {
            name,
            limit_bytes: Bytes(limit),
            held_bytes: Bytes(0),
            most_held_bytes: Bytes(limit),
            most_held_when_refused_bytes: Some(Bytes(limit)),
            refused: 0,
            processes: 0,
            correct_at_others_refusal: Some(10),
            work: Log::saying("on a card\nPASSED\n", 30),
            hog: None,
            runner: Log::saying("", 0),
            exit_code: Some(0),
        }
    }

    fn good() -> Seen {
        let hog = "got 4000 bytes in 4 blocks, then CUDA_ERROR_OUT_OF_MEMORY\nPASSED\n";
        let mut small = part("small", 4 << 30);
        small.refused = 3;
        small.hog = Some(Log::saying(hog, 0));
        let parts = [small, part("large", 8 << 30)];
        Seen { parts, together: true, api_trouble: None, interrupted: None }
    }

    #[test]
    fn facts_are_stated_with_the_numbers_that_were_seen() {
        let text = of(&good(), &card()).to_string();
        for fact in [
            "refused 3 times by the API's count, holding up to 4096MiB of 4096MiB",
            "got 4000 bytes in 4 blocks, then CUDA_ERROR_OUT_OF_MEMORY",
            "30 correct additions, 20 of them after that refusal",
            "large was refused nothing",
            "nothing is missing",
        ] {
            assert!(text.contains(fact), "{fact:?} is missing in:\n{text}");
        }
    }

    #[test]
    fn whatever_was_not_seen_is_missing() {
        let spoilt: [(&str, Spoil); 10] = [
            ("at once", |s| s.together = false),
            ("a refusal", |s| s.parts[0].refused = 0),
            ("OUT_OF_MEMORY", |s| s.parts[0].hog = Some(Log::saying("stopped\nPASSED\n", 0))),
            ("from matrixMul", |s| s.parts[0].work = Log::saying("FAILED\n", 3)),
            ("after the refusal", |s| s.parts[1].work.correct = 10),
            ("after the refusal", |s| s.parts[1].correct_at_others_refusal = None),
            ("undisturbed", |s| s.parts[1].refused = 1),
            ("within its 8192MiB: it held up to 8193MiB", |s| {
                s.parts[1].most_held_bytes = Bytes((8 << 30) + 1)
            }),
            ("exit code 0 from small: it was 125", |s| s.parts[0].exit_code = Some(125)),
            ("the end of large", |s| s.parts[1].exit_code = None),
        ];
        for (missing, spoil) in spoilt {
            let mut seen = good();
            spoil(&mut seen);
            let verdict = of(&seen, &card());
            let found = verdict.missing.iter().any(|line| line.contains(missing));
            assert!(found, "{missing:?} is missing in {:?}", verdict.missing);
        }
    }
}
