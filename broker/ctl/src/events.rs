//! `events`: what has happened, once or as it goes on.

use std::{process::ExitCode, time::Duration};

use halfwarp_rest::Event;

use crate::{
    args::{EventsArgs, Form},
    broker,
    failure::Failure,
    listing::short_uuid,
    output,
};

/// Pause between two questions for new events.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(crate) fn events(asked: &EventsArgs) -> Result<ExitCode, Failure> {
    let client = broker::existing(&asked.view.which)?;
    let ask = |after| client.events(after).map_err(|e| e.failure(broker::asking(&client)));
    let mut after = asked.after;
    if !asked.follow {
        let events = ask(after)?;
        match asked.view.output {
            Form::Json => output::print_json(&events)?,
            form => output::print(&lines(&events, form == Form::Wide))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let events = ask(after)?;
        if let Some(last) = events.last() {
            after = last.number;
            output::print(&match asked.view.output {
                Form::Json => json_lines(&events)?,
                form => lines(&events, form == Form::Wide),
            })?;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A line for each event. Columns have fixed widths, so that lines printed later stand under them.
fn lines(events: &[Event], wide: bool) -> String {
    events.iter().map(|event| line(event, wide)).collect()
}

fn line(event: &Event, wide: bool) -> String {
    let uuid = |uuid| if wide { uuid } else { short_uuid(uuid) };
    let mut about = Vec::new();
    about.extend(event.tenant.map(|id| format!("tenant={id}")));
    about.extend(event.pid.map(|pid| format!("pid={pid}")));
    about.extend(event.gpu.as_deref().map(|gpu| format!("gpu={}", uuid(gpu))));
    about.extend(event.bytes.map(|bytes| format!("memory={}", output::held(bytes))));
    about.push(event.text.clone());
    format!(
        "{:>6}  {}  {:<18}  {}\n",
        event.number,
        time_of_day(event.at),
        event.kind,
        about.join(" ").trim_end()
    )
}

/// One object on each line, as a stream of JSON is read.
fn json_lines(events: &[Event]) -> Result<String, Failure> {
    events.iter().try_fold(String::new(), |text, event| {
        let line = serde_json::to_string(event)
            .map_err(|error| Failure::new("writing JSON", error.to_string(), ""))?;
        Ok(text + &line + "\n")
    })
}

/// `2026-11-30T18:49:02.125Z`.
fn time_of_day(at: f64) -> String {
    // The last millisecond of year 9999 is the last one this form can write.
    let millis = (at * 1000.0).clamp(0.0, 253_402_300_799_999.0) as u64;
    let (seconds, days) = (millis / 1000, millis / 86_400_000);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        millis % 1000
    )
}

/// Days since 1970-01-01 as year, month, day of the Gregorian calendar: whole years are taken off,
/// then whole months.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwarp_rest::Bytes;

    #[test]
    fn times_are_written_in_universal_time() {
        assert_eq!(time_of_day(0.0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time_of_day(951_782_400.5), "2000-02-29T00:00:00.500Z");
        assert_eq!(time_of_day(1_796_061_599.999), "2026-11-30T17:59:59.999Z");
        assert_eq!(time_of_day(f64::NAN), "1970-01-01T00:00:00.000Z");
        assert_eq!(time_of_day(1e300), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_line_names_what_an_event_is_about() {
        let event = Event {
            number: 12,
            at: 0.0,
            kind: "out-of-memory".to_owned(),
            tenant: Some(3),
            pid: Some(41),
            gpu: Some("GPU-12345678-1234".to_owned()),
            bytes: Some(Bytes(1 << 30)),
            text: "asked for too much".to_owned(),
        };
        let line = line(&event, false);
        assert!(line.contains("out-of-memory"), "{line}");
        let about = "tenant=3 pid=41 gpu=GPU-12345678 memory=1024MiB asked for too much";
        assert!(line.contains(about), "{line}");
        assert!(super::line(&event, true).contains("gpu=GPU-12345678-1234 "));
    }
}
