//! The styles by name, and their implementations.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulpscope_compare::styles::msprobe::Msprobe;
use ulpscope_compare::styles::msprobe1::Msprobe1;
use ulpscope_compare::styles::ptdbg::{Ptdbg, Release};
use ulpscope_compare::styles::torch_npu::TorchNpu;
use ulpscope_compare::{Mapping, Matching, Native, PairOptions, Style};
use ulpscope_dump::Error;
use ulpscope_formats::Fault;

use crate::Request;

/// A way of comparing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum StyleName {
    /// Ours.
    #[default]
    Native,
    /// torch_npu.hooks.
    TorchNpu,
    /// ptdbg_ascend 4.0.
    Ptdbg,
    /// ptdbg_ascend 6.0.
    Ptdbg6,
    /// msprobe 1.x.
    Msprobe1,
    /// msprobe 26.x.
    Msprobe,
}

/// The mapping files of msprobe.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MappingFiles {
    /// Entry to entry.
    pub data: Option<PathBuf>,
    /// Module to module; without a file, by rule alone.
    #[serde(with = "cell_mapping")]
    pub cell: Option<Option<PathBuf>>,
    /// Layer to layer.
    pub layer: Option<PathBuf>,
}

/// A cell mapping in a file: by rule alone is an empty path.
mod cell_mapping {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        cell: &Option<Option<PathBuf>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        cell.clone().map(Option::unwrap_or_default).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<PathBuf>>, D::Error> {
        let path = Option::<PathBuf>::deserialize(deserializer)?;
        Ok(path.map(|path| (!path.as_os_str().is_empty()).then_some(path)))
    }
}

impl StyleName {
    /// Every style, ours first.
    pub const ALL: [StyleName; 6] = [
        StyleName::Native,
        StyleName::TorchNpu,
        StyleName::Ptdbg,
        StyleName::Ptdbg6,
        StyleName::Msprobe1,
        StyleName::Msprobe,
    ];

    fn word(self) -> &'static str {
        match self {
            StyleName::Native => "native",
            StyleName::TorchNpu => "torch_npu",
            StyleName::Ptdbg => "ptdbg",
            StyleName::Ptdbg6 => "ptdbg-6",
            StyleName::Msprobe1 => "msprobe-1",
            StyleName::Msprobe => "msprobe",
        }
    }
}

impl fmt::Display for StyleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl From<StyleName> for String {
    fn from(style: StyleName) -> String {
        style.to_string()
    }
}

impl TryFrom<String> for StyleName {
    type Error = String;

    fn try_from(text: String) -> Result<StyleName, String> {
        text.parse()
    }
}

impl FromStr for StyleName {
    type Err = String;

    fn from_str(text: &str) -> Result<StyleName, String> {
        StyleName::ALL.into_iter().find(|style| style.word() == text).ok_or_else(|| {
            let known: Vec<&str> = StyleName::ALL.iter().map(|style| style.word()).collect();
            format!("expected one of {}, found {text:?}", known.join(", "))
        })
    }
}

impl MappingFiles {
    /// Reads the files.
    fn read(&self) -> Result<Mapping, Error> {
        let mut mapping = Mapping::default();
        if let Some(path) = &self.data {
            mapping = mapping.with_data(path)?;
        }
        if let Some(Some(path)) = &self.cell {
            mapping = mapping.with_cells(path)?;
        }
        if let Some(path) = &self.layer {
            mapping = mapping.with_layers(path)?;
        }
        Ok(mapping)
    }
}

impl Request {
    /// How the native style pairs calls.
    pub(super) fn pairing(&self) -> Result<PairOptions, Error> {
        Ok(PairOptions { matching: self.matching.unwrap_or_default(), mapping: self.mapping.read()? })
    }

    /// The style asked for, with its options.
    pub(super) fn style(&self) -> Result<Box<dyn Style>, Error> {
        self.check_style()?;
        let mapping = self.mapping.read()?;
        let matching = self.matching.unwrap_or_default();
        let fuzzy = matching == Matching::Fuzzy;
        Ok(match self.style {
            StyleName::Native => Box::new(Native { pairing: self.pairing()? }),
            StyleName::TorchNpu => {
                Box::new(TorchNpu { match_shapes: self.matching == Some(Matching::Shape) })
            }
            StyleName::Ptdbg => Box::new(Ptdbg { release: Release::V4, fuzzy }),
            StyleName::Ptdbg6 => Box::new(Ptdbg { release: Release::V6, fuzzy }),
            StyleName::Msprobe1 => {
                Box::new(Msprobe1 { fuzzy, data_mapping: mapping.row_names(), stack: self.stack_column })
            }
            StyleName::Msprobe => {
                let data_mapping = mapping.row_names();
                Box::new(Msprobe { fuzzy, data_mapping, modules: mapping, ..Msprobe::default() })
            }
        })
    }

    /// Refuses options that a style would ignore: an older tool pairs in its own way.
    fn check_style(&self) -> Result<(), Error> {
        let (ways, data, modules): (&[Matching], bool, bool) = match self.style {
            StyleName::Native => return Ok(()),
            StyleName::TorchNpu => (&[Matching::Shape], false, false),
            StyleName::Ptdbg | StyleName::Ptdbg6 => (&[Matching::Fuzzy], false, false),
            StyleName::Msprobe1 => (&[Matching::Fuzzy], true, false),
            StyleName::Msprobe => (&[Matching::Exact, Matching::Fuzzy], true, true),
        };
        let refused = |what: String, expected: String| {
            let style = self.style;
            let fault = format!(
                "the style {style} pairs calls as its tool does, and {what} has no part in that; expected {expected}, \
                 or --style native"
            );
            Err(Error::whole(Fault::Unsupported(fault)))
        };
        if self.noise.is_some() {
            let fault = format!(
                "--noise is for the native style, and {} judges each row by the fixed limits of its tool; use --style \
                 native, or leave --noise out",
                self.style
            );
            return Err(Error::whole(Fault::Unsupported(fault)));
        }
        if let Some(matching) = self.matching.filter(|matching| !ways.contains(matching)) {
            let ways: Vec<String> = ways.iter().map(ToString::to_string).collect();
            return refused(format!("--match {matching}"), format!("--match {} or none", ways.join(" or ")));
        }
        if !data && self.mapping.data.is_some() {
            return refused("a data mapping".to_owned(), "none".to_owned());
        }
        if !modules && (self.mapping.cell.is_some() || self.mapping.layer.is_some()) {
            return refused("a cell or layer mapping".to_owned(), "none".to_owned());
        }
        Ok(())
    }
}
