//! An entry as in the tool's table: a name, a dtype, a shape, four statistics, all in the form that Python made of the
//! dump.

use std::borrow::Cow;

use ulpscope_dump::{Content, Entry, TensorEntry};
use ulpscope_formats::json::{Json, python_float_repr};
use ulpscope_kernels::{DigestKind, SUMMARY_KEYS, digest};
use ulpscope_tensor::{DType, View};

use crate::styles::python_text;

/// The release whose rules are used to read the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// 26.x.
    V26,
    /// 1.x and 8.x.
    V1,
}

/// One statistic, or the value of an argument in its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stat<'a> {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
    /// Text, and what only its text matters of: lists, dictionaries.
    Text(Cow<'a, str>),
}

/// An entry as a row shows it. Texts are absent where Python has `None`.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    /// The name of the row.
    pub(crate) name: Cow<'a, str>,
    pub(crate) dtype: Option<Cow<'a, str>>,
    pub(crate) shape: Option<Cow<'a, str>>,
    /// Max, min, mean, norm.
    pub(crate) stats: [Stat<'a>; 4],
    /// `True`, `False`.
    pub(crate) requires_grad: Option<&'static str>,
    pub(crate) digest: Option<Cow<'a, str>>,
    /// The tensor, where it is one.
    pub(crate) tensor: Option<&'a TensorEntry>,
}

/// dtypes that are compared with each other.
const FLOATS: [&[&str]; 2] = [
    &["Float16", "Float32", "Float64", "BFloat16"],
    &["torch.float16", "torch.float32", "torch.float64", "torch.bfloat16"],
];

/// Names whose values are ranks of processes.
const RANK_ARGUMENTS: [&str; 4] = ["src", "dst", "group_src", "group_dst"];

impl<'a> Stat<'a> {
    /// What Python's JSON reader makes of a value.
    pub(crate) fn of(value: &'a Json) -> Stat<'a> {
        match value {
            Json::Null => Stat::None,
            Json::Bool(flag) => Stat::Bool(*flag),
            Json::Int(number) => Stat::Int(*number),
            Json::Float(number) => Stat::Float(*number),
            Json::Str(text) => Stat::Text(text.as_str().into()),
            other => Stat::Text(python_text::repr(other).into()),
        }
    }

    /// `str()` of it.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Stat::None => "None".into(),
            Stat::Bool(flag) => python_text::truth(*flag).into(),
            Stat::Int(number) => number.to_string().into(),
            Stat::Float(number) => python_float_repr(*number).into(),
            Stat::Text(text) => text.as_ref().into(),
        }
    }

    /// A number; a truth value is none.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Stat::Int(number) => Some(*number as f64),
            Stat::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether Python's `==` holds: `1 == 1.0 == True`.
    pub(crate) fn equals(&self, other: &Stat<'_>) -> bool {
        let number = |stat: &Stat<'_>| match stat {
            Stat::Bool(flag) => Some(f64::from(u8::from(*flag))),
            stat => stat.number(),
        };
        match (self, other) {
            (Stat::Int(a), Stat::Int(b)) => a == b,
            _ => match (number(self), number(other)) {
                (Some(a), Some(b)) => a == b,
                (None, None) => self == other,
                _ => false,
            },
        }
    }
}

impl<'a> Item<'a> {
    /// The row of an entry; `None` if the tool has no row for it. Missing digests are computed only on request.
    pub(crate) fn of(entry: &'a Entry, release: Release, digests: bool) -> Option<Item<'a>> {
        let mut item = Item {
            name: entry.name.as_str().into(),
            dtype: None,
            shape: None,
            stats: [const { Stat::None }; 4],
            requires_grad: None,
            digest: None,
            tensor: None,
        };
        match &entry.content {
            Content::None => {}
            Content::Tensor(tensor) => item.fill_tensor(tensor, release),
            Content::Scalar { kind, value } => item.fill_scalar(kind, value, release),
            Content::Other(json) => item.fill_other(json, release)?,
        }
        if digests {
            item.digest = item.digest_of(&entry.content, release);
        }
        Some(item)
    }

    /// The name of the file of elements, where there is one.
    pub(crate) fn file(&self) -> Option<&'a str> {
        self.tensor?.data.file()
    }

    /// Whether 26.x compares two dtypes.
    pub(crate) fn goes_with(&self, golden: &Item<'_>) -> bool {
        let dtypes = [self.dtype.as_deref(), golden.dtype.as_deref()];
        let floats =
            |group: &[&str]| dtypes.iter().all(|dtype| dtype.is_some_and(|dtype| group.contains(&dtype)));
        dtypes[0] == dtypes[1] || FLOATS.into_iter().any(floats)
    }

    /// Whether the tool has a row for an entry. What says neither what it is nor has items has none.
    pub(crate) fn is_shown(entry: &Entry) -> bool {
        match &entry.content {
            Content::Other(json) => {
                tensor_sent(json).is_some() || json.get("type").and_then(Json::as_str).is_some()
            }
            _ => true,
        }
    }

