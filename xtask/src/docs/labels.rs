//! `docs/labels.md`: the crash labels, from their table.

use halfwarp_label::LABELS;

/// The labels of one place, in the table's order.
fn at(place: &str) -> String {
    let mut text = "| label | what has just happened |\n|---|---|\n".to_owned();
    for label in LABELS.iter().filter(|label| label.place == place) {
        text += &format!("| `{}` | {} |\n", label.name, label.after);
    }
    text
}

pub(super) fn library() -> String {
    at("library")
}

pub(super) fn broker() -> String {
    at("broker")
}
