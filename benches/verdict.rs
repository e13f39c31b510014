//! The cost of the verdict within one comparison: its share of the time.
//!
//! [`verdict_workload`] makes pairs of dumps. The comparison opens two dumps and writes a csv as the command does.
//! It uses a style that passes everything on to the native one and measures the time. Statistics without tensors
//! are the worst case for the share: only text is read. For each case the round with the median total is reported.
//! `ULPSCOPE_BENCH_CALLS` sets the number of calls (default 100,000), and an argument selects the cases that
//! contain it.

#![allow(missing_docs, clippy::print_stdout)]

mod verdict_workload;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ulpscope_compare::{
    Conclusions, Judged, Native, NoProgress, Plan, RankOutcome, Row, Sink, Style, compare_ranks,
};
use ulpscope_dump::{Dump, Error, Rank, Select};
use ulpscope_report::Row as SheetRow;
use ulpscope_report::csv::CsvWriter;
use verdict_workload::{CALLS_PER_LAYER, Run, record_network, record_optimizer};

const ROUNDS: usize = 5;

/// With tensors, a fortieth of the calls is enough: reading them takes longer than anything else.
const FEWER_WITH_TENSORS: usize = 40;

/// How many tensors one call of an optimizer updates; some of the largest networks have as many parameters.
const LIST: usize = 2_000;

/// The native style with time measurement.
#[derive(Default)]
struct Timed {
    native: Native,
    clock: Clock,
}

#[derive(Default)]
struct Clock {
    pairing: OnceLock<Duration>,
    /// When [`Plan::conclude`] began.
    judged: OnceLock<Instant>,
    conclude: OnceLock<Duration>,
    settle_ns: AtomicU64,
}

struct TimedPlan<'a> {
    plan: Box<dyn Plan + 'a>,
    clock: &'a Clock,
}

impl Style for Timed {
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error> {
        let start = Instant::now();
        let plan = self.native.plan(target, golden)?;
        let _ = self.clock.pairing.set(start.elapsed());
        Ok(Box::new(TimedPlan { plan, clock: &self.clock }))
    }

    fn advice(&self, first_failing: Option<(u64, &str)>) -> Option<String> {
        self.native.advice(first_failing)
    }
}

impl Plan for TimedPlan<'_> {
    fn columns(&self) -> Vec<String> {
        self.plan.columns()
    }

    fn units(&self) -> usize {
        self.plan.units()
    }

    fn judge(&self, unit: usize) -> Judged {
        self.plan.judge(unit)
    }

    fn has_hindsight(&self) -> bool {
        self.plan.has_hindsight()
    }

    fn conclude<'p>(self: Box<Self>) -> Conclusions<'p>
    where
        Self: 'p,
    {
        let TimedPlan { plan, clock } = *self;
        let start = Instant::now();
        let conclusions = plan.conclude();
        let _ = clock.judged.set(start);
        let _ = clock.conclude.set(start.elapsed());
        let settle = conclusions.settle;
        let timed = move |unit, judged: &mut Judged| {
            let start = Instant::now();
            settle(unit, judged);
            clock.settle_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        };
        Conclusions { settle: Box::new(timed), ..conclusions }
    }
}

/// A csv, as the command writes it.
struct Sheet {
    path: PathBuf,
    csv: Option<CsvWriter<File>>,
}

impl Sink for Sheet {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        self.csv = Some(CsvWriter::new(File::create(&self.path)?, columns)?);
        Ok(())
    }

    fn row(&mut self, row: Row) -> io::Result<()> {
        let row = SheetRow { cells: row.cells, emphasis: row.emphasis };
        self.csv.as_mut().map_or(Ok(()), |csv| csv.row(&row))
    }
}

/// Seconds of one comparison, in order.
#[derive(Clone, Copy)]
struct Phases {
    open: f64,
    pair: f64,
    measure: f64,
    conclude: f64,
    settle: f64,
    rows: f64,
}

impl Phases {
    fn verdict(&self) -> f64 {
        self.conclude + self.settle
    }

    fn total(&self) -> f64 {
        self.open + self.pair + self.measure + self.verdict() + self.rows
    }
}

