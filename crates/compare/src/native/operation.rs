//! What the name of an operation tells about it, beyond how it hands errors on (sensitivity).

use super::observed::hashed;
use super::sensitivity::Family;

/// What is known of the operation of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// Stands for its name, the same for `Torch.add`, `Tensor.__iadd__` and `Aten.add.Tensor`.
    pub(super) name: u64,
    /// How errors are handed on.
    pub(super) family: Family,
    /// Whether its derivative jumps: an error next to nothing lets a gradient pass or not.
    pub(super) is_gate: bool,
    /// Whether it is the step of an optimizer that divides by the root of what may be next to nothing: no error of a result
    /// is too large then.
    pub(super) is_steep: bool,
    /// Whether it puts values in order: where two change places, all between them move.
    pub(super) is_ranking: bool,
    /// Whether it draws random numbers.
    pub(super) is_draw: bool,
    /// Whether it writes its result into an argument, where it stays.
    pub(super) is_in_place: bool,
    /// Whether it exchanges tensors with other ranks.
    pub(super) communicates: bool,
    /// Whether it computes step after step, each from the one before.
    pub(super) is_loop: bool,
    /// Whether it does the same to every element of lists.
    pub(super) is_foreach: bool,
    /// Whether it may give the same for arguments that are not: it picks, cuts off or covers up.
    pub(super) may_hide: bool,
    /// Whether each result comes from elements at many places, so that statistics tell when they changed places before.
    pub(super) mixes: bool,
    /// Whether it takes of its argument only what kind of tensor it is.
    pub(super) ignores_values: bool,
    /// Whether it makes one number, or few, of many.
    pub(super) reduces: bool,
    /// Whether it leaves elements in their places: where it changes none either, it gives back its argument.
    pub(super) keeps_places: bool,
    /// Whether it may put elements in another order.
    pub(super) reorders: bool,
    /// Whether it shows the same elements in another shape, some of them several times.
    pub(super) is_view: bool,
    /// Whether it puts something else in the place of elements.
    pub(super) is_cover: bool,
    /// Whether it normalises, scales by one tensor and adds another, the last it takes.
    pub(super) normalises: bool,
    /// The argument that is added to a product, by position.
    added: Option<&'static str>,
}

const GATES: [&str; 21] = [
    "relu",
    "relu6",
    "leaky_relu",
    "prelu",
    "hardtanh",
    "hardswish",
    "hardsigmoid",
    "threshold",
    "clamp",
    "abs",
    "max",
    "min",
    "amax",
    "amin",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "clip",
    "clamp_min",
    "clamp_max",
];

/// Of many values one comes out.
const PICKS: [&str; 11] =
    ["max", "min", "amax", "amin", "topk", "median", "nanmedian", "kthvalue", "mode", "cummax", "cummin"];

/// Of a range of values one comes out.
const ROUNDS: [&str; 7] = ["round", "floor", "ceil", "trunc", "sign", "sgn", "nan_to_num"];

/// Python's augmented assignments.
const AUGMENTED: [&str; 13] = [
    "__iadd__",
    "__iand__",
    "__idiv__",
    "__ifloordiv__",
    "__ilshift__",
    "__imod__",
    "__imul__",
    "__ior__",
    "__ipow__",
    "__irshift__",
    "__isub__",
    "__itruediv__",
    "__ixor__",
];

/// Collectives that write their result into what they are given.
const EXCHANGES: [&str; 4] = ["all_reduce", "broadcast", "reduce", "all_reduce_coalesced"];

/// The same elements at the same places, in another dtype, on another device, or not at all another.
const KEEPS_PLACES: [&str; 15] = [
    "alias",
    "bfloat16",
    "clone",
    "contiguous",
    "cpu",
    "cuda",
    "detach",
    "double",
    "float",
    "half",
    "identity",
    "lift_fresh",
    "requires_grad",
    "to",
    "type",
];

