//! How far apart two entries are, by whatever both sides have: elements, statistics, digests, plain values.

use ulpscope_dump::{Content, Data, Entry, Rank, TensorEntry, Tool};
use ulpscope_formats::Tensor;
use ulpscope_formats::json::Json;
use ulpscope_kernels::{Comparison, Rest, SUMMARY_KEYS, Stats, Threads, Tolerance, errors, stats};
use ulpscope_tensor::DType;

use crate::fact::{Fact, Statistics};
use crate::reading;

use crate::native::evidence::sentinels::without_sentinels;
use crate::native::evidence::values::compare_values;
use crate::native::expectation::dtype_tolerance::limit;
use crate::native::thresholds::evidence::{OF_ORDER, UNRELATED};
use crate::native::thresholds::expect::ELEMENT_SPREAD;

/// What a pair was compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::native) enum Basis {
    /// Every element.
    Elements,
    /// Max, min, mean and norm.
    Statistics,
    /// A hash of the bytes.
    Digest,
    /// The value itself.
    Value,
    /// Nothing that both sides have.
    Nothing,
}

impl Basis {
    pub(in crate::native) fn word(self) -> &'static str {
        match self {
            Basis::Elements => "elements",
            Basis::Statistics => "statistics",
            Basis::Digest => "digest",
            Basis::Value => "value",
            Basis::Nothing => "nothing",
        }
    }
}

/// Max, min, mean and norm; nothing where not recorded.
pub(in crate::native) type Numbers = Statistics;

/// What was measured on a pair.
#[derive(Debug)]
pub(in crate::native) struct Measured {
    pub(in crate::native) basis: Basis,
    /// By elements.
    pub(in crate::native) comparison: Option<Box<Comparison>>,
    /// By elements, without sentinels; nothing where there are none.
    pub(in crate::native) rest: Option<Rest>,
    /// Statistics of either side.
    pub(in crate::native) target: Numbers,
    pub(in crate::native) golden: Numbers,
    /// Bytes of elements read, both sides counted.
    pub(in crate::native) bytes: u64,
    /// The limit of the pair's dtypes; nothing, where they have none.
    pub(in crate::native) limit: f64,
    /// What decides the verdict.
    pub(in crate::native) state: State,
    /// Another shape of as many elements, which were compared in order.
    pub(in crate::native) reshaped: Option<[Vec<u64>; 2]>,
    /// What could not be read, with file and place.
    pub(in crate::native) problems: Vec<String>,
}

/// How two entries are related, before it is judged.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::native) enum State {
    /// The same, bit by bit or as recorded.
    Equal,
    /// Numbers that are not the same.
    Apart,
    /// Exact values that are not the same: in what.
    Differs(Fact),
    /// Not to be laid over each other: why.
    Unlike(Fact),
    /// NaN or infinite on one side only; how many elements.
    NonFinite(u64),
    /// NaN at the same places on both sides, and all else equal; how many elements.
    BothNan(u64),
    /// Nothing to compare: why.
    Unknown(Fact),
    /// Nothing to compare, and rightly so: memory that nothing was written to, on both sides.
    Blank,
}

/// Measures two entries.
pub(in crate::native) fn measure(target: (&Rank, &Entry), golden: (&Rank, &Entry)) -> Measured {
    match (&target.1.content, &golden.1.content) {
        (Content::Tensor(one), Content::Tensor(other)) => measure_tensors((target.0, one), (golden.0, other)),
        (one, other) => Measured { basis: Basis::Value, ..Measured::of(compare_values(one, other)) },
    }
}

impl Measured {
    /// Whether nothing can be said of a tensor that should have been judged.
    pub(in crate::native) fn is_undecided(&self, entry: &Entry) -> bool {
        let is_tensor = matches!(entry.content, Content::Tensor(_));
        is_tensor && matches!(self.state, State::BothNan(_) | State::Unknown(_))
    }

    fn of(state: State) -> Measured {
        Measured {
            basis: Basis::Nothing,
            comparison: None,
            rest: None,
            target: [None; 4],
            golden: [None; 4],
            bytes: 0,
            limit: 0.0,
            state,
            reshaped: None,
            problems: Vec::new(),
        }
    }
}

