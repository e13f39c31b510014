//! The most memory that a run of the command had at once.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a run left, and its largest resident set in bytes.
pub struct Peak {
    pub code: i32,
    pub out_bytes: u64,
    pub err: String,
    pub memory: u64,
}

/// Runs the command to its end. What it prints is counted, not kept.
///
/// The system's own record of a child that has ended counts the memory of whoever started it, too; its high-water
/// mark, which only rises, is looked at while the child runs.
pub fn run(mut command: Command) -> Peak {
    // Each thread has a stack and an arena of its own: the same few on every machine.
    let mut child =
        command.env("RAYON_NUM_THREADS", "2").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut err = child.stderr.take().unwrap();
    let counted = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()).unwrap());
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        err.read_to_string(&mut text).unwrap();
        text
    });
    let record = format!("/proc/{}/status", child.id());
    let mut memory = 0;
    let status = loop {
        memory = memory.max(high_water_mark(&record).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(memory > 0, "{record} was never readable");
    let (out_bytes, err) = (counted.join().unwrap(), said.join().unwrap());
    Peak { code: status.code().unwrap(), out_bytes, err, memory }
}

fn high_water_mark(record: &str) -> Option<u64> {
    let text = std::fs::read_to_string(record).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
