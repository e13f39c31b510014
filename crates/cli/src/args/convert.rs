//! The arguments of `ulpscope convert`.

use std::path::PathBuf;

use clap::Args;
use ulpscope_formats::acl::Format as AclFormat;

use super::FormatName;
use super::local_path::local_path;
use super::pkl_style::PklStyleName;

/// Convert tensor files into another format, one file or a whole tree
///
/// One file goes to the file DST; a folder goes to the folder DST, with the same relative paths, and nothing is
/// written outside it. A dump whose tensors are together in a few files gets a file for each tensor (--to pt, npy or
/// safetensors), as the older tools read it. A file that holds several tensors becomes a container; towards .npy,
/// which holds one, it becomes a folder with a file for each. An ACL dump file becomes files beside each other, named as
/// the older tools do: its name, then .input.0 or .output.0. Records (.pkl of statistics, dump.json) convert into
/// each other. Files are complete or absent: each is written beside its place first.
#[derive(Debug, Args)]
#[command(after_help = CONVERT_EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// File or folder to convert, or DUMP:ENTRY for one tensor of a dump
    pub(crate) src: PathBuf,

    /// Where the result goes
    #[arg(short = 'o', long = "output", value_name = "DST", value_parser = local_path())]
    pub(crate) dst: PathBuf,

    /// Format to write [default: by DST's extension]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) to: Option<FormatName>,

    /// Convert the tensors of ACL dump files to this layout: NCHW, NHWC, HWCN, NCDHW, ND, NC1HWC0, FRACTAL_Z, … [default:
    /// as stored]
    #[arg(short = 'f', long = "layout", value_name = "LAYOUT", value_parser = layout_name)]
    pub(crate) layout: Option<AclFormat>,

    /// The tool whose lines a .pkl gets that is made from a dump.json [default: ptdbg-6]
    #[arg(long = "pkl-style", value_name = "STYLE", value_enum)]
    pub(crate) pkl_style: Option<PklStyleName>,

    /// Replace files that exist
    #[arg(long)]
    pub(crate) force: bool,

    /// Print one JSON object: what became of each file
    #[arg(long)]
    pub(crate) json: bool,
}

/// The name of a layout of ACL dumps.
fn layout_name(text: &str) -> Result<AclFormat, String> {
    AclFormat::from_name(text)
        .ok_or_else(|| "expected the name of a layout, such as NCHW, NHWC or ND".to_owned())
}

const CONVERT_EXAMPLES: &str = "\
Examples:
  ulpscope convert out.pt -o out.npy
  ulpscope convert model.pt -o model.safetensors
  ulpscope convert dump/ -o dump_npy/ --to npy
  ulpscope convert dump/step0:Torch.mm.0.forward.output.0 -o out.npy
  ulpscope convert ptdbg/rank0/dump.pkl -o msprobe/rank0/dump.json
  ulpscope convert msprobe/rank0/dump.json -o ptdbg/rank0/dump.pkl --pkl-style ptdbg";
