//! What a call was given and returned, in two bits each.

use serde::{Deserialize, Serialize};
use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{Content, Entry, Problems, Rank, Role, TensorEntry};
use ulpscope_formats::Error;
use ulpscope_formats::json::Json;
use ulpscope_kernels::{Threads, stats};

/// Its result is what the program wrote on purpose.
const FILL: &str = "fill_";

/// Which numbers that are not finite something has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NonFiniteKinds {
    nan: bool,
    infinite: bool,
}

impl NonFiniteKinds {
    pub(super) const NAN: NonFiniteKinds = NonFiniteKinds { nan: true, infinite: false };

    pub(super) fn is_none(self) -> bool {
        !self.nan && !self.infinite
    }

    pub(super) fn has_nan(self) -> bool {
        self.nan
    }

    pub(super) fn words(self) -> &'static str {
        match (self.nan, self.infinite) {
            (true, true) => "NaN and infinity",
            (true, false) => "NaN",
            (false, true) => "infinity",
            (false, false) => "",
        }
    }

    pub(super) fn and(self, more: NonFiniteKinds) -> NonFiniteKinds {
        NonFiniteKinds { nan: self.nan || more.nan, infinite: self.infinite || more.infinite }
    }

    fn of_number(number: f64) -> NonFiniteKinds {
        NonFiniteKinds { nan: number.is_nan(), infinite: number.is_infinite() }
    }
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct CallState {
    /// Its number in the rank.
    pub(super) call: usize,
    /// What its arguments have; of a backward call also what the inputs and results of its forward call have.
    pub(super) given: NonFiniteKinds,
    /// What its results have.
    pub(super) made: NonFiniteKinds,
    /// Whether some result has numbers that count: `made` says whether all are finite.
    pub(super) has_known_results: bool,
    /// Whether an argument is recorded as it is after the call: what the call was given is unknown.
    pub(super) is_in_place: bool,
    /// Whether any of its tensors has numbers.
    pub(super) is_measured: bool,
    /// Parameters, buffers, inputs and scalars with NaN among its arguments.
    pub(super) outside: Vec<String>,
    /// Whether its arguments name the calls that made them.
    pub(super) has_sources: bool,
    /// The entries that made those of its arguments that are not finite.
    pub(super) sources: Vec<String>,
    /// Those of them whose argument has NaN.
    pub(super) nan_sources: Vec<String>,
}

pub(super) fn state_of(rank: &Rank, call: usize, entries: &[Entry], problems: &mut Problems) -> CallState {
    let mut state = CallState {
        call,
        given: NonFiniteKinds::default(),
        made: NonFiniteKinds::default(),
        has_known_results: false,
        is_in_place: false,
        is_measured: false,
        outside: Vec::new(),
        has_sources: false,
        sources: Vec::new(),
        nan_sources: Vec::new(),
    };
    let base = rank.base(rank.calls()[call].base);
    let name = ApiName::of(base);
    let ignores_results = name.function == FILL || name.returns_blank();
    let mut scalars = Vec::new();
    for entry in entries {
        let kinds = match &entry.content {
            Content::Tensor(tensor) if tensor.is_changed && entry.role != Role::Output => {
                state.is_in_place = true;
                continue;
            }
            Content::Tensor(tensor) => match known_kinds(rank, tensor) {
                Ok(kinds) => {
                    state.is_measured |= kinds.is_some();
                    let is_result = entry.role == Role::Output && !ignores_results;
                    state.has_known_results |= is_result && kinds.is_some();
                    kinds.unwrap_or_default()
                }
                Err(error) => {
                    problems.add(&error);
                    continue;
                }
            },
            Content::Scalar { value: Json::Float(number), .. } => NonFiniteKinds::of_number(*number),
            _ => continue,
        };
        if matches!(entry.role, Role::Output) {
            state.made = if ignores_results { state.made } else { state.made.and(kinds) };
            continue;
        }
        if kinds.nan && matches!(entry.content, Content::Scalar { .. }) {
            scalars.push(entry.name.clone());
            continue;
        }
        state.given = state.given.and(kinds);
        if let Content::Tensor(tensor) = &entry.content
            && let Some(source) = &tensor.source
        {
            state.has_sources = true;
            let is_outside = source == "outside" || source.contains(':');
            if !is_outside && !kinds.is_none() {
                state.sources.push(source.clone());
                if kinds.nan {
                    state.nan_sources.push(source.clone());
                }
            }
            if is_outside && kinds.nan {
                state.outside.push(if source == "outside" { entry.name.clone() } else { source.clone() });
            }
        }
    }
    // A scalar that is not used (`nan_to_num`, or a mask without elements) is no origin.
    if state.made.nan && !scalars.is_empty() {
        state.given = state.given.and(NonFiniteKinds::NAN);
        state.outside.extend(scalars);
    }
    state
}

/// What a tensor has: as counted, as its extremes show, or, if nothing was recorded, as its elements show.
pub(super) fn kinds_of(rank: &Rank, tensor: &TensorEntry) -> Result<NonFiniteKinds, Error> {
    known_kinds(rank, tensor).map(Option::unwrap_or_default)
}

/// The same; nothing if the dump does not tell.
fn known_kinds(rank: &Rank, tensor: &TensorEntry) -> Result<Option<NonFiniteKinds>, Error> {
    if tensor.is_blank {
        return Ok(None);
    }
    if let Some(counts) = tensor.non_finite() {
        return Ok(Some(NonFiniteKinds { nan: counts.nan > 0, infinite: counts.inf > 0 }));
    }
    // The largest and the smallest element; the norm may overflow on its own.
    let extremes = &tensor.stats[..2];
    if extremes.iter().any(|one| *one != Json::Null) {
        let kinds = extremes.iter().map(|one| match one {
            Json::Float(number) => NonFiniteKinds::of_number(*number),
            Json::Str(text) => text.parse().map(NonFiniteKinds::of_number).unwrap_or_default(),
            _ => NonFiniteKinds::default(),
        });
        return Ok(Some(kinds.fold(NonFiniteKinds::default(), NonFiniteKinds::and)));
    }
    if tensor.dtype().is_none_or(|dtype| dtype.float_limits().is_none()) || !tensor.has_data() {
        return Ok(None);
    }
    let Some(elements) = rank.tensor(tensor)? else { return Ok(None) };
    let found = stats(&elements.view(), Threads::All);
    elements.check()?;
    Ok(Some(NonFiniteKinds { nan: found.nan > 0, infinite: found.pos_inf + found.neg_inf > 0 }))
}
