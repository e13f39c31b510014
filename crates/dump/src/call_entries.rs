//! The entries of a call in msprobe's layout: what its arguments, results and gradients are named, and what is recorded of
//! each.

use ulpscope_formats::json::Json;
use ulpscope_formats::msprobe::{Item, TensorItem};
use ulpscope_kernels::{SUMMARY_KEYS, Statistic};

use crate::call::CallKind;
use crate::entry::{Content, Data, Entry, MeshPlacement, Role, TensorEntry};
use crate::file_part::FilePart;
use crate::journal::encode::Section;

/// The entries of a call in the order of the tool's own rows: inputs, parameters, outputs, gradients.
pub(crate) fn entries_of(key: &str, kind: CallKind, body: Item) -> Vec<Entry> {
    let mut entries = Vec::new();
    match body {
        Item::Dict(sections) if kind != CallKind::Saved => {
            for (section, item) in sections {
                let SectionNames { role, name, stem } = SectionNames::of(key, kind, &section);
                let path = match role {
                    Role::ParameterGrad | Role::Saved => section.as_str(),
                    Role::Input | Role::Output | Role::Parameter => "",
                };
                let mut walk = Walk::at((&name, &stem), role, path, &mut entries);
                match role {
                    Role::ParameterGrad => walk.grad(item),
                    Role::Input | Role::Output | Role::Parameter => walk.item(item, true),
                    Role::Saved => walk.item(item, false),
                }
            }
            entries.sort_by_key(|entry| entry.role);
        }
        body => {
            Walk::at((key, key), Role::Saved, "", &mut entries).item(body, false);
        }
    }
    entries
}

/// The entries in a section of a call.
pub(crate) struct SectionNames {
    pub(crate) role: Role,
    /// How their names begin.
    pub(crate) name: String,
    /// How the names of their files begin.
    pub(crate) stem: String,
}

impl SectionNames {
    pub(crate) fn of(key: &str, kind: CallKind, section: &str) -> SectionNames {
        let known = Section::of_key(section).filter(|_| kind != CallKind::ParametersGrad);
        let (role, word) = match known {
            Some(Section::InputArgs | Section::InputKwargs | Section::Input) => (Role::Input, "input"),
            Some(Section::Output) => (Role::Output, "output"),
            Some(Section::Parameters) => (Role::Parameter, "parameters"),
            None if kind == CallKind::ParametersGrad => (Role::ParameterGrad, section),
            None => (Role::Saved, section),
        };
        let file_word = if known == Some(Section::InputKwargs) { "kwargs" } else { word };
        SectionNames { role, name: format!("{key}.{word}"), stem: format!("{key}.{file_word}") }
    }
}

/// Walks down an item and collects its leaves. The JSON reader limits the depth.
struct Walk<'a> {
    role: Role,
    /// How names begin, and those of files.
    stems: (&'a str, &'a str),
    /// The name and the path of the item, extended on the way down.
    name: String,
    path: String,
    entries: &'a mut Vec<Entry>,
}

