//! The tools whose lines `ulpscope convert --pkl-style` writes, named as `ulpscope compare --style` names them.

use clap::ValueEnum;
use ulpscope_formats::records::PklStyle;

/// A tool that `--pkl-style` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PklStyleName {
    /// ptdbg_ascend 4.0: names with underscores, max, min and mean
    Ptdbg,
    /// ptdbg_ascend 6.0: names with dots, keyword arguments, also the l2norm and digests
    #[value(name = "ptdbg-6")]
    Ptdbg6,
    /// torch_npu.hooks: floating-point tensors only
    #[value(name = "torch_npu")]
    TorchNpu,
}

impl From<PklStyleName> for PklStyle {
    fn from(name: PklStyleName) -> PklStyle {
        match name {
            PklStyleName::Ptdbg => PklStyle::Ptdbg4,
            PklStyleName::Ptdbg6 => PklStyle::Ptdbg6,
            PklStyleName::TorchNpu => PklStyle::Hooks,
        }
    }
}
