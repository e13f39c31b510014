//! Progress on standard error, for people who wait.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ulpscope_report::is_dumb;

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

/// How often a line is printed if no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A bar that appears after the work has taken a second, and disappears at its end. It is never drawn if standard error
/// is not a terminal; on a terminal without cursor movement, a line is printed now and then.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Dropping it ends the thread that shows the bar.
    done: Option<Sender<()>>,
    waiter: Option<JoinHandle<()>>,
}

impl Progress {
    /// Work of `steps` countable steps.
    pub(crate) fn of_steps(what: &'static str, steps: usize) -> Progress {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
        Progress::start(what, Some(steps as u64), style)
    }

    /// Work of unknown length.
    pub(crate) fn of_one(what: &'static str) -> Progress {
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        Progress::start(what, None, style)
    }

    /// Calls to compare; their number becomes known as ranks are opened.
    pub(crate) fn of_calls(what: &'static str) -> Progress {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} calls {prefix} {eta} left");
        Progress::start(what, Some(0), style)
    }

    /// There is more to do.
    pub(crate) fn more(&self, steps: u64) {
        self.bar.inc_length(steps);
    }

    /// One step is done; `bytes` is the total so far.
    pub(crate) fn step_with_bytes(&self, bytes: u64) {
        self.bar.inc(1);
        let seconds = self.bar.elapsed().as_secs_f64();
        if bytes > 0 && !self.bar.is_hidden() && seconds > 0.0 {
            self.bar.set_prefix(format!("{:.2} GB/s", bytes as f64 / 1e9 / seconds));
        }
    }

    fn start(
        what: &'static str,
        steps: Option<u64>,
        style: Result<ProgressStyle, indicatif::style::TemplateError>,
    ) -> Progress {
        let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::hidden()).with_message(what);
        if let Ok(style) = style {
            bar.set_style(style);
        }
        let (done, waiting) = channel();
        let shown = bar.clone();
        Progress { bar, done: Some(done), waiter: Some(std::thread::spawn(move || show(&shown, &waiting))) }
    }

    /// One step is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

fn show(bar: &ProgressBar, waiting: &Receiver<()>) {
    if waiting.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    if !is_dumb(|name| std::env::var_os(name)) {
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
    } else if std::io::stderr().is_terminal() {
        while waiting.recv_timeout(LINE_EVERY) == Err(RecvTimeoutError::Timeout) {
            let of = bar.length().map_or_else(String::new, |length| format!(" of {length}"));
            let seconds = bar.elapsed().as_secs();
            // A write error does not stop the work.
            let _ =
                writeln!(std::io::stderr(), "{}: {}{of} after {seconds} s", bar.message(), bar.position());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.take();
        if let Some(waiter) = self.waiter.take() {
            // A failure of the thread affects only the bar.
            let _ = waiter.join();
        }
        self.bar.finish_and_clear();
    }
}