    fn fill_tensor(&mut self, tensor: &'a TensorEntry, release: Release) {
        self.dtype = (!tensor.dtype.is_empty()).then(|| tensor.dtype.as_str().into());
        self.shape = tensor.shape.as_deref().map(|shape| python_text::sizes(shape).into());
        self.stats = tensor.stats.each_ref().map(|stat| match Stat::of(stat) {
            // 26.x turns the truth values of a description into text at once.
            Stat::Bool(flag) if release == Release::V26 => Stat::Text(python_text::truth(flag).into()),
            stat => stat,
        });
        self.requires_grad = match tensor.requires_grad {
            Json::Bool(flag) => Some(python_text::truth(flag)),
            _ => None,
        };
        self.tensor = Some(tensor);
    }

    fn fill_scalar(&mut self, kind: &'a str, value: &'a Json, release: Release) {
        self.shape = Some("[]".into());
        let newer = release == Release::V26;
        match kind {
            "torch.Size" => {
                self.dtype = Some(kind.into());
                self.shape = Some(python_text::text(value).into());
            }
            "slice" => {
                self.dtype = Some(kind.into());
                self.shape = Some(match value {
                    Json::List(items) => format!("({},)", items.len()).into(),
                    _ => "()".into(),
                });
            }
            "ellipsis" if newer => {
                self.dtype = Some(kind.into());
                self.stats = std::array::from_fn(|_| Stat::of(value));
            }
            _ if newer && self.is_rank_argument() => {
                let text = python_text::text(value);
                self.dtype = Some(kind.into());
                self.stats = std::array::from_fn(|_| Stat::Text(text.clone().into()));
            }
            _ => {
                self.dtype = Some(python_text::class(value).into());
                self.stats = std::array::from_fn(|_| Stat::of(value));
            }
        }
    }

    fn fill_other(&mut self, json: &'a Json, release: Release) -> Option<()> {
        if let Some(tensor) = tensor_sent(json) {
            if release == Release::V1 {
                // A dictionary like any other, of which only the tensor has a row.
                self.name = format!("{}.tensor", self.name).into();
            }
            self.fill_description(tensor);
            return Some(());
        }
        let kind = json.get("type").and_then(Json::as_str)?;
        self.shape = Some("[]".into());
        if kind == "torch.ProcessGroup" && release == Release::V26 {
            let ranks = python_text::text(json.get("group_ranks").unwrap_or(&Json::Null));
            self.dtype = Some(kind.into());
            self.stats = std::array::from_fn(|_| Stat::Text(ranks.clone().into()));
        } else {
            let value = json.get("value").unwrap_or(&Json::Null);
            self.dtype = Some(python_text::class(value).into());
            self.stats = std::array::from_fn(|_| Stat::of(value));
        }
        Some(())
    }

    /// A tensor that is described inside something else. Its elements are not looked at.
    fn fill_description(&mut self, json: &'a Json) {
        let Some(dtype) = json.get("dtype").and_then(Json::as_str) else { return };
        self.dtype = Some(dtype.into());
        self.shape = json.get("shape").map(|shape| python_text::text(shape).into());
        self.stats = SUMMARY_KEYS.map(|key| json.get(key).map_or(Stat::None, Stat::of));
        self.requires_grad = match json.get("requires_grad") {
            Some(Json::Bool(flag)) => Some(python_text::truth(*flag)),
            _ => None,
        };
    }

    /// The digest of the dump; of what has none, that of its value as text.
    fn digest_of(&self, content: &'a Content, release: Release) -> Option<Cow<'a, str>> {
        let newer = release == Release::V26;
        match content {
            Content::None => None,
            Content::Tensor(tensor) => {
                Some(tensor.digest.as_deref().map_or_else(|| checksum("").into(), Cow::Borrowed))
            }
            Content::Scalar { kind, value } => {
                let text = python_text::text(value);
                let special = matches!(kind.as_str(), "torch.Size" | "slice" | "ellipsis");
                let named = newer && !special && self.is_rank_argument();
                Some(if named { text.into() } else { checksum(&text).into() })
            }
            Content::Other(json) => {
                let described = tensor_sent(json).unwrap_or(json);
                if newer && self.dtype.as_deref() == Some("torch.ProcessGroup") {
                    return Some(python_text::text(json.get("group_ranks").unwrap_or(&Json::Null)).into());
                }
                if *described == Json::Null {
                    return None;
                }
                let digest = described.get("md5").and_then(Json::as_str);
                let text = || described.get("value").map(python_text::text).unwrap_or_default();
                Some(digest.map_or_else(|| checksum(&text()).into(), Cow::Borrowed))
            }
        }
    }

    fn is_rank_argument(&self) -> bool {
        self.name.rsplit('.').next().is_some_and(|last| RANK_ARGUMENTS.contains(&last))
    }
}

/// The tensor of an operation of point-to-point communication.
fn tensor_sent(json: &Json) -> Option<&Json> {
    (json.get("class_type").and_then(Json::as_str) == Some("torch.distributed.P2POp"))
        .then(|| json.get("tensor").unwrap_or(&Json::Null))
}

/// The CRC-32 of a text, as the tool writes it.
fn checksum(text: &str) -> String {
    let view = View::contiguous(DType::U8, vec![text.len()], text.as_bytes());
    view.map(|view| digest(&view, DigestKind::Crc32).to_string()).unwrap_or_default()
}
