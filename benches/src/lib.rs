//! The benches are in `benches/`, what each may cost in `budgets.toml`; `cargo xtask bench` compares.
//! There is no code here.
