//! Loading and linking device code through the driver: what becomes of images that are whole, of
//! several texts, of machine code, and of what is cut short.

mod api;

use api::turn;
use std::ffi::{CStr, CString, c_void};
use std::process::Command;
use std::ptr::null;

const INVALID_IMAGE: u32 = 200;
const NO_BINARY_FOR_GPU: u32 = 209;
const INVALID_PTX: u32 = 218;
const FILE_NOT_FOUND: u32 = 301;
const UNKNOWN: u32 = 999;
const PTX: u32 = 1;

const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";
const CALLER: &str = ".extern .func (.param .b32 r) f;
    .visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b32 %v; .param .b32 x;
    ld.param.u64 %o, [out]; call (x), f; ld.param.b32 %v, [x]; st.global.u32 [%o], %v; }";
const SEVEN: &str =
    ".visible .func (.param .b32 r) f { .reg .b32 %v; mov.u32 %v, 7; st.param.b32 [r], %v; }";

/// A linker with room for what it has to say about errors.
struct Linker<'t> {
    turn: &'t api::Turn,
    state: usize,
    log: Vec<u8>,
}

impl<'t> Linker<'t> {
    fn new(turn: &'t api::Turn) -> Self {
        let mut log = vec![0_u8; 512];
        let (names, values) = ([5, 6], [log.as_mut_ptr().expose_provenance(), log.len()]);
        let mut state = 0;
        let code = turn.driver.cuLinkCreate_v2(2, names.as_ptr(), values.as_ptr(), &mut state);
        assert_eq!(code, 0);
        Self { turn, state, log }
    }

    fn add(&self, name: &str, body: &str) -> u32 {
        let text = CString::new(format!("{HEAD}{body}")).unwrap();
        let bytes = text.as_bytes_with_nul();
        let name = CString::new(name).unwrap();
        self.turn.driver.cuLinkAddData_v2(
            self.state,
            PTX,
            bytes.as_ptr(),
            bytes.len() as u64,
            name.as_ptr().cast(),
            0,
            null(),
            null(),
        )
    }

    fn complete(&self) -> Result<*const c_void, u32> {
        let (mut image, mut bytes) = (null(), 0);
        match self.turn.driver.cuLinkComplete(self.state, &mut image, &mut bytes) {
            0 => Ok(image),
            code => Err(code),
        }
    }

    fn said(&self) -> String {
        let text = CStr::from_bytes_until_nul(&self.log).expect("a log that ends");
        text.to_string_lossy().into_owned()
    }
}

impl Drop for Linker<'_> {
    fn drop(&mut self) {
        assert_eq!(self.turn.driver.cuLinkDestroy(self.state), 0);
    }
}