fn measure_tensors(target: (&Rank, &TensorEntry), golden: (&Rank, &TensorEntry)) -> Measured {
    let mut measured = Measured::of(State::Equal);
    let dtypes = (target.1.dtype(), golden.1.dtype());
    measured.limit = dtypes.0.zip(dtypes.1).map_or(0.0, |(one, other)| limit(one, other));
    measured.target = recorded(target.1);
    measured.golden = recorded(golden.1);
    for (rank, entry) in [target, golden] {
        measured.problems.extend(nonsense(rank, entry));
    }
    let mut load = |(rank, entry): (&Rank, &TensorEntry)| match rank.tensor(entry) {
        Ok(tensor) => tensor,
        Err(error) => {
            measured.problems.push(error.to_string());
            None
        }
    };
    // A refused or missing file is a problem whether or not the other side has one.
    let tensors = (load(target), load(golden));
    if let (Some(one), Some(other)) = &tensors {
        measured.basis = Basis::Elements;
        measured.compare_elements((one, other));
        return measured;
    }
    if let (Some(one), Some(other)) = (&target.1.shape, &golden.1.shape)
        && one != other
    {
        // Statistics of a transposed tensor are those of the tensor, and would hide it.
        if target.1.count() != golden.1.count() || is_permuted(one, other) {
            measured.state = State::Unlike(Fact::Shapes { target: one.clone(), golden: other.clone() });
            return measured;
        }
        measured.reshaped = Some([one.clone(), other.clone()]);
    }
    // Files without statistics beside them still have some.
    let computed = |numbers: Numbers, tensor: &Option<Tensor>| match tensor {
        Some(tensor) if numbers == [None; 4] => numbers_of(&stats(&tensor.view(), Threads::One)),
        _ => numbers,
    };
    measured.target = computed(measured.target, &tensors.0);
    measured.golden = computed(measured.golden, &tensors.1);
    if let (Some(one), Some(other)) = (&target.1.digest, &golden.1.digest)
        && one.len() == other.len()
        && target.1.dtype == golden.1.dtype
    {
        measured.basis = Basis::Digest;
        measured.state =
            match (one == other, measured.target == [None; 4], measured.target == measured.golden) {
                (true, ..) => State::Equal,
                (false, true, _) => State::Differs(Fact::DigestsDiffer),
                (false, false, true) => State::Unknown(Fact::OnlyDigestsDiffer),
                (false, false, false) => return measured.by_statistics(dtypes),
            };
        return measured;
    }
    let (one, other) = (measured.target, measured.golden);
    if one == [None; 4] || other == [None; 4] {
        let empty = |entry: &TensorEntry| entry.count() == Some(0);
        measured.state = if empty(target.1) && empty(golden.1) {
            State::Equal
        } else if target.1.is_blank && golden.1.is_blank {
            State::Blank
        } else {
            State::Unknown(Fact::NothingInCommon)
        };
        return measured;
    }
    measured.by_statistics(dtypes)
}

/// Whether two different shapes have the same dimensions in another order.
fn is_permuted(one: &[u64], other: &[u64]) -> bool {
    let sorted = |dims: &[u64]| {
        let mut dims = dims.to_vec();
        dims.sort_unstable();
        dims
    };
    sorted(one) == sorted(other)
}

/// What a description of a tensor says that it cannot mean. Older tools than msprobe have words for missing numbers.
fn nonsense(rank: &Rank, entry: &TensorEntry) -> Vec<String> {
    if !matches!(rank.tool, Tool::Msprobe | Tool::Ulpscope) {
        return Vec::new();
    }
    let place = rank.path.display();
    let names = SUMMARY_KEYS.into_iter().zip(&entry.stats);
    let wrong = names.filter(|(_, stat)| matches!(stat, Json::Str(_) | Json::List(_) | Json::Object(_)));
    let mut found: Vec<String> = wrong
        .map(|(name, stat)| {
            format!("{place}: expected a number as a tensor's {name}, found {}", stat.describe())
        })
        .collect();
    if entry.shape.is_none() {
        found.push(format!("{place}: expected a list of sizes as a tensor's shape, found something else"));
    }
    found
}

impl Measured {
    fn by_statistics(mut self, dtypes: (Option<DType>, Option<DType>)) -> Measured {
        self.basis = Basis::Statistics;
        if dtypes.0.is_none() || dtypes.1.is_none() {
            // A dtype we cannot read is taken for the commonest: its statistics are numbers like any other.
            self.limit = limit(DType::F32, DType::F32);
        }
        self.state = compare_statistics(&self.target, &self.golden, self.limit);
        self
    }

