//! The name of a dump file, which says what the header does not: the type of the operator, and its task.
//!
//! ```text
//! Conv2D.LeNet_conv1_Conv2D.14.5.1767261601009597            type, operator, task, stream, microseconds
//! Conv2D.LeNet_conv1_Conv2D.14.1767261601009597              before there were streams
//! Conv2D.a_lxslice0.14.5.1767261601009597.4.65535.3.0        and: kind of task, context, thread, device (FFTS+)
//! ```
//!
//! `/` and `.` in the name of the operator are `_` here. A file of statistics has `.csv` at the end.

/// The parts of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// `Conv2D`.
    pub op_type: String,
    /// `LeNet_conv1_Conv2D`.
    pub op_name: String,
    /// Its task on the device.
    pub task_id: u64,
    /// The stream of the task; older files do not have it.
    pub stream_id: Option<u64>,
    /// When it was dumped, mostly in microseconds.
    pub timestamp: u64,
    /// The part of a task that runs in several threads.
    pub thread: Option<Thread>,
}

/// The part of an FFTS+ task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// 0 AI Core, 1 AI CPU, 2 debug, 3 HCCL, 4 FFTS+.
    pub task_type: u64,
    /// The context in the task.
    pub context_id: u64,
    /// The thread in the context.
    pub thread_id: u64,
    /// The device.
    pub device_id: u64,
}

/// The number that means none of a context or thread.
pub const NO_THREAD: u64 = 65535;

/// The extension of a file of statistics.
pub const STATISTICS_EXTENSION: &str = "csv";

/// The fewest digits of a time. Numbers of tasks and streams are shorter.
const TIME_DIGITS: usize = 13;

/// More numbers than any name has.
const MAX_NUMBERS: usize = 7;

impl FileName {
    /// Splits a name; none if it is not one of a dump file.
    pub fn parse(name: &str) -> Option<FileName> {
        let mut fields: Vec<&str> = name.splitn(MAX_NUMBERS + 3, '.').collect();
        let numbers = fields.split_off(2.min(fields.len()));
        let [op_type, op_name] = fields.as_slice() else { return None };
        if op_type.is_empty() || op_name.is_empty() {
            return None;
        }
        let time_at = numbers.iter().position(|number| number.len() >= TIME_DIGITS)?;
        let values: Option<Vec<u64>> = numbers.iter().map(|text| number(text)).collect();
        let (task_id, stream_id, timestamp, rest) = match (values?.as_slice(), time_at) {
            ([task, time, rest @ ..], 1) => (*task, None, *time, rest.to_vec()),
            ([task, stream, time, rest @ ..], 2) => (*task, Some(*stream), *time, rest.to_vec()),
            _ => return None,
        };
        let thread = match rest.as_slice() {
            [] => None,
            &[task_type, context_id, thread_id, device_id] => {
                Some(Thread { task_type, context_id, thread_id, device_id })
            }
            _ => return None,
        };
        let (op_type, op_name) = ((*op_type).to_owned(), (*op_name).to_owned());
        Some(FileName { op_type, op_name, task_id, stream_id, timestamp, thread })
    }

    /// Splits the name of a file of statistics.
    pub fn parse_statistics(name: &str) -> Option<FileName> {
        let (name, extension) = name.rsplit_once('.')?;
        (extension == STATISTICS_EXTENSION).then(|| FileName::parse(name)).flatten()
    }

    /// What is the same in every run: `Conv2D.LeNet_conv1_Conv2D`, and the thread of a task that has several.
    pub fn operator(&self) -> String {
        let FileName { op_type, op_name, .. } = self;
        match self.thread {
            Some(Thread { thread_id, .. }) if thread_id != NO_THREAD => {
                format!("{op_type}.{op_name}.thread{thread_id}")
            }
            _ => format!("{op_type}.{op_name}"),
        }
    }

    /// Whether the file has the state of overflow detection and not the tensors of an operator.
    pub fn is_op_debug(&self) -> bool {
        self.op_type == "Opdebug"
    }
}

/// The name of an operator as file names have it.
pub fn flat_op_name(op_name: &str) -> String {
    op_name.replace(['/', '.'], "_")
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
