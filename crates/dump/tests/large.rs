//! Dumps larger than memory should hold. They need gigabytes of disk and some time to write, so run them with:
//!
//! ```text
//! cargo test --release -p ulpscope-dump --test large -- --ignored --nocapture --test-threads 1
//! ```
//! The measure is anonymous memory (`RssAnon`), sampled while a dump is opened. Pages of the mapped file are in
//! the resident set too, but the system takes them back whenever it needs them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ulpscope_dump::{Dump, Rank, Select, journal};

/// Bytes of a `dump.json`, and lines of a `.pkl`.
const JSON_BYTES: u64 = 1_000_000_000;
const LINES: u64 = 10_000_000;

/// Maximum anonymous memory: the size of the file divided by this.
const MOST: u64 = 8;

/// Anonymous memory of this process, in bytes.
fn own_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Runs `work` on a file of that size; returns the peak of memory.
fn measured<T: Send>(what: &str, size: u64, work: impl FnOnce() -> T) -> (T, u64) {
    let before = own_memory();
    let done = AtomicBool::new(false);
    let started = Instant::now();
    let (result, peak) = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(own_memory());
                thread::sleep(Duration::from_millis(2));
            }
            peak
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, watcher.join().unwrap())
    });
    let took = started.elapsed().as_secs_f64();
    let used = peak.saturating_sub(before);
    println!(
        "{what}: {:.2} GB, {took:.2} s, {:.0} MB/s, {:.0} MB of memory",
        size as f64 / 1e9,
        size as f64 / 1e6 / took,
        used as f64 / 1e6
    );
    (result, used)
}

/// The rank in a file, and the peak of memory while it was opened.
fn open(path: &Path) -> (Rank, u64) {
    let size = fs::metadata(path).unwrap().len();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let (rank, used) = measured(&name, size, || {
        let dump = Dump::open(path, &Select::default()).unwrap();
        dump.steps[0].ranks[0].open().unwrap()
    });
    println!("{name}: {} calls", rank.calls().len());
    (rank, used)
}

#[test]
#[ignore = "writes a gigabyte"]
fn a_dump_json_of_a_gigabyte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.json");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path).unwrap());
    let tensor = "   {\n    \"type\": \"torch.Tensor\",\n    \"dtype\": \"torch.float32\",\n    \"shape\": [\n     2,\n     \
                  64,\n     320\n    ],\n    \"Max\": 1.7156932353973389,\n    \"Min\": -1.712345600128174,\n    \
                  \"Mean\": -0.0006123456789,\n    \"Norm\": 22.812345504760742,\n    \"requires_grad\": true\n   }";
    let body = format!(
        "{{\n   \"input_args\": [\n{tensor},\n{tensor}\n   ],\n   \"input_kwargs\": {{}},\n   \"output\": [\n{tensor}\n   ]\n  }}"
    );
    write!(file, "{{\n \"task\": \"statistics\",\n \"level\": \"L1\",\n \"data\": {{\n").unwrap();
    let count = JSON_BYTES / body.len() as u64;
    for call in 0..count {
        let comma = if call == 0 { "" } else { ",\n" };
        write!(file, "{comma}  \"Functional.linear.{call}.forward\": {body}").unwrap();
    }
    write!(file, "\n }}\n}}").unwrap();
    file.into_inner().unwrap();
    let (rank, used) = open(&path);
    assert_eq!(rank.calls().len() as u64, count);
    assert_eq!(rank.entries(rank.calls().len() - 1).unwrap().len(), 3);
    assert!(used < JSON_BYTES / MOST, "{used}");
}

#[test]
#[ignore = "writes more than a gigabyte"]
fn a_pkl_of_ten_million_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.pkl");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path).unwrap());
    let entries = ["input.0", "input.1", "input.2", "output"];
    let stats = "\"torch.float32\", [4, 64, 320], [1.7156932353973389, -1.712345600128174, -0.0006123456789]";
    let calls = LINES / 5;
    for call in 0..calls {
        for entry in entries {
            writeln!(file, "[\"Functional_linear_{call}_forward_{entry}\", 0, [], {stats}]").unwrap();
        }
        let frame = "[\"net.py\", \"16\", \"forward\", \"h = F.relu(self.bn(self.conv(x)))\"]";
        writeln!(file, "[\"Functional_linear_{call}_forward_stack_info\", [{frame}]]").unwrap();
    }
    file.into_inner().unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let (rank, used) = open(&path);
    assert_eq!(rank.calls().len() as u64, calls);
    let last = rank.calls().len() - 1;
    assert_eq!((rank.entries(last).unwrap().len(), rank.stack(last).unwrap().len()), (4, 1));
    assert!(used < size / MOST, "{used}");
}

#[test]
#[ignore = "writes two gigabytes"]
fn a_journal_of_a_gigabyte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path).unwrap());
    let tensor = "{\"type\":\"torch.Tensor\",\"dtype\":\"torch.float32\",\"shape\":[2,64,320],\"Max\":1.7156932353973389,\
                  \"Min\":-1.712345600128174,\"Mean\":-0.0006123456789,\"Norm\":22.812345504760742,\"requires_grad\":true}";
    writeln!(file, "{{\"ulpscope\":1,\"task\":\"statistics\",\"level\":\"mix\"}}").unwrap();
    for stack in 0..1000 {
        let frame = "File net.py, line 16, in forward, \\n h = F.relu(self.bn(self.conv(x)))";
        writeln!(file, "{{\"stack\":{stack},\"frames\":[\"{frame}\",\"{stack}\"]}}").unwrap();
    }
    let line = |call: u64| {
        let stack = call % 1000;
        format!(
            "{{\"call\":\"Functional.linear.{call}.forward\",\"id\":{call},\"stack\":{stack},\"parent\":\"Module.fc.Linear.forward.0\",\
             \"data\":{{\"input_args\":[{tensor},{tensor}],\"input_kwargs\":{{}}}}}}\n{{\"end\":{call},\"data\":{{\"output\":[{tensor}]}}}}\n"
        )
    };
    let count = JSON_BYTES / line(0).len() as u64;
    for call in 0..count {
        file.write_all(line(call).as_bytes()).unwrap();
    }
    writeln!(file, "{{\"ledger\":{{\"seen\":{count},\"recorded\":{count}}}}}").unwrap();
    file.into_inner().unwrap();
    let (rank, used) = open(&path);
    assert_eq!(rank.calls().len() as u64, count);
    let last = rank.calls().len() - 1;
    assert_eq!((rank.entries(last).unwrap().len(), rank.stack(last).unwrap().len()), (3, 2));
    // The index of the rank, that of the journal, and the doubling of both while they grow.
    assert!(used / count < 350, "{used}");
    let size = fs::metadata(&path).unwrap().len();
    let (_, used) = measured("the end of a step", size, || journal::finish(folder.path()).unwrap());
    assert!(used / count < 250, "{used}");
    assert!(!path.exists());
}
