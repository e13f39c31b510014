//! A second golden run: what differs as much in it is no finding, what differs more still is.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use ulpscope_compare::styles::ptdbg::{Ptdbg, Release};
use ulpscope_compare::{
    Known, Native, NoProgress, Progress, RankOutcome, Row, Sink, Style, compare_ranks, compare_ranks_knowing,
    pair_ranks,
};
use ulpscope_dump::{Dump, Rank, Select};

struct Forgotten;

fn knowing(noise: Option<&Rank>) -> Known<'_> {
    Known { noise, ..Known::default() }
}

impl Sink for Forgotten {
    fn columns(&mut self, _columns: &[String]) -> std::io::Result<()> {
        Ok(())
    }

    fn row(&mut self, _row: Row) -> std::io::Result<()> {
        Ok(())
    }
}

/// A run of `y = x * w; z = relu(y); i = argmax(z)`, as it was recorded.
#[derive(Clone)]
struct Run {
    weight: Vec<f32>,
    product: Vec<f32>,
    activated: Vec<f32>,
    drawn: Vec<i64>,
    has_elements: bool,
    product_name: &'static str,
}

impl Run {
    fn golden() -> Run {
        let weight: Vec<f32> = (0..COUNT).map(|at| 0.5 + ((at * 37) % 23) as f32 / 23.0).collect();
        let mut run = Run {
            weight,
            product: Vec::new(),
            activated: Vec::new(),
            drawn: (0..COUNT as i64).collect(),
            has_elements: true,
            product_name: "Torch.mul.0.forward",
        };
        run.compute();
        run
    }

    fn compute(&mut self) {
        self.product = self.weight.iter().zip(input()).map(|(weight, x)| weight * x).collect();
        self.activate();
    }

    fn activate(&mut self) {
        self.activated = self.product.iter().map(|value| value.max(0.0)).collect();
    }

    /// With a product that differs by about this much, in some elements more than in others.
    fn with_product_off(mut self, relative: f32, seed: usize) -> Run {
        move_by(&mut self.product, relative, seed);
        self.activate();
        self
    }

    /// With a weight that differs by this much, and everything computed from it.
    fn with_weight_off(mut self, relative: f32, seed: usize) -> Run {
        move_by(&mut self.weight, relative, seed);
        self.compute();
        self
    }

    fn open(&self, folder: &Path, name: &str) -> Rank {
        let dump = Dump::open(&self.write(folder, name), &Select::default()).unwrap();
        dump.steps[0].ranks[0].open().unwrap()
    }

    /// Writes it as a dump with tensors.
    fn write(&self, folder: &Path, name: &str) -> std::path::PathBuf {
        let folder = folder.join(name);
        fs::create_dir_all(folder.join("dump_tensor_data")).unwrap();
        let floats = |file: &str, values: &[f32], source: &str| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            self.tensor(&folder, file, ("<f4", "torch.float32"), bytes, Some(values), source)
        };
        let product = self.product_name;
        let text = [
            call(
                product,
                &[
                    floats("x", &input(), "outside"),
                    floats("w", &self.weight, "parameter:w"),
                    floats("b", &input(), "buffer:b"),
                ],
                &floats("y", &self.product, &format!("{product}.output.0")),
            ),
            call(
                "Functional.relu.0.forward",
                &[floats("y", &self.product, &format!("{product}.output.0"))],
                &floats("z", &self.activated, "Functional.relu.0.forward.output.0"),
            ),
            call(
                "Torch.gather.0.forward",
                &[
                    floats("z", &self.activated, "Functional.relu.0.forward.output.0"),
                    self.tensor(
                        &folder,
                        "i",
                        ("<i8", "torch.int64"),
                        self.drawn.iter().flat_map(|value| value.to_le_bytes()).collect(),
                        None,
                        "outside",
                    ),
                ],
                &floats("g", &gathered(self), "Torch.gather.0.forward.output.0"),
            ),
        ];
        let task = if self.has_elements { "tensor" } else { "statistics" };
        let text = format!(r#"{{"task":"{task}","level":"L1","data":{{{}}}}}"#, text.join(",\n"));
        let path = folder.join("dump.json");
        fs::write(&path, text).unwrap();
        path
    }