impl<'a> Walk<'a> {
    /// At an item that has no path yet.
    fn at(stems: (&'a str, &'a str), role: Role, path: &str, entries: &'a mut Vec<Entry>) -> Walk<'a> {
        Walk { role, stems, name: stems.0.to_owned(), path: path.to_owned(), entries }
    }

    /// `bare`: the item is a container that the tool put around the entries, so a leaf in its place is not an entry.
    fn item(&mut self, item: Item, bare: bool) {
        match item {
            Item::List(items) => {
                for (position, item) in items.into_iter().enumerate() {
                    self.below(|text| push_number(position, text), item);
                }
            }
            Item::Dict(pairs) => {
                for (part, item) in pairs {
                    self.below(|text| text.push_str(&part), item);
                }
            }
            Item::None if bare => {}
            leaf => self.leaf(leaf),
        }
    }

    fn below(&mut self, push: impl Fn(&mut String), item: Item) {
        let (name, path) = (self.name.len(), self.path.len());
        self.name.push('.');
        push(&mut self.name);
        if path > 0 {
            self.path.push('.');
        }
        push(&mut self.path);
        self.item(item, false);
        self.name.truncate(name);
        self.path.truncate(path);
    }

    /// The gradient of a parameter is a list of one.
    fn grad(&mut self, item: Item) {
        match item {
            Item::List(items) if items.len() == 1 => {
                items.into_iter().for_each(|item| self.item(item, false));
            }
            item => self.item(item, false),
        }
    }

    fn leaf(&mut self, item: Item) {
        let content = Content::from(item);
        let data = match &content {
            Content::Tensor(tensor) => &tensor.data,
            _ => &Data::None,
        };
        // The tool's rows have the name of the file, if there is one, or that which a separate file would have.
        let name = match data {
            Data::File(file) => file.rsplit_once('.').map(|(stem, _)| stem.to_owned()),
            Data::Part(_) => {
                let (name, file) = self.stems;
                self.name.strip_prefix(name).map(|rest| format!("{file}{rest}"))
            }
            Data::None | Data::Tensor(_) | Data::Sample(_) | Data::Assembled(_) | Data::Refused(_) => None,
        };
        let name = name.unwrap_or_else(|| self.name.clone());
        self.entries.push(Entry { name, role: self.role, path: self.path.clone(), content });
    }
}

fn push_number(number: usize, text: &mut String) {
    match u8::try_from(number) {
        Ok(digit @ 0..=9) => text.push(char::from(b'0' + digit)),
        _ => text.push_str(&number.to_string()),
    }
}

impl From<Item> for Content {
    /// The content of a leaf. Containers are walked before and have no content of their own.
    fn from(item: Item) -> Content {
        match item {
            Item::Scalar { kind, value } => Content::Scalar { kind, value },
            Item::Other(json) => Content::Other(json),
            Item::Tensor(tensor) => Content::Tensor(Box::new(tensor_entry(tensor))),
            Item::None | Item::List(_) | Item::Dict(_) => Content::None,
        }
    }
}

/// What only Ulpscope records about a tensor. If non-finite elements are counted, all of it is present.
fn further(tensor: &TensorItem) -> Vec<(&'static Statistic, Json)> {
    let is_count = |value: &&Json| matches!(value, Json::Int(count) if u64::try_from(*count).is_ok());
    let written = |statistic: &Statistic| match statistic.is_count() {
        true => tensor.get(statistic.key).filter(is_count).cloned(),
        false => tensor.get(statistic.key).cloned(),
    };
    let (_, others) = Statistic::summaries_and_others();
    let others = || others.iter();
    let has_counts = others().any(|statistic| statistic.is_count() && written(statistic).is_some());
    let missing = |statistic: &Statistic| if statistic.is_count() { Json::Int(0) } else { Json::Null };
    others()
        .filter_map(|statistic| {
            let value = written(statistic).or_else(|| has_counts.then(|| missing(statistic)))?;
            Some((statistic, value))
        })
        .collect()
}

fn strides(tensor: &TensorItem) -> Option<Vec<u64>> {
    let Json::List(strides) = tensor.get("stride")? else { return None };
    let number =
        |stride: &Json| if let Json::Int(stride) = stride { u64::try_from(*stride).ok() } else { None };
    let strides: Vec<u64> = strides.iter().map(number).collect::<Option<_>>()?;
    (tensor.shape()?.len() == strides.len()).then_some(strides)
}

fn data(tensor: &TensorItem) -> Data {
    match tensor.data_name() {
        Ok(None) => Data::None,
        Ok(Some(name)) => match FilePart::of(name, tensor) {
            Ok(None) => Data::File(name.to_owned()),
            Ok(Some(part)) => Data::Part(Box::new(part)),
            Err(error) => Data::Refused(error.to_string()),
        },
        Err(error) => Data::Refused(error.to_string()),
    }
}

/// Whether a key says nothing of elements in a file, of counts, or of other ranks.
fn is_typical(key: &str) -> bool {
    matches!(
        key,
        "type"
            | "dtype"
            | "shape"
            | "Max"
            | "Min"
            | "Mean"
            | "Norm"
            | "requires_grad"
            | "md5"
            | "source"
            | "is_recompute"
            | "blank"
            | "changed"
    )
}

pub(crate) fn tensor_entry(tensor: TensorItem) -> TensorEntry {
    let mut entry = TensorEntry::bare(String::new(), None);
    // Other keys are looked for one by one, which most tensors need not wait for.
    if !tensor.fields().iter().all(|(key, _)| is_typical(key)) {
        entry.strides = strides(&tensor);
        entry.data = data(&tensor);
        entry.further = further(&tensor);
        entry.mesh = mesh(&tensor).map(Box::new);
    }
    entry.shape = tensor.shape();
    let text = |value: Json| if let Json::Str(text) = value { Some(text) } else { None };
    // Of a key that occurs twice the last counts, as in Python.
    for (key, value) in tensor.into_fields() {
        match &*key {
            "type" => entry.class = text(value).unwrap_or_default(),
            "dtype" => entry.dtype = text(value).unwrap_or_default(),
            "requires_grad" => entry.requires_grad = value,
            "md5" => entry.digest = text(value),
            "source" => entry.source = text(value),
            "is_recompute" => entry.recompute = value == Json::Bool(true),
            "blank" => entry.is_blank = value == Json::Bool(true),
            "changed" => entry.is_changed = value == Json::Bool(true),
            key => {
                if let Some(place) = SUMMARY_KEYS.iter().position(|summary| *summary == key) {
                    entry.stats[place] = value;
                }
            }
        }
    }
    entry
}

/// Dimensions of a mesh of ranks; torch's have four at most.
const MAX_MESH_DIMS: usize = 16;

/// How a distributed tensor is spread over ranks, if that is recorded and makes sense.
fn mesh(tensor: &TensorItem) -> Option<MeshPlacement> {
    let placements = tensor.get("placements")?.as_list()?;
    let placements: Vec<String> =
        placements.iter().map(|placed| placed.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    let mut mesh = tensor.get("device_mesh")?;
    let mut ranks = vec![mesh];
    let mut sizes = Vec::new();
    while let Json::List(rows) = mesh {
        sizes.push(rows.len() as u64);
        mesh = rows.first()?;
        ranks =
            ranks.into_iter().map(Json::as_list).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
        if sizes.len() > MAX_MESH_DIMS {
            return None;
        }
    }
    let ranks: Vec<u64> = ranks
        .into_iter()
        .map(|rank| if let Json::Int(rank) = rank { u64::try_from(*rank).ok() } else { None })
        .collect::<Option<_>>()?;
    let is_whole = sizes.iter().product::<u64>() == ranks.len() as u64 && sizes.len() == placements.len();
    is_whole.then_some(MeshPlacement { sizes, ranks, placements })
}
