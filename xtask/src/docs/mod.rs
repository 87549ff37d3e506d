//! `cargo xtask docs`: the generated parts of the documents.
//!
//! A document says `<!-- made by cargo xtask docs: NAME -->` where a generated block begins and
//! `<!-- end -->` where it ends; all else in it is written by hand. `--check` changes nothing and
//! fails where a block is not what would be written.

mod hooks;
mod labels;
mod memory;
mod protocol;
mod samples;
mod simcuda;

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::command::root;

/// Document, name of the block in it, and who makes it.
type Block = (&'static str, &'static str, fn() -> String);

const BLOCKS: &[Block] = &[
    ("docs/hooks.md", "hooks", hooks::answered_by_us),
    ("docs/hooks.md", "forwards", hooks::forwarded),
    ("docs/hooks.md", "refused", hooks::refused),
    ("docs/hooks.md", "nvml", hooks::nvml),
    ("docs/memory.md", "charges", memory::charges),
    ("docs/protocol.md", "tags", protocol::tags),
    ("docs/protocol.md", "pages", protocol::pages),
    ("cuda-samples/include/halfwarp_cuda.h", "prototypes", samples::prototypes),
    ("docs/simcuda.md", "counts", simcuda::counts),
    ("docs/simcuda.md", "functions", simcuda::table),
    ("docs/labels.md", "library", labels::library),
    ("docs/labels.md", "broker", labels::broker),
    ("docs/failure.md", "refusals", protocol::refusals),
    ("docs/failure.md", "denials", protocol::denials),
];

const END: &str = "<!-- end -->";

pub(crate) fn write() -> Result<()> {
    for (file, name, make) in BLOCKS {
        let path = root().join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        let fresh = with_block(&text, name, &make()).with_context(|| (*file).to_owned())?;
        if fresh != text {
            fs::write(&path, fresh)?;
            println!("{file}: {name} written");
        }
    }
    Ok(())
}

pub(crate) fn check() -> Result<()> {
    let mut stale = Vec::new();
    for (file, name, make) in BLOCKS {
        let text =
            fs::read_to_string(root().join(file)).with_context(|| format!("reading {file}"))?;
        if with_block(&text, name, &make()).with_context(|| (*file).to_owned())? != text {
            stale.push(format!("{file} ({name})"));
        }
    }
    ensure!(stale.is_empty(), "not as generated: {}; run `cargo xtask docs`", stale.join(", "));
    Ok(())
}

/// The document with the block of that name replaced.
fn with_block(text: &str, name: &str, block: &str) -> Result<String> {
    let begin = format!("<!-- made by cargo xtask docs: {name} -->");
    let Some((before, rest)) = text.split_once(&begin) else {
        bail!("has no block {name:?}; add the line {begin}");
    };
    let Some((_, after)) = rest.split_once(END) else {
        bail!("block {name:?} has no end; add the line {END}");
    };
    Ok(format!("{before}{begin}\n\n{}\n\n{END}{after}", block.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_replaced_and_all_else_is_kept() {
        let text = "head\n<!-- made by cargo xtask docs: a -->\nold\n<!-- end -->\nfoot\n";
        let once = with_block(text, "a", "new\n").expect("a block");
        assert_eq!(
            once,
            "head\n<!-- made by cargo xtask docs: a -->\n\nnew\n\n<!-- end -->\nfoot\n"
        );
        assert_eq!(with_block(&once, "a", "new").expect("a block"), once);
    }

    #[test]
    fn a_document_without_the_block_is_named() {
        assert!(with_block("head", "a", "new").is_err());
    }
}