    fn tensor(
        &self,
        folder: &Path,
        file: &str,
        (npy, dtype): (&str, &str),
        bytes: Vec<u8>,
        values: Option<&[f32]>,
        source: &str,
    ) -> String {
        let mut data = format!(r#""source":"{source}""#);
        if self.has_elements {
            let header = format!("{{'descr': '{npy}', 'fortran_order': False, 'shape': ({COUNT},), }}");
            let header = format!("{header:<117}\n");
            let mut whole = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
            whole.extend(header.as_bytes());
            whole.extend(bytes);
            fs::write(folder.join("dump_tensor_data").join(format!("{file}.npy")), whole).unwrap();
            data += &format!(r#","data_name":"{file}.npy""#);
        }
        let stats = values.map_or_else(
            || r#""Max":1,"Min":0,"Mean":0,"Norm":1"#.to_owned(),
            |values| {
                let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
                let mean = values.iter().sum::<f64>() / COUNT as f64;
                let max = values.iter().copied().fold(f64::MIN, f64::max);
                let min = values.iter().copied().fold(f64::MAX, f64::min);
                format!(r#""Max":{max},"Min":{min},"Mean":{mean},"Norm":{norm}"#)
            },
        );
        format!(
            r#"{{"type":"torch.Tensor","dtype":"{dtype}","shape":[{COUNT}],{stats},"requires_grad":false,{data}}}"#
        )
    }
}

const COUNT: usize = 64;

fn input() -> Vec<f32> {
    (0..COUNT).map(|at| ((at * 29) % 31) as f32 / 16.0 - 0.75).collect()
}

fn gathered(run: &Run) -> Vec<f32> {
    run.drawn.iter().map(|&at| run.activated[at as usize]).collect()
}

/// Moves every element by up to `relative` of itself, up or down as the seed says.
fn move_by(values: &mut [f32], relative: f32, seed: usize) {
    for (at, value) in values.iter_mut().enumerate() {
        let share = ((at * 7919 + seed * 104_729) % 997) as f32 / 498.0 - 1.0;
        *value *= 1.0 + relative * share;
    }
}

fn call(name: &str, inputs: &[String], output: &str) -> String {
    format!(r#""{name}":{{"input_args":[{}],"input_kwargs":{{}},"output":[{output}]}}"#, inputs.join(","))
}

fn compare(target: &Run, noise: Option<&Run>) -> RankOutcome {
    let scratch = TempDir::new().unwrap();
    let folder = scratch.path();
    let target = target.open(folder, "target");
    let golden = Run::golden().open(folder, "golden");
    let noise = noise.map(|noise| noise.open(folder, "noise"));
    let style = Native::default();
    compare_ranks_knowing(&style, &target, &golden, knowing(noise.as_ref()), &mut Forgotten, &NoProgress)
        .unwrap()
}

/// Kind and call of everything that was found.
fn findings(outcome: &RankOutcome) -> Vec<(&'static str, String)> {
    outcome.divergences.iter().map(|one| (one.finding.kind.words(), one.call.clone())).collect()
}

fn at_the_product(kind: &'static str) -> Vec<(&'static str, String)> {
    vec![(kind, "Torch.mul.0.forward".to_owned())]
}

#[test]
fn a_difference_that_a_second_golden_run_has_too_is_no_finding() {
    let target = Run::golden().with_product_off(1e-3, 1);
    let without = compare(&target, None);
    assert_eq!(findings(&without), at_the_product("diverged here"));
    assert!(without.notes.iter().all(|note| !note.to_string().contains("noise")), "{:?}", without.notes);

    let with = compare(&target, Some(&Run::golden().with_product_off(1e-3, 2)));
    assert_eq!(findings(&with), []);
    assert_eq!(with.counts.failed, 0);
    assert!(with.problems.is_empty(), "{:?}", with.problems);
    let note = with.notes.iter().find(|note| note.to_string().contains("noise floor")).unwrap();
    assert!(note.to_string().contains("at 3 of 3 calls"), "{note}");
}

#[test]
fn a_fault_above_the_measured_noise_is_found_and_compared_with_it() {
    let noise = Run::golden().with_product_off(1e-4, 2);
    let fault = Run::golden().with_product_off(0.1, 1);
    let outcome = compare(&fault, Some(&noise));
    assert_eq!(findings(&outcome), at_the_product("diverged here"));
    let measure = outcome.divergences[0].finding.measure.unwrap();
    // A uniform share of up to 1e-4 is 0.58e-4 in the mean square, and twice that is allowed for.
    assert!((1.0e-4..1.3e-4).contains(&measure.floor), "{measure:?}");
    let without = compare(&fault, None).divergences[0].finding.measure.unwrap();
    assert!(10.0 * without.floor < measure.floor, "{without:?}");
}

#[test]
fn noise_at_one_call_allows_for_nothing_at_another() {
    let noise = Run::golden().with_product_off(1e-3, 2);
    let mut target = Run::golden().with_product_off(1e-3, 1);
    target.activated.iter_mut().step_by(2).for_each(|value| *value *= 1.5);
    let outcome = compare(&target, Some(&noise));
    assert_eq!(findings(&outcome), [("diverged here", "Functional.relu.0.forward".to_owned())]);
}

#[test]
fn an_origin_that_differs_as_much_in_the_noise_is_no_finding() {
    let target = Run::golden().with_weight_off(1e-3, 1);
    assert_eq!(findings(&compare(&target, None)), at_the_product("origin differs"));
    let noise = Run::golden().with_weight_off(1e-3, 2);
    assert_eq!(findings(&compare(&target, Some(&noise))), []);

    let further = Run::golden().with_weight_off(1e-2, 1);
    let outcome = compare(&further, Some(&noise));
    assert_eq!(findings(&outcome), at_the_product("origin differs"));
    let measure = outcome.divergences[0].finding.measure.unwrap();
    assert!((1.0e-3..1.3e-3).contains(&measure.floor), "{measure:?}");
}

#[test]
fn one_weight_that_is_wrong_is_found_above_the_noise_of_all() {
    let noise = Run::golden().with_weight_off(1e-5, 2);
    let mut target = Run::golden().with_weight_off(1e-5, 1);
    target.weight[17] *= 1.05;
    target.compute();
    assert_eq!(findings(&compare(&target, Some(&noise))), at_the_product("origin differs"));
}

#[test]
fn a_draw_that_differs_in_every_run_is_no_finding() {
    let mut target = Run::golden();
    target.drawn.rotate_left(3);
    let found = findings(&compare(&target, None));
    assert_eq!(found, [("origin differs", "Torch.gather.0.forward".to_owned())]);
    let mut noise = Run::golden();
    noise.drawn.rotate_left(5);
    assert_eq!(findings(&compare(&target, Some(&noise))), []);
}

#[test]
fn statistics_measure_noise_as_well() {
    let mut target = Run::golden().with_product_off(1e-2, 1);
    let mut noise = Run::golden().with_product_off(1e-2, 2);
    noise.has_elements = false;
    let outcome = compare(&target, Some(&noise));
    assert_eq!(findings(&outcome), []);
    assert!(
        outcome.notes.iter().any(|note| note.to_string().contains("by statistics only")),
        "{:?}",
        outcome.notes
    );
    target = Run::golden().with_product_off(0.9, 1);
    assert_eq!(findings(&compare(&target, Some(&noise))), at_the_product("diverged here"));
}

#[test]
fn a_noise_dump_of_a_different_program_is_a_problem() {
    let scratch = TempDir::new().unwrap();
    let target = Run::golden().with_product_off(1e-3, 1).open(scratch.path(), "target");
    let golden = Run::golden().open(scratch.path(), "golden");
    fs::create_dir(scratch.path().join("other")).unwrap();
    let path = scratch.path().join("other/dump.json");
    let entry =
        r#"{"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":1,"Min":0,"Mean":0.5,"Norm":1}"#;
    let text = format!(r#"{{"task":"statistics","data":{{{}}}}}"#, call("Torch.fft.0.forward", &[], entry));
    fs::write(&path, text).unwrap();
    let other = Dump::open(&path, &Select::default()).unwrap().steps[0].ranks[0].open().unwrap();
    let style = Native::default();
    let outcome =
        compare_ranks_knowing(&style, &target, &golden, knowing(Some(&other)), &mut Forgotten, &NoProgress)
            .unwrap();
    assert_eq!(findings(&outcome), at_the_product("diverged here"));
    let problems = outcome.problems.listed();
    assert!(problems.iter().any(|one| one.contains("nothing of the noise dump")), "{problems:?}");
}

#[test]
fn a_noise_dump_that_measures_nothing_is_reported() {
    let target = Run::golden().with_product_off(1e-3, 1);
    let equal = compare(&target, Some(&Run::golden()));
    assert_eq!(findings(&equal), at_the_product("diverged here"));
    assert!(equal.notes.iter().any(|note| note.to_string().contains("bit for bit")), "{:?}", equal.notes);

    let mut other = Run::golden();
    other.weight.iter_mut().for_each(|value| *value = -*value);
    other.compute();
    let drowned = compare(&target, Some(&other));
    let note = drowned
        .notes
        .iter()
        .find(|note| note.to_string().contains("cannot be distinguished from noise"))
        .unwrap();
    assert!(
        note.to_string().contains("3 calls") && note.to_string().contains("same weights and data"),
        "{note}"
    );

    // What cancels out in one call says nothing of weights and data.
    let mut noisy = Run::golden();
    noisy.drawn.reverse();
    let few = compare(&target, Some(&noisy));
    let note = few
        .notes
        .iter()
        .find(|note| note.to_string().contains("cannot be distinguished from noise"))
        .unwrap();
    assert!(
        note.to_string().contains("1 calls") && !note.to_string().contains("same weights and data"),
        "{note}"
    );
}

#[test]
fn a_tensor_of_the_noise_dump_that_cannot_be_read_is_reported() {
    let scratch = TempDir::new().unwrap();
    let target = Run::golden().open(scratch.path(), "target");
    let golden = Run::golden().open(scratch.path(), "golden");
    let noise = Run::golden().with_product_off(1e-3, 2).open(scratch.path(), "noise");
    fs::remove_file(scratch.path().join("noise/dump_tensor_data/y.npy")).unwrap();
    let style = Native::default();
    let outcome =
        compare_ranks_knowing(&style, &target, &golden, knowing(Some(&noise)), &mut Forgotten, &NoProgress)
            .unwrap();
    assert_eq!(findings(&outcome), []);
    let problems = outcome.problems.listed();
    assert!(problems.iter().any(|one| one.starts_with("--noise: ") && one.contains("y.npy")), "{problems:?}");
}

#[test]
fn the_older_styles_refuse() {
    let scratch = TempDir::new().unwrap();
    let rank = Run::golden().open(scratch.path(), "golden");
    let style = Ptdbg { release: Release::V6, fuzzy: false };
    let refused =
        compare_ranks_knowing(&style, &rank, &rank, knowing(Some(&rank)), &mut Forgotten, &NoProgress);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("--noise is for the native style"), "{message}");
}

#[test]
fn each_rank_gets_the_noise_of_its_own_golden() {
    let scratch = TempDir::new().unwrap();
    let write = |name: &str, ranks: &[&str]| {
        for rank in ranks {
            Run::golden().write(scratch.path(), &format!("{name}/step0/{rank}"));
        }
        Dump::open(&scratch.path().join(name), &Select::default()).unwrap()
    };
    let (target, golden) = (write("t", &["rank0", "rank1"]), write("g", &["rank0", "rank1"]));
    let noise = write("n", &["rank1", "rank2"]);
    let mut pairs = pair_ranks(&target, &golden);
    let without = pairs.with_noise(&noise, &golden);
    let partners: Vec<Option<&str>> =
        pairs.pairs.iter().map(|pair| pair.noise.map(|rank| rank.name.as_str())).collect();
    assert_eq!(partners, [None, Some("rank1")]);
    assert_eq!(without.len(), 1);
    assert!(without[0].contains("step0/rank0"), "{without:?}");
}

#[test]
fn progress_counts_the_noise() {
    #[derive(Default)]
    struct Counted(std::sync::Mutex<[u64; 2]>);
    impl Progress for Counted {
        fn start(&self, units: u64) {
            self.0.lock().unwrap()[0] += units;
        }
        fn advance(&self, _bytes: u64) {
            self.0.lock().unwrap()[1] += 1;
        }
    }
    let scratch = TempDir::new().unwrap();
    let rank = Run::golden().open(scratch.path(), "golden");
    let style: &dyn Style = &Native::default();
    let (alone, with) = (Counted::default(), Counted::default());
    compare_ranks(style, &rank, &rank, &mut Forgotten, &alone).unwrap();
    compare_ranks_knowing(style, &rank, &rank, knowing(Some(&rank)), &mut Forgotten, &with).unwrap();
    assert_eq!(*alone.0.lock().unwrap(), [3, 3]);
    assert_eq!(*with.0.lock().unwrap(), [6, 6]);
}
