//! Cosine, largest errors and shares of a pair, with ptdbg_ascend's texts for missing values.

use ulpscope_dump::{Content, Entry, Error, Rank};
use ulpscope_formats::json::Json;
use ulpscope_formats::{Bytes, Tensor};
use ulpscope_kernels::PeerArithmetic;
use ulpscope_report::Cell;
use ulpscope_tensor::{DType, View};

use super::super::peer_metrics;
use super::super::python_text::twelve_decimals;
use super::Release;
use super::fields::{NAN, number_of_6};

/// No value, because there is no counterpart.
pub(super) const NO_BENCH: &str = "No bench data matched.";

const UNSUPPORTED: &str = "unsupported";
const SHAPE_UNMATCHED: &str = "shape unmatched";
const NOT_AVAILABLE: &str = "N/A";

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Figure {
    /// In the tool's words.
    Word(&'static str),
    /// With twelve decimals.
    Rounded(f64),
    /// So near to one that it is one.
    One,
    /// Of nothing.
    Zero,
}

impl Figure {
    /// The value as far as the tool takes it for a number.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Figure::Word(_) => None,
            Figure::Rounded(value) => Some(twelve_decimals(value)),
            Figure::One => Some(1.0),
            Figure::Zero => Some(0.0),
        }
    }

    /// As a cell: text before 6.0, a number from then on.
    pub(super) fn cell(self, release: Release) -> Cell {
        match (self, release) {
            (Figure::Word(word), _) => Cell::text(word),
            (Figure::Rounded(value), Release::V4) if value.is_nan() => Cell::text("nan"),
            (Figure::Rounded(value), Release::V4) => Cell::Text(format!("{value:.12}")),
            (Figure::Rounded(value), Release::V6) => number_of_6(twelve_decimals(value)),
            (Figure::One, Release::V4) => Cell::text("1.0"),
            (Figure::One, Release::V6) => Cell::Exact(1.0),
            (Figure::Zero, _) => Cell::Int(0),
        }
    }

    /// NaN has a word.
    fn of(value: f64) -> Figure {
        if value.is_nan() { Figure::Word(NAN) } else { Figure::Rounded(value) }
    }
}

/// What was measured on a pair.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) cosine: Figure,
    pub(super) max_abs: Figure,
    pub(super) max_rel: Figure,
    /// Shares of elements with a relative error below 1/1000 and 5/1000; only 6.0 shows them.
    pub(super) shares: [Figure; 2],
    pub(super) message: String,
    /// What could not be read.
    pub(super) problem: Option<String>,
}

impl Measured {
    /// One word for everything.
    fn word(word: &'static str, message: impl Into<String>) -> Measured {
        let figure = Figure::Word(word);
        Measured {
            cosine: figure,
            max_abs: figure,
            max_rel: figure,
            shares: [figure; 2],
            message: message.into(),
            problem: None,
        }
    }

    /// For an operation without a counterpart.
    pub(super) fn without_partner() -> Measured {
        Measured::word(NAN, NO_BENCH)
    }

    /// For a pair with an unreadable side. ptdbg_ascend intends to write this, and hangs.
    fn unread(error: &Error) -> Measured {
        let file = error.file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
        let message = format!("Dump file: {file} not found.");
        Measured { problem: Some(error.to_string()), ..Measured::word(NAN, message) }
    }

    /// The verdict in the tool's words.
    pub(super) fn verdict(&self) -> &'static str {
        let says = |word| [self.cosine, self.max_abs].contains(&Figure::Word(word));
        if says(SHAPE_UNMATCHED) {
            return "Unmatched";
        }
        if says(NAN) {
            return NAN;
        }
        if says(NOT_AVAILABLE) {
            return "No";
        }
        match (self.cosine.number(), self.max_abs.number()) {
            (Some(cosine), Some(max_abs)) => {
                let bad = (cosine < 0.99 && max_abs > 0.001) || cosine < 0.9 || max_abs > 1.0;
                if bad { "No" } else { "Yes" }
            }
            _ => NAN,
        }
    }
}

/// Measures a pair of lines.
pub(super) fn measure(target: (&Rank, &Entry), golden: (&Rank, &Entry), release: Release) -> Measured {
    let loaded = load(target.0, target.1).and_then(|n| Ok((n, load(golden.0, golden.1)?)));
    match loaded {
        Ok((n, b)) => measure_tensors(&n, &b, release, target.1.name != golden.1.name),
        Err(error) => Measured::unread(&error),
    }
}