/// Of the same elements, another order.
const REORDERS: [&str; 33] = [
    "H",
    "mH",
    "adjoint",
    "chunk",
    "moveaxis",
    "narrow",
    "repeat",
    "rot90",
    "select",
    "split",
    "stack",
    "swapdims",
    "take",
    "take_along_dim",
    "unbind",
    "unfold",
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "transpose",
    "permute",
    "movedim",
    "swapaxes",
    "t",
    "T",
    "mT",
    "flip",
    "roll",
    "getitem",
    "gather",
    "index_select",
    "cat",
];

/// The same elements in another shape, or several times.
const VIEWS: [&str; 6] = ["expand", "expand_as", "repeat_interleave", "squeeze", "unsqueeze", "as_strided"];

const DRAWS: [&str; 24] = [
    "rand",
    "randn",
    "randint",
    "randperm",
    "rand_like",
    "randn_like",
    "randint_like",
    "random",
    "bernoulli",
    "multinomial",
    "normal",
    "log_normal",
    "poisson",
    "binomial",
    "uniform",
    "exponential",
    "geometric",
    "cauchy",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "gumbel_softmax",
];

impl Operation {
    /// Of a call by its base: `Functional.linear`, `Tensor.__add__`, `Tensor.mul_`. A module may do anything.
    pub(super) fn of(base: &str, is_backward: bool) -> Operation {
        let last = base.rsplit('.').next().unwrap_or(base);
        let name = last.trim_matches('_');
        let is_module = base.starts_with("Module.") || base.starts_with("Cell.");
        let step = name.trim_start_matches("foreach_");
        let is_gate = GATES.contains(&name) || name.contains("max_pool");
        let is_ranking = name.contains("sort") || name.contains("unique");
        let is_draw = DRAWS.contains(&name);
        let is_cover = matches!(name, "masked_fill" | "where" | "masked_scatter" | "dropout");
        // What was picked of many gets all of the gradient: nothing of that is lost on the way back.
        let picks = is_ranking || PICKS.contains(&name);
        let family = if is_module { Family::Other } else { Family::of(base, is_backward) };
        let mixes = ["softmax", "_norm", "attention", "pool", "loss", "entropy", "lstm", "gru"];
        Operation {
            name: hashed(&crate::pairing::operation_of(base)),
            is_view: VIEWS.contains(&name),
            family,
            ignores_values: name.ends_with("_like") && !is_draw || name.starts_with("new_"),
            reduces: matches!(name, "sum" | "mean" | "prod" | "norm" | "var" | "std" | "logsumexp")
                || name.ends_with("loss")
                || name.ends_with("entropy"),
            keeps_places: KEEPS_PLACES.contains(&name) || name.contains("dropout"),
            reorders: REORDERS.contains(&name),
            mixes: family == Family::Contraction
                || name == "norm"
                || mixes.iter().any(|word| name.contains(word)),
            is_gate,
            is_steep: matches!(step, "addcdiv" | "fused_adam" | "fused_adamw" | "fused_adagrad"),
            is_ranking,
            is_draw: is_draw && !is_backward,
            is_in_place: last.ends_with('_') && !last.ends_with("__")
                || AUGMENTED.contains(&last)
                || base.starts_with("Distributed.") && EXCHANGES.contains(&last),
            communicates: base.starts_with("Distributed."),
            is_loop: matches!(name, "lstm" | "gru" | "rnn_tanh" | "rnn_relu"),
            is_foreach: name.starts_with("foreach_"),
            is_cover,
            normalises: matches!(name, "layer_norm" | "group_norm" | "instance_norm" | "batch_norm"),
            may_hide: if picks {
                !is_backward
            } else {
                is_gate || is_cover || is_draw && !is_backward || ROUNDS.contains(&name)
            },
            added: match name {
                "addmm" | "addbmm" | "baddbmm" => Some("0"),
                "bilinear" => Some("3"),
                "linear" => Some("2"),
                name if name.starts_with("conv") => Some("2"),
                _ => None,
            },
        }
    }

    /// Whether an argument, by the hash of its path, is added to what the others make and no factor of it.
    pub(super) fn is_added(&self, path: u64) -> bool {
        let keyword = if self.added == Some("0") { "input" } else { "bias" };
        self.added.is_some_and(|position| path == hashed(&position) || path == hashed(&keyword))
    }
}
