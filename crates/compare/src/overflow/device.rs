//! The overflows that an Ascend device detected, with the tensors of the operator.

use ulpscope_dump::{Content, DeviceOverflow, Dump, Entry, Problems, Rank, RankPlace};
use ulpscope_formats::Error;
use ulpscope_kernels::{Stats, Threads, stats};

/// An overflow, and the operator that ran.
#[derive(Clone, Debug)]
pub struct DetectedOverflow {
    /// The step, if the dump has steps.
    pub step: Option<u64>,
    /// The folder of the rank; empty if there is none.
    pub rank: String,
    /// What the device wrote.
    pub detected: DeviceOverflow,
    /// The call that ran in the task, if its tensors were dumped.
    pub call: Option<String>,
    /// Its tensors.
    pub tensors: Vec<DetectedTensor>,
}

/// A tensor of an operator that overflowed.
#[derive(Clone, Debug)]
pub struct DetectedTensor {
    /// `Relu.LeNet_conv2_Relu.0.forward.output.0`
    pub name: String,
    /// `torch.float16`
    pub dtype: String,
    /// The stored dimensions.
    pub shape: Vec<u64>,
    /// Its statistics, if its elements were dumped.
    pub stats: Option<Stats>,
}

/// The overflows of every rank of a dump, by step and rank, then in order of time.
pub fn device_overflows(dump: &Dump, problems: &mut Problems) -> Vec<DetectedOverflow> {
    let mut all = Vec::new();
    for step in &dump.steps {
        for place in &step.ranks {
            match place.open() {
                Ok(rank) => all.extend(overflows_of_rank(&rank, step.number, place, problems)),
                Err(error) => problems.add(&error),
            }
        }
    }
    all
}

/// The same of one rank.
pub fn overflows_of_rank(
    rank: &Rank,
    step: Option<u64>,
    place: &RankPlace,
    problems: &mut Problems,
) -> Vec<DetectedOverflow> {
    let described = |detected: &DeviceOverflow| {
        let (call, tensors) = match detected.call {
            Some(call) => (Some(rank.name(call)), tensors(rank, call, problems)),
            None => (None, Vec::new()),
        };
        DetectedOverflow { step, rank: place.name.clone(), detected: detected.clone(), call, tensors }
    };
    rank.device_overflows().iter().map(described).collect()
}

fn tensors(rank: &Rank, call: usize, problems: &mut Problems) -> Vec<DetectedTensor> {
    let mut described = |entry: Entry| {
        let Content::Tensor(tensor) = entry.content else { return None };
        let measure = || -> Result<Option<Stats>, Error> {
            let Some(elements) = rank.tensor(&tensor)? else { return Ok(None) };
            let measured = stats(&elements.view(), Threads::All);
            elements.check()?;
            Ok(Some(measured))
        };
        let stats = measure().unwrap_or_else(|error| {
            problems.add(&error);
            None
        });
        let shape = tensor.shape.clone().unwrap_or_default();
        Some(DetectedTensor { name: entry.name, dtype: tensor.dtype.clone(), shape, stats })
    };
    match rank.entries(call) {
        Ok(entries) => entries.into_iter().filter_map(&mut described).collect(),
        Err(error) => {
            problems.add(&error);
            Vec::new()
        }
    }
}
