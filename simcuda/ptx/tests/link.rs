//! Several texts made into one module: who is meant by a name, and what cannot be linked.

mod common;

use common::{Arg, Device, HEAD, launch, one_block};
use simcuda_ptx::{LinkError, Module};

fn link(bodies: &[&str]) -> Result<Module, LinkError> {
    let texts: Vec<(String, String)> = bodies
        .iter()
        .enumerate()
        .map(|(i, body)| (format!("unit{i}"), format!("{HEAD}{body}")))
        .collect();
    let texts: Vec<(&str, &str)> =
        texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Module::link(&texts)
}

/// A kernel that stores what `f()` gives.
const CALLER: &str = ".extern .func (.param .b32 r) f;
    .visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b32 %v; .param .b32 x;
    ld.param.u64 %o, [out]; call (x), f; ld.param.b32 %v, [x]; st.global.u32 [%o], %v; }";

fn function(linkage: &str, name: &str, value: u32) -> String {
    format!(
        "{linkage} .func (.param .b32 r) {name} {{ .reg .b32 %v; mov.u32 %v, {value}; st.param.b32 [r], %v; }}"
    )
}

fn result(bodies: &[&str]) -> u32 {
    let module = link(bodies).unwrap();
    let device = Device::new();
    let out = device.allocate(4);
    launch(&device, &module, "k", one_block(1), 0, &[Arg::U64(out)]).unwrap();
    device.download::<u32>(out, 1)[0]
}

#[test]
fn an_extern_function_is_the_visible_one_of_another_text() {
    assert_eq!(result(&[CALLER, &function(".visible", "f", 7)]), 7);
    assert_eq!(result(&[&function(".visible", "f", 8), CALLER]), 8);
}

#[test]
fn a_visible_definition_goes_before_weak_ones_wherever_it_stands() {
    let (weak, other) = (function(".weak", "f", 1), function(".weak", "f", 2));
    assert_eq!(result(&[CALLER, &weak, &function(".visible", "f", 3)]), 3);
    assert_eq!(result(&[CALLER, &function(".visible", "f", 3), &weak]), 3);
    assert_eq!(result(&[CALLER, &weak, &other]), 1, "the first of several weak ones");
}

#[test]
fn what_is_not_visible_belongs_to_its_text() {
    let helper = function("", "g", 5);
    let calls = ".visible .func (.param .b32 r) f { .reg .b32 %v; .param .b32 x; call (x), g; ld.param.b32 %v, [x]; st.param.b32 [r], %v; }";
    let mine = format!("{helper}{calls}");
    assert_eq!(result(&[CALLER, &mine, &function("", "g", 6)]), 5);
    assert_eq!(result(&[CALLER, &mine, &function(".visible", "g", 6)]), 5);
}

#[test]
fn variables_are_shared_by_name_and_the_largest_common_one_counts() {
    let reads = ".extern .global .b32 v; .visible .func (.param .b32 r) f { .reg .b32 %v; ld.global.b32 %v, [v]; st.param.b32 [r], %v; }";
    assert_eq!(result(&[CALLER, reads, ".visible .global .b32 v = 9;"]), 9);
    let module = link(&[
        ".common .global .b8 c[4];",
        ".common .global .b8 c[64];",
        CALLER,
        &function(".visible", "f", 1),
    ]);
    let module = module.unwrap();
    let sizes: Vec<usize> = module.globals().iter().map(|global| global.size).collect();
    assert_eq!(sizes, [64]);
    let pointer = ".extern .global .b32 v; .visible .global .u64 at = v; ";
    let module = link(&[pointer, ".visible .global .b32 v = 9;"]).unwrap();
    let at = module.globals().iter().find(|global| global.name == "at").unwrap();
    assert_eq!(module.globals()[at.pointers[0].global].name, "v");
}

#[test]
fn shared_memory_of_another_text_is_the_same_place() {
    let writes = ".visible .shared .align 8 .b32 s[4]; .visible .func w { .reg .b32 %v; mov.u32 %v, 21; st.shared.u32 [s+4], %v; }";
    let reads = ".extern .shared .b32 s[4]; .extern .func w; .visible .func (.param .b32 r) f { .reg .b32 %v; call w; ld.shared.b32 %v, [s+4]; st.param.b32 [r], %v; }";
    assert_eq!(result(&[CALLER, reads, writes]), 21);
}

#[test]
fn what_is_defined_twice_or_nowhere_is_said_by_name() {
    let f = function(".visible", "f", 1);
    let twice = link(&[CALLER, &f, &f]).unwrap_err();
    let (symbol, first, second) = ("f".to_owned(), "unit1".to_owned(), "unit2".to_owned());
    assert_eq!(twice, LinkError::Duplicate { symbol, first, second });
    let nowhere = link(&[CALLER]).unwrap_err();
    assert_eq!(nowhere, LinkError::Undefined { symbol: "f".into(), unit: "unit0".into(), line: 6 });
    assert_eq!(nowhere.to_string(), "`f`, which `unit0` refers to, is defined nowhere");
    let variable =
        link(&[".extern .global .b32 v; .entry k() { .reg .b32 %v; ld.global.b32 %v, [v]; }"]);
    assert_eq!(
        variable.unwrap_err(),
        LinkError::Undefined { symbol: "v".into(), unit: "unit0".into(), line: 4 }
    );
    let kernels = link(&[".visible .entry k() {}", ".visible .entry k() {}"]);
    assert!(matches!(kernels, Err(LinkError::Duplicate { .. })));
}

#[test]
fn memory_that_a_kernel_allocates_is_its_own_until_it_gives_it_back() {
    let text = ".extern .func (.param .b64 r) malloc(.param .b64 n); .extern .func free(.param .b64 p);
        .visible .entry k(.param .u64 out) { .reg .b64 %o, %p, %q; .reg .b32 %v; .reg .b32 %t; .param .b64 n; .param .b64 x;
        ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 16, %o;
        mov.u64 %p, 40; st.param.b64 [n], %p; call (x), malloc, (n); ld.param.b64 %p, [x];
        st.u32 [%p+36], %t; ld.u32 %v, [%p+36]; st.global.u32 [%o], %v; st.global.u64 [%o+8], %p;
        st.param.b64 [n], %p; call free, (n);
        mov.u64 %p, 0x7fffffffffffffff; st.param.b64 [n], %p; call (x), malloc, (n); ld.param.b64 %q, [x];
        cvt.u32.u64 %v, %q; st.global.u32 [%o+4], %v; }";
    let module = link(&[text]).unwrap();
    let device = Device::new();
    let out = device.allocate(32 * 16);
    launch(&device, &module, "k", one_block(32), 0, &[Arg::U64(out)]).unwrap();
    let words = device.download::<u32>(out, 128);
    let mut places: Vec<u64> =
        words.chunks(4).map(|w| u64::from(w[3]) << 32 | u64::from(w[2])).collect();
    for (lane, row) in words.chunks(4).enumerate() {
        assert_eq!((row[0], row[1]), (lane as u32, 0), "its own word, and nothing for too much");
    }
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 48), "blocks do not overlap");
}
