//! How `libcuda.so.1` is linked: under the vendor's name, bound to itself (a preloaded library
//! must not take its own references), and never unloaded (its threads outlive a `dlclose`).
fn main() {
    for argument in ["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", "-Wl,-z,nodelete"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
