//! `completions` and `man`: texts made from the definition of the command line itself.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::{args::Cli, failure::Failure, output};

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "halfwarp", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// The page of `halfwarp`, or of one of its commands.
pub(crate) fn manual(command: Option<&str>) -> Result<ExitCode, Failure> {
    let page = page(command)?;
    output::print(&page)?;
    Ok(ExitCode::SUCCESS)
}

fn page(command: Option<&str>) -> Result<String, Failure> {
    let mut whole = Cli::command();
    whole.build();
    let about = match command {
        None => whole,
        Some(name) => {
            let there: Vec<_> =
                whole.get_subcommands().filter(|command| !command.is_hide_set()).collect();
            let found = there.iter().find(|command| command.get_name() == name);
            let names: Vec<&str> = there.iter().map(|command| command.get_name()).collect();
            found.copied().cloned().ok_or_else(|| {
                Failure::new(
                    format!("writing the manual page of {name:?}"),
                    "there is no such command",
                    format!("there are {}", names.join(", ")),
                )
            })?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(about)
        .render(&mut page)
        .map_err(|error| Failure::io("writing a manual page", &error, ""))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_each_command_and_none_for_another() {
        let whole = page(None).expect("a page");
        assert!(whole.contains("halfwarp") && !whole.contains("detached"), "{whole}");
        assert!(page(Some("run")).expect("a page").contains("\\-\\-memory"));
        for unknown in ["detached", "nothing"] {
            let refused = page(Some(unknown)).expect_err("refused").to_string();
            assert!(refused.contains("there are run, ps"), "{refused}");
        }
    }
}
