//! `ulpscope shell`: a session of commands, typed or from a script.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use ulpscope_session::Language;
use ulpscope_shell::config::Config;
use ulpscope_shell::{Dialect, Ending, Reply, Session, Step};

use crate::args::{ShellArgs, language};
use crate::exit::Exit;
use crate::output::Output;
use crate::session_input::{TypedLines, next_of_script};
use crate::training::run_requested;

/// Where the settings are, if the user names no file.
const CONFIG: &str = "precision_tool/config.py";

/// The shell of scripts, and of users who have set none.
const PLAIN_SHELL: &str = "/bin/sh";

/// The request of `shell`.
pub(crate) struct Shell {
    session: Session,
    config: Config,
    language: Language,
    /// Lines to run instead of those of standard input.
    lines: Vec<String>,
    allow_commands: bool,
    /// What of the settings cannot be read.
    problems: Vec<String>,
}

impl TryFrom<ShellArgs> for Shell {
    type Error = anyhow::Error;

    fn try_from(args: ShellArgs) -> anyhow::Result<Shell> {
        let (config, problems) = configured(args.config, args.data)?;
        let dialect = if args.parse { Dialect::Parse } else { Dialect::PrecisionTool };
        let session = Session::new(dialect, &config);
        let language = language(args.lang)?;
        let session = match language {
            Language::English => session,
            Language::Chinese => session.in_chinese(),
        };
        Ok(Shell {
            session,
            config,
            language,
            lines: args.command,
            allow_commands: args.allow_commands,
            problems,
        })
    }
}

/// The settings of a session, and what of them cannot be read. A folder that the user names has to exist.
pub(crate) fn configured(
    file: Option<PathBuf>,
    data: Option<PathBuf>,
) -> anyhow::Result<(Config, Vec<String>)> {
    let (mut config, problems) = match file {
        Some(file) => Config::read(&file).with_context(|| format!("{}", file.display()))?,
        None if Path::new(CONFIG).is_file() => Config::read(Path::new(CONFIG)).context(CONFIG)?,
        None => (Config::default(), Vec::new()),
    };
    if let Some(data) = data {
        if !data.is_dir() {
            bail!("{}: no such folder; expected a precision_data", data.display());
        }
        config.data_root = data;
    }
    Ok((config, problems))
}

impl Shell {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        self.problems.iter().for_each(|problem| output.complain(&format!("warning: {problem}")));
        if !self.lines.is_empty() {
            let mut worst = Ending::Done;
            for line in &self.lines {
                match self.step(line, self.allow_commands, output)? {
                    Some(ending) => worst = worst.max(ending),
                    None => break,
                }
            }
            return Ok(exit_of_script(worst));
        }
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            self.typed(output)?;
            return Ok(Exit::Done);
        }
        let mut input = io::stdin().lock();
        let mut worst = Ending::Done;
        while let Some(line) = next_of_script(&mut input)? {
            match self.step(&line, self.allow_commands, output)? {
                Some(ending) => worst = worst.max(ending),
                None => break,
            }
        }
        Ok(exit_of_script(worst))
    }

    fn typed(&self, output: &mut Output) -> anyhow::Result<()> {
        // Without this, Ctrl-C would end the session with the command.
        let handler = signal_hook::flag::register(signal_hook::consts::SIGINT, self.session.cancel().flag())?;
        let mut lines = TypedLines::new(&self.session)?;
        output.line("help lists the commands; Ctrl-D leaves")?;
        output.flush()?;
        while let Some(line) = lines.next()? {
            if self.step(&line, true, output)?.is_none() {
                break;
            }
        }
        signal_hook::low_level::unregister(handler);
        Ok(())
    }

    /// Runs a line; nothing if it ends the session.
    fn step(&self, line: &str, runs_programs: bool, output: &mut Output) -> anyhow::Result<Option<Ending>> {
        self.session.cancel().clear();
        let ending = match self.session.execute(line) {
            Step::Leave => return Ok(None),
            Step::Answered(reply) => {
                let ending = show(&reply, output)?;
                ending.max(self.train(&reply, output)?)
            }
            Step::Program(line) if runs_programs => {
                output.flush()?;
                match run_program(&line) {
                    Ok(ending) => ending,
                    Err(error) => {
                        output.complain(&format!("[ERROR] {error}"));
                        Ending::Failed
                    }
                }
            }
            Step::Program(line) => {
                let first = line.split_whitespace().next().unwrap_or_default();
                output.complain(&format!(
                    "[ERROR] {first}: no such command; scripts run programs only with --allow-commands"
                ));
                Ending::Failed
            }
        };
        self.session.cancel().clear();
        output.flush()?;
        Ok(Some(ending))
    }
}

impl Shell {
    /// Runs the trainings of an answer. A training that fails does not end the session.
    fn train(&self, reply: &Reply, output: &mut Output) -> anyhow::Result<Ending> {
        match run_requested(&reply.trainings, &self.config, self.language, output) {
            Ok(0) => Ok(Ending::Done),
            Ok(_) => Ok(Ending::Failed),
            Err(error) => {
                output.complain(&format!("[ERROR] train: {error:#}"));
                Ok(Ending::Failed)
            }
        }
    }
}

/// Shows an answer.
pub(crate) fn show(reply: &Reply, output: &mut Output) -> io::Result<Ending> {
    output.escaped_bytes(reply.text.as_bytes())?;
    reply.complaints.iter().for_each(|line| output.complain(line));
    Ok(reply.ending)
}

/// A difference is a finding of one command, not the verdict of a session.
fn exit_of_script(worst: Ending) -> Exit {
    if worst == Ending::Failed { Exit::Failed } else { Exit::Done }
}

/// Runs a line that the user typed, in the user's own shell and with the terminal. The next lines of a script are not
/// its input.
fn run_program(line: &str) -> anyhow::Result<Ending> {
    let is_typed = io::stdin().is_terminal();
    let own = std::env::var_os("SHELL").filter(|shell| is_typed && !shell.is_empty());
    let shell = own.unwrap_or_else(|| PLAIN_SHELL.into());
    let mut command = Command::new(&shell);
    command.arg("-c").arg(line);
    if !is_typed {
        command.stdin(Stdio::null());
    }
    let status = command.status().with_context(|| format!("cannot start {}", shell.to_string_lossy()))?;
    Ok(if status.success() { Ending::Done } else { Ending::Failed })
}
