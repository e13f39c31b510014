//! `ulpscope completions` and `ulpscope man`: what shells and pagers read, made from the arguments themselves.

use anyhow::{Context, bail};
use clap::CommandFactory;

use crate::args::{CompletionsArgs, Low, ManArgs, with_python_options};
use crate::exit::Exit;
use crate::output::Output;

const PROGRAM: &str = "ulpscope";

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs, output: &mut Output) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut with_python_options(Low::command()), PROGRAM, &mut script);
    output.piece(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}

/// Prints a manual page.
pub(crate) fn man(args: &ManArgs, output: &mut Output) -> anyhow::Result<Exit> {
    let mut program = with_python_options(Low::command());
    // Without it, a command does not know the options of the program.
    program.build();
    let page = match &args.command {
        None => clap_mangen::Man::new(program),
        Some(name) => {
            let Some(command) = program.find_subcommand(name) else {
                let known: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
                bail!("{name}: no such command; there are {}", known.join(", "));
            };
            clap_mangen::Man::new(command.clone()).title(format!("{PROGRAM}-{name}"))
        }
    };
    let mut text = Vec::new();
    page.render(&mut text).context("the manual page")?;
    output.piece(&String::from_utf8(text)?)?;
    Ok(Exit::Done)
}
