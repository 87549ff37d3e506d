//! The prototypes in `cuda-samples/include/halfwarp_cuda.h`: of every function that the samples call,
//! in the form that CUDA 12.0 gives its name, from the table.

use std::{collections::BTreeSet, fs, path::PathBuf};

use shim_cuda_headers::DriverFn;

use crate::{command::root, symbols::prototypes::c_type};

/// The names stand for what they stood for in CUDA 12.0, which every driver from r525 on has.
const VERSION: u32 = 12_000;

/// The generated block, closed and opened again as the C comment around it needs.
pub(super) fn prototypes() -> String {
    let rows: Vec<DriverFn> = called()
        .iter()
        .filter_map(|name| DriverFn::answering(name.as_bytes(), VERSION, false))
        .collect();
    let mut text = "*/\n".to_owned();
    for row in rows.iter().map(|f| f.row()).filter(|row| row.symbol != row.asked) {
        text += &format!("#define {} {}\n", row.asked, row.symbol);
    }
    text.push('\n');
    for row in rows.iter().map(|f| f.row()) {
        let types: Vec<_> =
            row.params.iter().map(|rust| c_type(rust).expect("a type of the table")).collect();
        let types = if types.is_empty() { "void".to_owned() } else { types.join(", ") };
        text += &format!("CUresult {}({types});\n", row.asked);
    }
    text + "/*"
}

/// Names of driver functions that the samples' sources call.
fn called() -> BTreeSet<String> {
    let folder = root().join("cuda-samples");
    let sources =
        fs::read_dir(&folder).expect("cuda-samples is there").flatten().flat_map(|entry| {
            let name = entry.file_name();
            let own: PathBuf = entry.path().join(&name).with_extension("c");
            [own, entry.path().join("sample.h")]
        });
    let mut names = BTreeSet::new();
    for text in sources.filter_map(|path| fs::read_to_string(path).ok()) {
        for (before, _) in text.match_indices('(') {
            let head = &text[..before];
            let start = head.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
            let name = &head[start..];
            let is_driver = name
                .strip_prefix("cu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
            if is_driver {
                names.insert(name.to_owned());
            }
        }
    }
    names
}
