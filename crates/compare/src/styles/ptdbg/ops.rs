//! Groups lines into operations, as ptdbg_ascend does.
//!
//! An operation ends where an `output` line is followed by a line of a different kind; in dumps with stacks, after the
//! stack. So a call without recorded output is merged with the next, and trailing inputs belong to nothing.

use std::collections::HashMap;
use std::sync::Arc;

use ulpscope_dump::{Content, Entry, Rank};
use ulpscope_formats::json::Json;

use super::super::fingerprint::Fingerprint;
use super::super::lines::{LinePlace, Met, is_tensor_or_number, walk};
use super::super::queues::Queued;
use super::Release;
use super::colours::Run;
use super::names::matching_name;
use super::stat_columns::StatColumns;

/// Dtype and shape of a line, each distinct one once. Shared by both sides.
#[derive(Default)]
pub(super) struct Kinds {
    dtypes: Vec<Arc<str>>,
    ids: HashMap<(Arc<str>, Vec<u64>), u32>,
}

impl Kinds {
    fn id(&mut self, dtype: &str, shape: &[u64]) -> u32 {
        let dtype: Arc<str> = dtype.into();
        let next = self.dtypes.len() as u32;
        *self.ids.entry((Arc::clone(&dtype), shape.to_vec())).or_insert_with(|| {
            self.dtypes.push(dtype);
            next
        })
    }

    /// Whether the tool compares lines of these kinds, whose shapes are known to be equal.
    fn agree(&self, target: u32, golden: u32) -> bool {
        const ALLOWED: [[&str; 2]; 2] =
            [["torch.float16", "torch.float32"], ["torch.float16", "torch.bfloat16"]];
        let pair = [target, golden].map(|kind| self.dtypes[kind as usize].as_ref());
        let [first, second] = pair;
        target == golden || ALLOWED.contains(&pair) || ALLOWED.contains(&[second, first])
    }
}

/// One operation, as far as matching and the layout of the table need it. A call that cannot be read has no lines: it
/// stays in the queues, so that later ones keep their places, and matches nothing.
pub(super) struct Op {
    pub(super) start: LinePlace,
    pub(super) lines: u32,
    /// Lines whose names say `input`.
    pub(super) inputs: u32,
    /// The call whose stack it has.
    pub(super) stack: Option<u32>,
    /// Bytes of its tensors.
    pub(super) bytes: u64,
    /// What columns its statistics make.
    pub(super) columns: StatColumns,
    /// Lines of one call and direction, one after the other.
    pub(super) runs: Box<[Run]>,
    /// The names alone.
    pub(super) names: u64,
    /// Names and shapes.
    key: u128,
    /// Dtypes, shapes and digests.
    structure: u128,
    /// Dtype and shape of each input, then of each output.
    kinds: Box<[u32]>,
}

impl Queued for Op {
    fn key(&self) -> u128 {
        self.key
    }
}

impl Op {
    /// Equal for operations of equal names, dtypes and shapes.
    pub(super) fn identity(&self) -> (u128, u128) {
        (self.key, self.structure)
    }

    /// Whether two operations whose names and shapes agree are taken for the same.
    pub(super) fn fits(&self, golden: &Op, kinds: &Kinds) -> bool {
        if self.lines == 0 || golden.lines == 0 {
            return false;
        }
        if self.structure == golden.structure {
            return true;
        }
        let inputs = self.inputs as usize;
        let pairs = || self.kinds.iter().zip(&golden.kinds);
        // The tool's loose comparison starts from "no" and needs at least one line on either side of the call.
        inputs > 0
            && self.kinds.len() > inputs
            && pairs().all(|(&target, &golden)| kinds.agree(target, golden))
    }
}

/// The operations of a rank, and what belongs to none.
#[derive(Default)]
pub(super) struct Ops {
    pub(super) ops: Vec<Op>,
    /// Where lines begin that nothing follows that would end their operation, and how many they are.
    pub(super) trailing: Option<(LinePlace, u32)>,
    /// Why calls cannot be read, in words.
    pub(super) unread: Vec<String>,
}

/// How lines are grouped.
#[derive(Clone, Copy)]
pub(super) struct Grouping {
    pub(super) release: Release,
    pub(super) fuzzy: bool,
    /// Operations end with their stack.
    pub(super) by_stack: bool,
    /// Whether colours are taken from the rows of one call.
    pub(super) with_runs: bool,
}

