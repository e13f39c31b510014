//! What the rows of a network say together.

use serde_json::{Value, json};
use ulpscope_compare::network::{Network, NetworkRow, RowState};

/// Items of a list that are kept; the sheet has all of them.
const MAX_KEPT: usize = 1000;

/// The operators of one step and device.
#[derive(Clone, Debug, Default)]
pub struct NetworkOutcome {
    /// The step, if the dump has steps.
    pub step: Option<u64>,
    /// The device.
    pub device: String,
    /// The number of operators.
    pub operators: usize,
    /// Tensors that were compared and agree.
    pub agree: u64,
    /// Tensors that were compared and differ.
    pub differ: u64,
    /// Operators without a dump file.
    pub not_dumped: u64,
    /// Tensors without a counterpart.
    pub unmatched: u64,
    /// Tensors that could not be read or compared.
    pub not_compared: u64,
    /// Operators whose outputs differ although their compared inputs agree, in the order of the graph.
    pub diverging: Vec<DivergingOp>,
    /// Tensors and operators that were not compared, in order.
    pub lone: Vec<UnmatchedTensor>,
    /// What a reader should know.
    pub notes: Vec<String>,
    open: Option<OpenOp>,
}

/// An operator at which the runs diverge.
#[derive(Clone, Debug, PartialEq)]
pub struct DivergingOp {
    /// Its name.
    pub op: String,
    /// Its type.
    pub op_type: String,
    /// Which output.
    pub output: usize,
    /// What it was compared with.
    pub origin: Option<String>,
    /// The cosine, if there is one.
    pub cosine: Option<f64>,
    /// The distance in relation to the ground truth.
    pub relative_distance: Option<f64>,
}

/// Something that was not compared.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmatchedTensor {
    /// The operator.
    pub op: String,
    /// Its type.
    pub op_type: String,
    /// `LeNet/conv1/Conv2D:input:0`; none for an operator without a dump file.
    pub tensor: Option<String>,
    /// Why.
    pub reason: String,
}

/// The operator whose rows are coming in.
#[derive(Clone, Debug)]
struct OpenOp {
    op: String,
    has_differing_input: bool,
    outputs: Vec<DivergingOp>,
}

impl NetworkOutcome {
    pub(super) fn of(network: &Network) -> NetworkOutcome {
        NetworkOutcome {
            step: network.step,
            device: network.device.clone(),
            operators: network.units(),
            notes: [network.problems.as_slice(), &network.notes].concat(),
            ..NetworkOutcome::default()
        }
    }

    pub(super) fn take(&mut self, row: &NetworkRow) {
        match row.state {
            RowState::Agrees => self.agree += 1,
            RowState::Differs => self.differ += 1,
            RowState::NotDumped => self.not_dumped += 1,
            RowState::Unmatched => self.unmatched += 1,
            RowState::NotCompared => self.not_compared += 1,
        }
        let is_compared = matches!(row.state, RowState::Agrees | RowState::Differs);
        if !is_compared && self.lone.len() < MAX_KEPT {
            self.lone.push(UnmatchedTensor {
                op: row.npu_op.clone(),
                op_type: row.op_type.clone(),
                tensor: row.label(),
                reason: row.reason(),
            });
        }
        if self.open.as_ref().is_none_or(|open| open.op != row.npu_op) {
            self.finish();
            self.open =
                Some(OpenOp { op: row.npu_op.clone(), has_differing_input: false, outputs: Vec::new() });
        }
        let (Some(open), RowState::Differs, Some((io, at))) = (&mut self.open, &row.state, row.tensor) else {
            return;
        };
        if io == "input" {
            open.has_differing_input = true;
        } else {
            open.outputs.push(DivergingOp {
                op: row.npu_op.clone(),
                op_type: row.op_type.clone(),
                output: at,
                origin: row.origin.clone(),
                cosine: row.measured.cosine,
                relative_distance: row.measured.relative_distance,
            });
        }
    }

    /// Concludes about the last operator.
    pub(super) fn finish(&mut self) {
        let Some(open) = self.open.take() else { return };
        if !open.has_differing_input && self.diverging.len() < MAX_KEPT {
            self.diverging.extend(open.outputs);
        }
    }

    pub(super) fn document(&self) -> Value {
        let diverging = |one: &DivergingOp| {
            json!({
                "op": one.op,
                "type": one.op_type,
                "output": one.output,
                "compared_with": one.origin,
                "cosine": one.cosine,
                "relative_distance": one.relative_distance,
            })
        };
        let lone = |one: &UnmatchedTensor| json!({ "op": one.op, "type": one.op_type, "tensor": one.tensor, "reason": one.reason });
        json!({
            "step": self.step,
            "device": self.device,
            "operators": self.operators,
            "tensors": {
                "agree": self.agree,
                "differ": self.differ,
                "unmatched": self.unmatched,
                "not_compared": self.not_compared,
            },
            "operators_not_dumped": self.not_dumped,
            "diverging": self.diverging.iter().map(diverging).collect::<Vec<_>>(),
            "not_compared": self.lone.iter().map(lone).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}
