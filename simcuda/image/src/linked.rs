//! What our linker gives out: the texts as they were, one after the other, each behind a line with its
//! length and name. It is a text itself, so that programs may keep it in a file.

use std::fmt::Write as _;

use crate::{ImageError, Text};

/// The first line.
pub const MAGIC: &str = "// simcuda linked texts";
const EACH: &str = "// simcuda text ";

/// One image of several texts.
pub fn join(texts: &[Text]) -> String {
    if let [only] = texts {
        return only.text.clone();
    }
    let mut joined = format!("{MAGIC}\n");
    for Text { name, text } in texts {
        let name = name.replace(['\n', '\r'], " ");
        let _ = writeln!(joined, "{EACH}{} {name}\n{text}", text.len());
    }
    joined
}

/// The texts of an image, which may be a plain one.
pub(crate) fn split(image: &str) -> Result<Vec<Text>, ImageError> {
    let Some(mut rest) = image.strip_prefix(MAGIC) else {
        return Ok(vec![Text { name: String::new(), text: image.to_owned() }]);
    };
    rest = rest.strip_prefix('\n').unwrap_or(rest);
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let (text, after) = one(rest).ok_or(ImageError::Broken("a linked text is cut"))?;
        texts.push(text);
        rest = after;
    }
    Ok(texts)
}

fn one(rest: &str) -> Option<(Text, &str)> {
    let (line, rest) = rest.strip_prefix(EACH)?.split_once('\n')?;
    let (length, name) = line.split_once(' ')?;
    let (text, rest) = rest.split_at_checked(length.parse().ok()?)?;
    Some((Text { name: name.to_owned(), text: text.to_owned() }, rest.strip_prefix('\n')?))
}
