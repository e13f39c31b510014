//! How the elements of a tensor are laid out, by number and name.

use std::fmt;

/// The layout of a tensor. A number without a known name is kept as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Format(pub i32);

/// Names by number. Number 30 was RESERVED in headers of 2021.
const NAMES: [&str; 47] = [
    "NCHW",
    "NHWC",
    "ND",
    "NC1HWC0",
    "FRACTAL_Z",
    "NC1C0HWPAD",
    "NHWC1C0",
    "FSR_NCHW",
    "FRACTAL_DECONV",
    "C1HWNC0",
    "FRACTAL_DECONV_TRANSPOSE",
    "FRACTAL_DECONV_SP_STRIDE_TRANS",
    "NC1HWC0_C04",
    "FRACTAL_Z_C04",
    "CHWN",
    "FRACTAL_DECONV_SP_STRIDE8_TRANS",
    "HWCN",
    "NC1KHKWHWC0",
    "BN_WEIGHT",
    "FILTER_HWCK",
    "HASHTABLE_LOOKUP_LOOKUPS",
    "HASHTABLE_LOOKUP_KEYS",
    "HASHTABLE_LOOKUP_VALUE",
    "HASHTABLE_LOOKUP_OUTPUT",
    "HASHTABLE_LOOKUP_HITS",
    "C1HWNCoC0",
    "MD",
    "NDHWC",
    "FRACTAL_ZZ",
    "FRACTAL_NZ",
    "NCDHW",
    "DHWCN",
    "NDC1HWC0",
    "FRACTAL_Z_3D",
    "CN",
    "NC",
    "DHWNC",
    "FRACTAL_Z_3D_TRANSPOSE",
    "FRACTAL_ZN_LSTM",
    "FRACTAL_Z_G",
    "RESERVED",
    "ALL",
    "NULL",
    "ND_RNN_BIAS",
    "FRACTAL_ZN_RNN",
    "YUV",
    "YUV_A",
];

impl Format {
    /// Plain row-major, any rank.
    pub const ND: Format = Format(2);

    /// The format of a name: ours, GE's with its prefix (`FORMAT_NCHW`), or one that the older tools use in file names
    /// and on the command line.
    pub fn from_name(name: &str) -> Option<Format> {
        let name = name.strip_prefix("FORMAT_").unwrap_or(name);
        let shortened = |full: &str| {
            full.strip_prefix("HASHTABLE_").is_some_and(|rest| rest == name)
                || full == "FRACTAL_DECONV_SP_STRIDE8_TRANS" && name == "DECONV_SP_STRIDE8_TRANS"
        };
        let at = NAMES.iter().position(|full| *full == name || shortened(full))?;
        i32::try_from(at).ok().map(Format)
    }

    /// The name, where the number has one.
    pub fn name(self) -> Option<&'static str> {
        match self.0 {
            255 => Some("MAX"),
            number => NAMES.get(usize::try_from(number).ok()?).copied(),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "number {}", self.0),
        }
    }
}