    fn compare_elements(&mut self, tensors: (&Tensor, &Tensor)) {
        let (target, golden) = (tensors.0.view(), tensors.1.view());
        // Older tools write bfloat16 as float32 files: what the dump says of the dtype counts too.
        let limit = limit(target.dtype(), golden.dtype()).max(self.limit);
        self.limit = limit;
        let tolerance = Tolerance { atol: 0.0, rtol: ELEMENT_SPREAD.get() * limit };
        self.bytes = reading::bytes(tensors.0, tensors.1);
        let measured =
            reading::read(tensors.0, tensors.1, |reading| errors(&target, &golden, tolerance, reading));
        match measured {
            Ok(comparison) => {
                self.state = relation(&comparison, limit);
                if limit > 0.0 {
                    self.rest = without_sentinels(tensors, [&self.target, &self.golden], &comparison);
                }
                self.comparison = Some(Box::new(comparison));
            }
            Err(mismatch) => {
                let shapes = [mismatch.target, mismatch.golden]
                    .map(|shape| shape.into_iter().map(|size| size as u64).collect::<Vec<u64>>());
                let same_count = target.len() == golden.len();
                match (same_count.then(|| tensors.0.flattened()).flatten(), tensors.1.flattened()) {
                    (Some(one), Some(other)) => {
                        self.compare_elements((&one, &other));
                        let distance = self.comparison.as_ref().map_or(0.0, |found| found.distances.rel_l2);
                        let [target, golden] = shapes;
                        if is_permuted(&target, &golden) && distance > UNRELATED.get() {
                            self.comparison = None;
                            self.rest = None;
                            self.state = State::Unlike(Fact::Shapes { target, golden });
                        } else {
                            self.reshaped = Some([target, golden]);
                        }
                    }
                    _ => {
                        let [target, golden] = shapes;
                        self.state = State::Unlike(Fact::Shapes { target, golden });
                    }
                }
            }
        }
    }
}

fn relation(comparison: &Comparison, limit: f64) -> State {
    let distances = &comparison.distances;
    let non_finite = &distances.non_finite;
    if non_finite.mismatched > 0 {
        return State::NonFinite(non_finite.mismatched);
    }
    if distances.max_abs > 0.0 && limit == 0.0 {
        let (differ, of) = (comparison.over_tolerance, distances.count);
        return State::Differs(Fact::ElementsDiffer { differ, of, distance: distances.rel_l2 });
    }
    match distances.max_abs > 0.0 {
        true => State::Apart,
        // Infinities at the same places are values like any other: a mask of attention is full of them. NaN is not.
        false if non_finite.both_nan > 0 => State::BothNan(non_finite.both_nan),
        false => State::Equal,
    }
}

/// Whether statistics differ by the order of their sums alone.
fn differ_by_order(target: &Numbers, golden: &Numbers) -> bool {
    let (
        [Some(max), Some(min), Some(mean), Some(norm)],
        [other_max, other_min, Some(other_mean), Some(other_norm)],
    ) = (*target, *golden)
    else {
        return false;
    };
    let largest = max.abs().max(min.abs());
    other_max == Some(max)
        && other_min == Some(min)
        && (mean - other_mean).abs() <= OF_ORDER.get() * largest
        && (norm - other_norm).abs() <= OF_ORDER.get() * norm
}

/// By max, min, mean and norm.
fn compare_statistics(target: &Numbers, golden: &Numbers, limit: f64) -> State {
    let has_nan = |numbers: &Numbers| numbers.iter().flatten().any(|number| number.is_nan());
    match (has_nan(target), has_nan(golden)) {
        (true, true) => return State::BothNan(0),
        (true, false) | (false, true) => return State::NonFinite(0),
        (false, false) => {}
    }
    if target == golden || differ_by_order(target, golden) {
        return State::Equal;
    }
    if limit == 0.0 {
        return State::Differs(Fact::Statistics { target: *target, golden: *golden });
    }
    let infinite = |numbers: &Numbers| numbers.map(|number| number.filter(|number| number.is_infinite()));
    if infinite(target) != infinite(golden) {
        return State::NonFinite(0);
    }
    State::Apart
}

/// The statistics a dump recorded, as numbers.
pub(crate) fn recorded(entry: &TensorEntry) -> Numbers {
    let number = |json: &Json| match json {
        Json::Bool(flag) => Some(f64::from(u8::from(*flag))),
        json => json.as_f64(),
    };
    match &entry.data {
        // Samples end in max, min and mean.
        Data::Sample(values) if values.len() >= 3 => {
            let [max, min, mean] = std::array::from_fn(|stat| Some(values[values.len() - 3 + stat]));
            [max, min, mean, None]
        }
        _ => std::array::from_fn(|stat| number(&entry.stats[stat])),
    }
}

pub(crate) fn numbers_of(stats: &Stats) -> Numbers {
    let extremum = |scalar: Option<ulpscope_tensor::Scalar>| scalar.map(|scalar| scalar.to_f64());
    [extremum(stats.max), extremum(stats.min), stats.mean, Some(stats.norm)]
}
