//! What the elements of one or two tensors show. Of large tensors, evenly spaced blocks are read.

use serde_json::{Value as Json, json};
use ulpscope_formats::Tensor;
use ulpscope_kernels::{
    ElementDiff, ExponentHistogram, Stats, Threads, Tolerance, ValueHistogram, compare, stats,
    value_histogram, worst,
};
use ulpscope_report::json::number;
use ulpscope_tensor::{Scalar, View, coordinates};

/// Bins of a histogram of values.
const BINS: usize = 48;

/// Elements that differ most.
const WORST: usize = 10;

/// Tensors with more elements are sampled.
const MAX_ELEMENTS: usize = 1 << 24;

/// Elements of a sample, and of each of its blocks.
const SAMPLE: usize = 1 << 22;
const SAMPLE_BLOCK: usize = 1 << 14;

/// What was read of an entry.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) stats: [Option<Stats>; 2],
    pub(super) histogram: Json,
    pub(super) magnitudes: Json,
    pub(super) errors: Json,
    pub(super) worst: Vec<Json>,
    pub(super) sampled: Json,
    pub(super) looked_at: u64,
}

/// The elements of a tensor, or a sample of them.
struct Elements<'a> {
    view: View<'a>,
    /// All elements of the tensor.
    of: usize,
    shape: &'a [usize],
}

impl Elements<'_> {
    /// The position in the tensor of an element of the view.
    fn index(&self, at: u64) -> Vec<usize> {
        let at = at as usize;
        let index = if self.view.len() == self.of {
            at
        } else {
            sample_start(at / SAMPLE_BLOCK, self.of) + at % SAMPLE_BLOCK
        };
        coordinates(self.shape, index)
    }
}

/// Where a block of a sample starts.
fn sample_start(block: usize, of: usize) -> usize {
    let blocks = SAMPLE / SAMPLE_BLOCK;
    ((of - SAMPLE_BLOCK) as u128 * block as u128 / (blocks - 1) as u128) as usize
}

/// A sample of a large tensor, packed.
fn sample(view: &View<'_>) -> Option<Vec<u8>> {
    if view.len() <= MAX_ELEMENTS {
        return None;
    }
    let size = view.dtype().size();
    let mut bytes = vec![0; SAMPLE * size];
    for (block, out) in bytes.chunks_mut(SAMPLE_BLOCK * size).enumerate() {
        view.gather(sample_start(block, view.len()), out);
    }
    Some(bytes)
}

impl Read {
    /// Reads the elements of the target's tensor and the golden's.
    pub(super) fn of(tensors: &[Option<Tensor>; 2]) -> Read {
        let whole = tensors.each_ref().map(|tensor| tensor.as_ref().map(Tensor::view));
        let samples = whole.each_ref().map(|view| view.as_ref().and_then(sample));
        let elements = [0, 1].map(|at| {
            let view = whole[at].as_ref()?;
            let shown = match &samples[at] {
                Some(bytes) => View::contiguous(view.dtype(), vec![SAMPLE], bytes).ok()?,
                None => view.clone(),
            };
            Some(Elements { view: shown, of: view.len(), shape: tensors[at].as_ref()?.shape() })
        });
        let mut read = Read::default();
        for (at, elements) in elements.iter().enumerate() {
            let Some(elements) = elements else { continue };
            read.stats[at] = Some(stats(&elements.view, Threads::All));
            read.looked_at += elements.view.len() as u64;
            if elements.view.len() < elements.of {
                read.sampled = json!([elements.view.len(), elements.of]);
            }
        }
        read.distribution(&elements);
        if let [Some(target), Some(golden)] = &elements
            && target.shape == golden.shape
        {
            read.differences(target, golden);
        }
        // Of a sample, what the dump recorded of the whole tensor says more.
        for (stats, elements) in read.stats.iter_mut().zip(&elements) {
            if elements.as_ref().is_some_and(|elements| elements.view.len() < elements.of) {
                *stats = None;
            }
        }
        read
    }

    /// Both sides in the same bins.
    fn distribution(&mut self, elements: &[Option<Elements<'_>>; 2]) {
        let stats = || self.stats.iter().flatten().filter(|stats| stats.count > 0);
        let least = stats().filter_map(|stats| stats.finite_min.or(stats.min)).map(Scalar::to_f64);
        let most = stats().filter_map(|stats| stats.finite_max.or(stats.max)).map(Scalar::to_f64);
        let bounds = [least.fold(f64::INFINITY, f64::min), most.fold(f64::NEG_INFINITY, f64::max)];
        if !bounds.iter().all(|bound| bound.is_finite()) {
            return;
        }
        let counted: [Option<ValueHistogram>; 2] = [0, 1].map(|at| {
            let elements = elements[at].as_ref()?;
            Some(value_histogram(&elements.view, bounds, BINS, Threads::All))
        });
        let [target, golden] = counted.each_ref().map(|side| side.as_ref().map(|side| &side.bins));
        self.histogram = json!({ "min": bounds[0], "max": bounds[1], "target": target, "golden": golden });
        let exponents = counted.each_ref().map(|side| side.as_ref().map(|side| &side.magnitudes));
        let rows =
            || exponents.iter().flatten().flat_map(|side| side.rows.iter().map(|(exponent, _)| *exponent));
        let (Some(first), Some(last)) = (rows().min(), rows().max()) else { return };
        let [target, golden] = exponents.map(|side| side.map(|side| between(side, first, last)));
        self.magnitudes = json!({ "from": first, "target": target, "golden": golden });
    }

    fn differences(&mut self, target: &Elements<'_>, golden: &Elements<'_>) {
        let tolerance = Tolerance { atol: 0.0, rtol: 0.0 };
        let Ok(compared) = compare(&target.view, &golden.view, tolerance, Threads::All) else { return };
        let ExponentHistogram { zeros, rows } = &compared.exponents;
        let bounds = rows.first().zip(rows.last()).map(|(first, last)| (first.0, last.0));
        let (from, counts) = bounds
            .map_or((0, Vec::new()), |(first, last)| (first, between(&compared.exponents, first, last)));
        self.errors = json!({
            "from": from,
            "counts": counts,
            "zero": zeros,
            "not_finite": compared.distances.non_finite.mismatched,
        });
        if compared.distances.equal {
            return;
        }
        let found = worst(&target.view, &golden.view, WORST).unwrap_or_default();
        self.worst = found.iter().map(|one| element(one, target)).collect();
    }
}

/// The counts from one exponent to another.
fn between(histogram: &ExponentHistogram, first: i32, last: i32) -> Vec<u64> {
    let mut counts = vec![0; (last - first + 1) as usize];
    for (exponent, count) in &histogram.rows {
        counts[(exponent - first) as usize] = *count;
    }
    counts
}

fn element(one: &ElementDiff, target: &Elements<'_>) -> Json {
    json!({
        "index": target.index(one.index),
        "target": scalar(one.target),
        "golden": scalar(one.golden),
        "abs": number(one.abs),
        "rel": one.rel.map(number),
    })
}

fn scalar(value: Scalar) -> Json {
    match value {
        Scalar::Complex(re, im) => {
            let sign = if im.is_sign_negative() { "" } else { "+" };
            json!(format!("{re}{sign}{im}j"))
        }
        other => number(other.to_f64()),
    }
}