fn compare(target: &Path, golden: &Path, sheet: &Path) -> (Phases, RankOutcome) {
    let start = Instant::now();
    let open = |path: &Path| {
        let dump = Dump::open(path, &Select::default()).expect("the dump was just made");
        dump.steps[0].ranks[0].open().expect("the dump was just made")
    };
    let (target, golden) = (open(target), open(golden));
    let opened = Instant::now();
    let style = Timed::default();
    let mut sink = Sheet { path: sheet.to_owned(), csv: None };
    let outcome = compare_ranks(&style, &target, &golden, &mut sink, &NoProgress).expect("compared");
    sink.csv.take().map(CsvWriter::finish).transpose().expect("written");
    let end = Instant::now();
    let pair = style.clock.pairing.get().copied().unwrap_or_default();
    let concluding = *style.clock.judged.get().expect("a native comparison concludes");
    let conclude = style.clock.conclude.get().copied().unwrap_or_default();
    let settle = Duration::from_nanos(style.clock.settle_ns.load(Ordering::Relaxed));
    let phases = Phases {
        open: (opened - start).as_secs_f64(),
        pair: pair.as_secs_f64(),
        measure: (concluding - opened - pair).as_secs_f64(),
        conclude: conclude.as_secs_f64(),
        settle: settle.as_secs_f64(),
        rows: (end - concluding - conclude - settle).as_secs_f64(),
    };
    (phases, outcome)
}

fn main() {
    let wanted = std::env::var("ULPSCOPE_BENCH_CALLS").ok().and_then(|text| text.parse().ok());
    let wanted: usize = wanted.unwrap_or(100_000);
    let statistics = Run {
        size: (wanted / CALLS_PER_LAYER).max(4),
        has_elements: false,
        names_makers: true,
        is_golden: false,
        fault: None,
        is_port: false,
    };
    let tensors = Run {
        size: (wanted / CALLS_PER_LAYER / FEWER_WITH_TENSORS).max(4),
        has_elements: true,
        ..statistics
    };
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let faulty = |run: Run| Run { fault: Some(run.size / 4), ..run };
    let unnamed = Run { names_makers: false, ..statistics };
    let port = Run { is_port: true, ..statistics };
    println!(
        "seconds, of {ROUNDS} rounds that with the median total; csv written; verdict = conclude + settle"
    );
    println!(
        "{:<28} {:>7} {:>7} {:>6} {:>6} {:>7} {:>8} {:>6} {:>6} {:>6}  verdict  share",
        "case", "calls", "rows", "open", "pair", "measure", "conclude", "settle", "rows", "total"
    );
    let cases = [
        ("statistics, healthy", statistics),
        ("statistics, fault", faulty(statistics)),
        ("unnamed makers, healthy", unnamed),
        ("unnamed makers, fault", faulty(unnamed)),
        ("two programs, healthy", port),
        ("two programs, fault", faulty(port)),
        ("tensors, healthy", tensors),
        ("tensors, fault", faulty(tensors)),
        ("lists of tensors, healthy", Run { size: LIST, ..statistics }),
    ];
    for (name, run) in cases.into_iter().filter(|(name, _)| name.contains(&only)) {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let [target, golden] = ["target", "golden"].map(|side| scratch.path().join(side));
        let record = if name.starts_with("lists") { record_optimizer } else { record_network };
        let calls = record(run, &target);
        record(Run { is_golden: true, ..run }, &golden);
        let sheet = scratch.path().join("result.csv");
        let mut rounds: Vec<(Phases, RankOutcome)> =
            (0..ROUNDS).map(|_| compare(&target, &golden, &sheet)).collect();
        rounds.sort_by(|(one, _), (other, _)| one.total().total_cmp(&other.total()));
        let (phases, outcome) = &rounds[ROUNDS / 2];
        println!(
            "{name:<28} {calls:>7} {:>7} {:>6.2} {:>6.2} {:>7.2} {:>8.3} {:>6.3} {:>6.2} {:>6.2}  {:>7.3} {:>5.1} %",
            outcome.counts.rows,
            phases.open,
            phases.pair,
            phases.measure,
            phases.conclude,
            phases.settle,
            phases.rows,
            phases.total(),
            phases.verdict(),
            100.0 * phases.verdict() / phases.total()
        );
        // A wrong verdict does not count, however fast it was.
        let planted = run.fault.map(|layer| format!("Functional.linear.{}.forward", 2 * layer));
        let found = outcome.first_divergence().map(|divergence| divergence.call.clone());
        assert_eq!(found, planted, "{name}: {:?}", outcome.divergences);
        let inherited = outcome.first_divergence().map_or(0, |divergence| divergence.finding.downstream);
        // Where two programs part, nothing is known to inherit it.
        assert!(
            run.fault.is_none() || run.is_port || 2 * inherited > calls as u64,
            "{name}: only {inherited} inherited it"
        );
    }
}