/// Groups the lines of a rank.
pub(super) fn group(rank: &Rank, how: Grouping, kinds: &mut Kinds) -> Ops {
    let mut ops = Ops::default();
    let mut open: Option<Open> = None;
    walk(rank, is_tensor_or_number, |met| match met {
        Met::Line(place, entry) => {
            let ends = entry.name.contains("output");
            if !how.by_stack
                && !ends
                && let Some(ended) = open.take_if(|open| open.ended)
            {
                ops.ops.push(ended.close());
            }
            let open = open.get_or_insert_with(|| Open::new(place));
            open.take(entry, how, kinds);
            open.ended = ends;
        }
        Met::CallEnd(call) => {
            if how.by_stack
                && open.is_some()
                && rank.frames(call).is_some()
                && let Some(mut ended) = open.take()
            {
                ended.op.stack = Some(call as u32);
                ops.ops.push(ended.close());
            }
        }
        Met::Unread(place, error) => {
            ops.ops.extend(open.take_if(|open| open.ended && !how.by_stack).map(Open::close));
            ops.ops.push(Open::new(place).close());
            ops.unread.push(error.to_string());
        }
    });
    match open {
        Some(open) if open.ended && !how.by_stack => ops.ops.push(open.close()),
        Some(open) => ops.trailing = Some((open.op.start, open.op.lines)),
        None => {}
    }
    ops
}

/// An operation that lines are still added to.
struct Open {
    op: Op,
    ended: bool,
    names: Fingerprint,
    key: Fingerprint,
    structure: [Fingerprint; 2],
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    runs: Vec<Run>,
}

impl Open {
    fn new(start: LinePlace) -> Open {
        let op = Op {
            start,
            lines: 0,
            inputs: 0,
            stack: None,
            bytes: 0,
            columns: StatColumns::default(),
            runs: Box::default(),
            names: 0,
            key: 0,
            structure: 0,
            kinds: Box::default(),
        };
        Open {
            op,
            ended: false,
            names: Fingerprint::new(),
            key: Fingerprint::new(),
            structure: [Fingerprint::new(), Fingerprint::new()],
            inputs: Vec::new(),
            outputs: Vec::new(),
            runs: Vec::new(),
        }
    }

    fn take(&mut self, entry: &Entry, how: Grouping, kinds: &mut Kinds) {
        let (dtype, shape, digest) = match &entry.content {
            Content::Tensor(tensor) => {
                let size = if tensor.has_data() { tensor.size() } else { 0 };
                self.op.bytes = self.op.bytes.saturating_add(size);
                self.op.columns.take(&tensor.stats);
                (tensor.dtype.as_str(), tensor.shape.as_deref().unwrap_or_default(), tensor.digest.as_deref())
            }
            Content::Scalar { kind, value } => {
                self.op.columns.take(&[value.clone(), value.clone(), value.clone(), Json::Null]);
                (kind.as_str(), [].as_slice(), None)
            }
            Content::None | Content::Other(_) => return,
        };
        let name =
            if how.fuzzy { matching_name(&entry.name, how.release) } else { entry.name.as_str().into() };
        self.names.take(&name);
        self.key.take(&name);
        let is_input = entry.name.contains("input");
        if is_input || entry.name.contains("output") {
            self.key.take((is_input, shape));
            let digest = digest.filter(|_| how.release == Release::V6);
            self.structure[usize::from(!is_input)].take((dtype, shape, digest));
            let side = if is_input { &mut self.inputs } else { &mut self.outputs };
            side.push(kinds.id(dtype, shape));
        }
        if how.with_runs {
            Run::add(&mut self.runs, &entry.name);
        }
        self.op.inputs += u32::from(is_input);
        self.op.lines += 1;
    }

    fn close(self) -> Op {
        let mut structure = Fingerprint::new();
        self.structure.iter().for_each(|side| structure.take(side.finish()));
        structure.take((self.inputs.len(), self.outputs.len()));
        let kinds = [self.inputs, self.outputs].concat().into();
        Op {
            names: self.names.finish() as u64,
            key: self.key.finish(),
            structure: structure.finish(),
            kinds,
            runs: self.runs.into(),
            ..self.op
        }
    }
}