#[test]
fn texts_that_refer_to_each_other_are_one_module_after_linking() {
    let turn = turn();
    let linker = Linker::new(&turn);
    assert_eq!(linker.add("caller", CALLER), 0);
    assert_eq!(linker.add("callee", SEVEN), 0);
    let mut module = 0;
    assert_eq!(turn.driver.cuModuleLoadData(&mut module, linker.complete().unwrap()), 0);
    let out = turn.allocate(4);
    assert_eq!(turn.launch(turn.function(module, "k"), 1, 0, &[out]), 0);
    assert_eq!(turn.read(out, 4), [7, 0, 0, 0]);
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn what_cannot_be_linked_is_named_in_the_log() {
    let turn = turn();
    let lacks = Linker::new(&turn);
    assert_eq!(lacks.add("caller", CALLER), 0);
    assert_eq!(lacks.complete(), Err(UNKNOWN));
    assert_eq!(lacks.said(), "`f`, which `caller` refers to, is defined nowhere");
    let twice = Linker::new(&turn);
    for name in ["one", "two"] {
        assert_eq!(twice.add(name, SEVEN), 0);
    }
    assert_eq!(twice.complete(), Err(UNKNOWN));
    assert_eq!(twice.said(), "`f` is defined both in `one` and in `two`");
    let wrong = Linker::new(&turn);
    assert_eq!(wrong.add("wrong", ".entry k() { add.u32 %a, %b, %c; }"), INVALID_PTX);
    assert!(wrong.said().starts_with("wrong: ptx line 4"), "{}", wrong.said());
    let path = CString::new("/nowhere/there.ptx").unwrap();
    let code =
        turn.driver.cuLinkAddFile_v2(wrong.state, PTX, path.as_ptr().cast(), 0, null(), null());
    assert_eq!(code, FILE_NOT_FOUND);
}

#[test]
fn kernels_of_machine_code_can_be_launched_and_do_nothing() {
    let turn = turn();
    let image = include_bytes!("data/work.cubin");
    let mut module = 0;
    assert_eq!(turn.driver.cuModuleLoadData(&mut module, image.as_ptr().cast()), 0);
    let out = turn.allocate(16);
    turn.write(out, &[9; 16]);
    assert_eq!(turn.launch(turn.function(module, "work"), 32, 0, &[out, 4]), 0);
    assert_eq!(turn.driver.cuCtxSynchronize(), 0);
    assert_eq!(turn.read(out, 16), [9; 16]);
    let (mut at, mut bytes) = (0, 0);
    let name = c"seen".as_ptr().cast();
    assert_eq!(turn.driver.cuModuleGetGlobal_v2(&mut at, &mut bytes, module, name), 0);
    assert_eq!(bytes, 40);
    assert_eq!(turn.read(at, 40), [0; 40]);
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn machine_code_is_refused_where_the_environment_says_so() {
    if std::env::var_os("SIMCUDA_SASS").is_none() {
        let own = std::env::current_exe().expect("this test's file");
        let name = "machine_code_is_refused_where_the_environment_says_so";
        let again =
            Command::new(own).args(["--exact", name]).env("SIMCUDA_SASS", "refuse").status();
        assert!(again.expect("the test starts again").success());
        return;
    }
    let turn = turn();
    let image = include_bytes!("data/work.cubin");
    let mut module = 0;
    let code = turn.driver.cuModuleLoadData(&mut module, image.as_ptr().cast());
    assert_eq!(code, NO_BINARY_FOR_GPU);
}

#[test]
fn an_image_that_claims_more_than_is_there_is_an_error_and_no_crash() {
    let turn = turn();
    let load = |image: &[u8]| {
        let mut module = 0;
        turn.driver.cuModuleLoadData(&mut module, image.as_ptr().cast())
    };
    // Half a gigabyte behind a few bytes of the heap, and a wrapper that points nowhere.
    let mut fatbin = vec![0_u8; 64];
    fatbin[..8].copy_from_slice(&[0x50, 0xED, 0x55, 0xBA, 1, 0, 16, 0]);
    for claim in [255_u64 << 20, 1 << 40, u64::MAX] {
        fatbin[8..16].copy_from_slice(&claim.to_le_bytes());
        assert_eq!(load(&fatbin), INVALID_IMAGE, "{claim}");
    }
    let mut wrapper = vec![0_u8; 24];
    wrapper[..4].copy_from_slice(&0x4662_43B1_u32.to_le_bytes());
    for target in [8_u64, 0x7fff_0000_0000, u64::MAX - 2] {
        wrapper[8..16].copy_from_slice(&target.to_le_bytes());
        assert_eq!(load(&wrapper), INVALID_IMAGE, "{target:x}");
    }
    let mut elf = include_bytes!("data/work.cubin").to_vec();
    elf[40..48].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    assert_eq!(load(&elf), INVALID_IMAGE);
    assert_eq!(load(b"\xff\xfe\xfd\0"), INVALID_IMAGE);
    assert_eq!(load(b"\0"), 0, "an empty text is a module without kernels");
}

#[test]
fn a_variable_larger_than_the_card_is_out_of_memory_and_gives_all_back() {
    let turn = turn();
    let before = turn.free_bytes();
    for size in ["2000000000", "1000000000000"] {
        let text =
            format!("{HEAD}.visible .global .b8 small[4096]; .visible .global .b8 large[{size}];");
        let text = CString::new(text).unwrap();
        let mut module = 0;
        let code = turn.driver.cuModuleLoadData(&mut module, text.as_ptr().cast());
        assert_eq!(code, api::OUT_OF_MEMORY, "{size}");
        assert_eq!(turn.free_bytes(), before);
    }
}
