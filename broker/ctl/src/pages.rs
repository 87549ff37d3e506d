//! `completions` and `man`: texts made from the definition of the command line itself.

use std::process::ExitCode;

use clap::{Command, CommandFactory};

use crate::{args::Cli, failure::Failure, output};

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut for_people(), "halfwarp", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// The command line without what is only for ourselves.
fn for_people() -> Command {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let about = whole.get_about().cloned().unwrap_or_default();
    Command::new("halfwarp").version(env!("CARGO_PKG_VERSION")).about(about).subcommands(shown)
}

/// The page of `halfwarp`, or of one of its commands.
pub(crate) fn manual(command: Option<&str>) -> Result<ExitCode, Failure> {
    let page = page(command)?;
    output::print(&page)?;
    Ok(ExitCode::SUCCESS)
}

fn page(command: Option<&str>) -> Result<String, Failure> {
    let mut whole = for_people();
    whole.build();
    let about = match command {
        None => whole,
        Some(name) => whole.find_subcommand(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = whole.get_subcommands().map(Command::get_name).collect();
            Failure::new(
                format!("writing the manual page of {name:?}"),
                "there is no such command",
                format!("there are {}", names.join(", ")),
            )
        })?,
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
