//! What a command answers.

use ulpscope_report::escape;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Done; what was compared agrees.
    Done,
    /// Done; what was compared differs.
    Differs,
    /// Something could not be done.
    Failed,
}

/// The answer of a command: text for the user, and what went wrong.
#[derive(Clone, Debug)]
pub struct Reply {
    /// For standard output; safe for a terminal, with a line break at the end of each line.
    pub text: String,
    /// For standard error, one line each.
    pub complaints: Vec<String>,
    /// How it ended.
    pub ending: Ending,
    /// Trainings that the caller runs now: nothing here starts a process.
    pub trainings: Vec<TrainingRequest>,
}

/// A training from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingRequest {
    /// Where it runs.
    pub device: TrainingDevice,
    /// Whether overflows are detected; otherwise tensors are dumped.
    pub detects_overflow: bool,
}

/// Where a training runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingDevice {
    /// TensorFlow as it is.
    Cpu,
    /// An Ascend device.
    Npu,
}

impl Default for Reply {
    fn default() -> Reply {
        Reply { text: String::new(), complaints: Vec::new(), ending: Ending::Done, trainings: Vec::new() }
    }
}

impl Reply {
    /// An answer without results.
    pub(crate) fn failed(problem: impl Into<String>) -> Reply {
        let mut reply = Reply::default();
        reply.error(problem);
        reply
    }

    /// Adds a line; text from files in it cannot affect a terminal.
    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(&escape::terminal(line));
        self.text.push('\n');
    }

    /// Adds text that is safe already.
    pub(crate) fn block(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds something the user should know.
    pub(crate) fn warning(&mut self, text: impl Into<String>) {
        self.complaints.push(format!("[WARNING] {}", text.into()));
    }

    /// Adds something that could not be done.
    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.complaints.push(format!("[ERROR] {}", text.into()));
        self.ending = Ending::Failed;
    }

    /// Adds the answer of a further part.
    pub(crate) fn add(&mut self, more: Reply) {
        self.text.push_str(&more.text);
        self.complaints.extend(more.complaints);
        self.ending = self.ending.max(more.ending);
        self.trainings.extend(more.trainings);
    }
}
