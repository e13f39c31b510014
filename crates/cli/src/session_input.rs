//! Lines of a session: typed at a terminal, with history and completion, or read from a script.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Context, Editor, Event, EventContext, EventHandler, Helper,
    KeyEvent, Movement, RepeatCount,
};
use ulpscope_shell::{DataKind, Session};

/// The longest line of a script.
const MAX_LINE: u64 = 1 << 20;

/// Lines that are remembered.
const MAX_HISTORY: usize = 1000;

/// A terminal that the user types at.
pub(crate) struct TypedLines {
    editor: Editor<Completion, FileHistory>,
    history: Option<PathBuf>,
    prompt: &'static str,
}

impl TypedLines {
    pub(crate) fn new(session: &Session) -> anyhow::Result<TypedLines> {
        let config = Config::builder().max_history_size(MAX_HISTORY)?.build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Completion { session: session.clone(), files: FilenameCompleter::new() }));
        editor.bind_sequence(
            Event::from(KeyEvent::ctrl('c')),
            EventHandler::Conditional(Box::new(ClearOrLeave)),
        );
        let history = history_file();
        if let Some(path) = &history {
            // Missing the first time.
            let _ = editor.load_history(path);
        }
        Ok(TypedLines { editor, history, prompt: session.dialect().prompt() })
    }

    /// The next line; nothing if the user leaves.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<String>> {
        match self.editor.readline(self.prompt) {
            Ok(line) => {
                self.editor.add_history_entry(&line)?;
                Ok(Some(line))
            }
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Remembers the lines for the next session, where that is possible.
impl Drop for TypedLines {
    fn drop(&mut self) {
        let Some(path) = &self.history else { return };
        if path.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok()) {
            let _ = self.editor.save_history(path);
        }
    }
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")));
    Some(state?.join("ulpscope").join("shell_history"))
}

/// Ctrl-C: clears what was typed; at an empty prompt it leaves.
struct ClearOrLeave;

impl ConditionalEventHandler for ClearOrLeave {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        Some(if context.line().is_empty() { Cmd::Interrupt } else { Cmd::Kill(Movement::WholeBuffer) })
    }
}

/// Completes commands, names of operators, files, and the names of files in the data folders.
struct Completion {
    session: Session,
    files: FilenameCompleter,
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..position];
        let start = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = &typed[start..];
        let is_first = typed[..start].trim().is_empty();
        let whole = |name: &str| Pair { display: name.to_owned(), replacement: name.to_owned() };
        if is_first {
            let commands = self.session.dialect().first_words().filter(|name| name.starts_with(word));
            let found: Vec<Pair> = commands.map(whole).collect();
            if !found.is_empty() {
                return Ok((start, found));
            }
        }
        let command = typed.split_whitespace().next().unwrap_or_default();
        if self.session.dialect().takes_operators(command) && !word.is_empty() {
            let operators = self.session.op_names(word);
            if !operators.is_empty() {
                return Ok((start, operators.iter().map(|name| whole(name)).collect()));
            }
        }
        let (file_start, mut found) = self.files.complete(line, position, context)?;
        if file_start == start && !word.is_empty() && !word.contains('/') {
            let folders = self.session.folders();
            for path in [DataKind::Decoded, DataKind::TfDump].into_iter().flat_map(|kind| folders.files(kind))
            {
                let name =
                    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if name.starts_with(word) && name.ends_with(".npy") {
                    found.push(whole(&name));
                }
            }
        }
        Ok((file_start, found))
    }
}

impl Helper for Completion {}
impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}

/// The next line of a script; nothing at its end.
pub(crate) fn next_of_script(input: &mut dyn BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = input.take(MAX_LINE).read_until(b'\n', &mut line)?;
    if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
        return Err(io::Error::other(format!("a line has more than {MAX_LINE} bytes")));
    }
    Ok((read > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
}
