//! The observation at one entry, as a value. [`crate::words`] converts it to the text of a row, and explanations
//! convert it to a sentence: no code parses text.

use serde::{Deserialize, Serialize};

use crate::number;
use crate::style::Side;

/// Max, min, mean and norm; `None` if not recorded.
pub type Statistics = [Option<f64>; 4];

/// The observation at an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Elements differ.
    Elements {
        /// The distance of the elements over the golden's norm.
        #[serde(with = "number")]
        distance: f64,
        /// The largest absolute error.
        #[serde(with = "number")]
        largest: f64,
        /// The kind of mistake that would cause this error.
        likeness: Option<Likeness>,
    },
    /// Statistics differ.
    Statistics {
        /// Those of the target.
        #[serde(with = "number::list")]
        target: Statistics,
        /// Those of the golden.
        #[serde(with = "number::list")]
        golden: Statistics,
    },
    /// Elements of an exact dtype differ.
    ElementsDiffer {
        /// How many.
        differ: u64,
        /// Of how many.
        of: u64,
        /// The distance of the elements over the golden's norm.
        #[serde(with = "number")]
        distance: f64,
    },
    /// NaN or infinite on one side only.
    NonFinite {
        /// How many elements.
        elements: u64,
        /// How many NaN and infinite elements the target has, and the golden.
        counts: [NonFiniteCount; 2],
    },
    /// Statistics that are NaN or infinite on this side only.
    NonFiniteStatistics(Side),
    /// NaN at the same places of both sides; all else is equal.
    BothNan {
        /// How many elements; 0 if only statistics were recorded.
        elements: u64,
    },
    /// Digests differ.
    DigestsDiffer,
    /// Digests differ, and statistics do not.
    OnlyDigestsDiffer,
    /// Neither elements nor statistics on both sides.
    NothingInCommon,
    /// Memory that was never written, on both sides.
    Uninitialised,
    /// Devices, which differ between runs.
    Devices,
    /// Objects that are no tensors.
    Objects,
    /// Scalars that differ.
    Values {
        /// The target's.
        target: Plain,
        /// The golden's.
        golden: Plain,
    },
    /// Things of different kinds.
    Kinds {
        /// The target's.
        target: Plain,
        /// The golden's.
        golden: Plain,
    },
    /// Shapes that cannot be compared.
    Shapes {
        /// The target's.
        target: Vec<u64>,
        /// The golden's.
        golden: Vec<u64>,
    },
    /// Different shapes with the same number of elements, which were compared in order.
    Reshaped {
        /// The target's shape.
        target: Vec<u64>,
        /// The golden's shape.
        golden: Vec<u64>,
        /// The observation of the elements, if they are not equal.
        elements: Option<Box<Fact>>,
    },
    /// An argument or result that only one side has.
    OnlyIn {
        /// That side.
        side: Side,
        /// What it is.
        value: Plain,
    },
    /// It has no counterpart: the reason from pairing.
    Unpaired(String),
    /// The call could not be read.
    Unread,
    /// The error comes from this call.
    InheritedFrom(String),
    /// A final result differs by more than accumulated rounding allows, and no call explains it.
    Unexplained,
}

/// The kind of mistake that would cause an error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Likeness {
    /// It is in few elements.
    FewElements {
        /// How many.
        differ: u64,
        /// Of how many.
        of: u64,
    },
    /// As if it were zero.
    Zero,
    /// As if its sign were flipped.
    SignFlipped,
    /// As if multiplied by a factor.
    Factor(#[serde(with = "number")] f64),
}

/// How many elements are not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NonFiniteCount {
    /// NaN.
    pub nan: u64,
    /// Infinite.
    pub infinite: u64,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plain {
    /// Python's `None`.
    None,
    /// A tensor of this dtype.
    Tensor(String),
    /// A scalar, as JSON, truncated if long.
    Scalar {
        /// Its type in Python.
        kind: String,
        /// The value.
        json: String,
    },
    /// Something that is no tensor.
    Object,
}

/// An argument that differs between the two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgumentDifference {
    /// Role and position: `input.1`, `input.value`.
    pub entry: String,
    /// How it differs.
    pub fact: Option<Fact>,
}

impl Fact {
    /// Whether the elements look like a mistake that explains all of them.
    pub fn explains_itself(&self) -> bool {
        match self {
            Fact::Elements { likeness, .. } => {
                matches!(likeness, Some(Likeness::Zero | Likeness::SignFlipped | Likeness::Factor(_)))
            }
            Fact::Reshaped { elements, .. } => elements.as_ref().is_some_and(|fact| fact.explains_itself()),
            _ => false,
        }
    }

    /// The relative distance of the elements, if they were compared.
    pub fn distance(&self) -> Option<f64> {
        match self {
            Fact::Elements { distance, .. } | Fact::ElementsDiffer { distance, .. } => {
                Some(*distance).filter(|distance| distance.is_finite())
            }
            Fact::Reshaped { elements, .. } => elements.as_ref().and_then(|fact| fact.distance()),
            _ => None,
        }
    }
}