fn measure_tensors(n: &Tensor, b: &Tensor, release: Release, fuzzy: bool) -> Measured {
    let count = n.view().len();
    if n.shape().is_empty() && b.shape().is_empty() {
        return measure_scalars(&n.view(), &b.view(), release);
    }
    if count == 0 {
        let cosine = Figure::Word(UNSUPPORTED);
        let message = "This is empty data, can not compare.".to_owned();
        let zero = Figure::Zero;
        return Measured { cosine, max_abs: zero, max_rel: zero, shares: [zero; 2], message, problem: None };
    }
    if n.shape() != b.shape() {
        return Measured::word(SHAPE_UNMATCHED, "Shape of NPU and bench Tensor do not match. Skipped.");
    }
    let relative = match release {
        Release::V4 => PeerArithmetic::Double,
        Release::V6 => PeerArithmetic::StoredUnmasked,
    };
    let Some(metrics) = peer_metrics::measure(n, b, relative) else {
        return Measured::word(
            NOT_AVAILABLE,
            "The position of inf or nan in NPU and bench Tensor do not match.",
        );
    };
    let mut message = String::new();
    if metrics.max_rel.is_nan() {
        message += "Cannot compare by MaxRelativeError, the data contains nan in dump data.";
    }
    if fuzzy {
        message += " Fuzzy matching data, the comparison accuracy may be affected.";
    }
    Measured {
        cosine: cosine(count, metrics.dot, metrics.norms),
        max_abs: Figure::Rounded(metrics.max_abs),
        max_rel: Figure::of(metrics.max_rel),
        shares: [metrics.under_1e3, metrics.under_5e3].map(Figure::Rounded),
        message,
        problem: None,
    }
}

/// Values without dimensions have no angle, and no verdict.
fn measure_scalars(n: &View<'_>, b: &View<'_>, release: Release) -> Measured {
    let (moved, max_rel) = peer_metrics::measure_scalars(n, b, PeerArithmetic::Stored);
    let max_abs = match release {
        // The absolute error is taken first; dividing by zero is what moves the values.
        Release::V4 => peer_metrics::measure_scalars(n, b, PeerArithmetic::Double).0,
        Release::V6 => moved,
    };
    Measured {
        cosine: Figure::Word(UNSUPPORTED),
        max_abs: Figure::Rounded(max_abs),
        max_rel: Figure::of(max_rel),
        shares: [Figure::Word(NAN); 2],
        message: "This is type of scalar data, can not compare.".to_owned(),
        problem: None,
    }
}

fn cosine(len: usize, dot: f64, norms: [f64; 2]) -> Figure {
    if len == 1 {
        return Figure::Word(UNSUPPORTED);
    }
    let zero = norms.map(|norm| norm <= f64::EPSILON);
    match zero {
        [true, true] => return Figure::One,
        [false, false] => {}
        _ => return Figure::Word(NAN),
    }
    let cosine = dot / (norms[0] * norms[1]);
    if twelve_decimals(cosine) > 0.99999 { Figure::One } else { Figure::of(cosine) }
}

/// The elements of a line: a tensor's, or a plain number as NumPy stores it, in eight bytes; truth values behave like 0
/// and 1.
fn load(rank: &Rank, entry: &Entry) -> Result<Tensor, Error> {
    let plain = |dtype, bytes: [u8; 8]| {
        Tensor::contiguous(dtype, Vec::new(), Bytes::from(bytes.to_vec())).map_err(Error::whole)
    };
    match &entry.content {
        Content::Tensor(tensor) => rank.tensor(tensor)?.ok_or_else(|| nothing(rank, &entry.name)),
        Content::Scalar { value: Json::Int(value), .. } => match i64::try_from(*value) {
            Ok(value) => plain(DType::I64, value.to_le_bytes()),
            Err(_) => plain(DType::F64, (*value as f64).to_le_bytes()),
        },
        Content::Scalar { value, .. } => match super::fields::number(value) {
            Some(value) => plain(DType::F64, value.to_le_bytes()),
            None => Err(nothing(rank, &entry.name)),
        },
        Content::None | Content::Other(_) => Err(nothing(rank, &entry.name)),
    }
}

/// A line whose elements are nowhere.
fn nothing(rank: &Rank, name: &str) -> Error {
    let fault = ulpscope_formats::Fault::malformed(format!("the elements of {name}"), "none recorded");
    Error::whole(fault).in_file(&rank.path)
}
