//! How `libcudart.so.13` is linked: under the name that programs of the runtime API ask for.
fn main() {
    for argument in ["-Wl,-soname,libcudart.so.13", "-Wl,-Bsymbolic", "-Wl,-z,nodelete"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
