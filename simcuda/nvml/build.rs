//! How `libnvidia-ml.so.1` is linked: under the vendor's name, and bound to itself.
fn main() {
    for argument in ["-Wl,-soname,libnvidia-ml.so.1", "-Wl,-Bsymbolic"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
