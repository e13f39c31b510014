//! The table of torch_npu.hooks: cosine, RMSE and MAPE of everything two `.pkl` files have in common.
//!
//! Lines become operations (`ops`), two queues find those that belong together (`queues`), and each pair of lines is
//! a row (`numbers`). `docs/styles/torch_npu.md` tells where the tool differs from its guide.

mod numbers;
mod ops;
mod plan;

use ulpscope_dump::{Error, Rank};

use self::plan::HooksPlan;
use crate::style::{Plan, Style};

/// Compares as torch_npu.hooks does.
#[derive(Clone, Copy, Debug)]
pub struct TorchNpu {
    /// Whether operations are matched by dtypes and shapes, too: the tool's `shape_flag`.
    pub match_shapes: bool,
}

impl Style for TorchNpu {
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error> {
        Ok(Box::new(HooksPlan::new(self.match_shapes, target, golden)))
    }

    fn advice(&self, _first_failing: Option<(u64, &str)>) -> Option<String> {
        None
    }
}
