//! Gives stage one the driver's SONAME, so that `dlopen("libcuda.so.1")` finds it once it is loaded.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
    println!("cargo::rerun-if-changed=build.rs");
}
