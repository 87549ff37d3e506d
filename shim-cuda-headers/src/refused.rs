//! Functions of the vendor's headers that are deliberately not in the table, each with its reason.
//! `cargo xtask symbols` compares headers, table and this list: a name must be in exactly one.

/// Symbol, reason.
pub const REFUSED: &[(&str, &str)] =
    &[("cuWGLGetDevice", "exists on Windows only; the header declares it under that condition")];
