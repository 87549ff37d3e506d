//! The two plots of the report, as SVG.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (800, 400);
/// Told apart also without colour sight.
const COLOURS: [RGBColor; 3] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115)];

type Line = (&'static str, Vec<(f64, f64)>);

pub(super) fn shares(path: &Path, lines: &[Line]) -> Result<()> {
    draw(path, lines, (30.0, 100.0), ("seconds", "% of the card")).map_err(|e| anyhow!("{e}"))
}

/// What part of the requests took at most how long.
pub(super) fn latencies(path: &Path, alone: &[u64], beside: &[u64]) -> Result<()> {
    let line = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        let count = times.len() as f64;
        // Some hundred points are enough for the eye.
        let step = (times.len() / 300).max(1);
        let points = times.iter().enumerate().step_by(step);
        points.map(|(n, ns)| (*ns as f64 / 1e6, 100.0 * n as f64 / count)).collect()
    };
    let lines = [("alone", line(alone)), ("beside a low one", line(beside))];
    draw(path, &lines, (30.0, 100.0), ("milliseconds", "% of the requests"))
        .map_err(|e| anyhow!("{e}"))
}

fn draw(
    path: &Path,
    lines: &[Line],
    (right, top): (f64, f64),
    (across, up): (&str, &str),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart.configure_mesh().x_desc(across).y_desc(up).light_line_style(TRANSPARENT).draw()?;
    for ((name, points), colour) in lines.iter().zip(COLOURS) {
        let style = colour.stroke_width(2);
        let shown = points.iter().copied().filter(|(x, _)| *x <= right);
        let key = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style);
        chart.draw_series(LineSeries::new(shown, style))?.label(*name).legend(key);
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
