//! Links stage two so that its own references stay its own, whatever is preloaded.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
    println!("cargo::rerun-if-changed=build.rs");
}
