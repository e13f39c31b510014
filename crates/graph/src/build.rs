//! Builds graphs from the fields of a file.

use std::collections::HashMap;
use std::sync::Arc;

use ulpscope_formats::{Budget, Error};

use crate::fields::{Field, Fields};
use crate::model::{Attr, Edge, Graph, Op, TensorDesc};

/// Longer texts are shortened: sources of kernels, and weights that are texts.
const MAX_TEXT: usize = 4096;

/// Bytes that an item takes in memory beside its text.
const ITEM: usize = 64;

/// Reads every graph of a file: the first is the root, the others are called by operators.
pub(crate) fn graphs<'a>(fields: &mut dyn Fields<'a>, budget: &mut Budget) -> Result<Vec<Graph>, Error> {
    let mut builder = Builder { fields, budget, names: HashMap::new() };
    let mut graphs = Vec::new();
    while let Some(field) = builder.fields.next()? {
        match field {
            Field::Start(name) if name == "graph" => graphs.push(builder.graph()?),
            Field::Start(_) => builder.fields.skip()?,
            Field::End | Field::Value(..) => {}
        }
    }
    Ok(graphs)
}

struct Builder<'f, 'a> {
    fields: &'f mut dyn Fields<'a>,
    budget: &'f mut Budget,
    /// Names of attributes, dtypes and layouts: a graph repeats a few of them very often.
    names: HashMap<String, Arc<str>>,
}

impl Builder<'_, '_> {
    fn charge(&mut self, text: usize) -> Result<(), Error> {
        self.budget.charge("the operators of a graph", ITEM + text).map_err(Error::whole)
    }

    fn name(&mut self, text: &str) -> Result<Arc<str>, Error> {
        if let Some(known) = self.names.get(text) {
            return Ok(Arc::clone(known));
        }
        self.charge(text.len())?;
        let shared: Arc<str> = shortened(text).into();
        self.names.insert(text.to_owned(), Arc::clone(&shared));
        Ok(shared)
    }

    fn text(&mut self, text: &str) -> Result<String, Error> {
        let text = shortened(text);
        self.charge(text.len())?;
        Ok(text)
    }

    fn graph(&mut self) -> Result<Graph, Error> {
        let mut graph = Graph::default();
        loop {
            match self.fields.next()? {
                Some(Field::Start(name)) => match &*name {
                    "op" => graph.ops.push(self.op()?),
                    "node" => graph.ops.push(self.node()?),
                    "attr" => {
                        let (key, value) = self.attr()?;
                        if &*key == "_session_graph_id" {
                            graph.session_graph_id = Some(value.to_string());
                        }
                    }
                    _ => self.fields.skip()?,
                },
                Some(Field::Value(name, text)) if name == "name" => graph.name = self.text(&text)?,
                Some(Field::Value(..)) => {}
                Some(Field::End) | None => return Ok(graph),
            }
        }
    }

    fn op(&mut self) -> Result<Op, Error> {
        self.charge(size_of::<Op>())?;
        let mut op = Op::default();
        loop {
            match self.fields.next()? {
                Some(Field::Start(name)) => match &*name {
                    "attr" => {
                        let attr = self.attr()?;
                        op.attrs.push(attr);
                    }
                    "input_desc" => op.input_descs.push(self.desc()?),
                    "output_desc" => op.output_descs.push(self.desc()?),
                    _ => self.fields.skip()?,
                },
                Some(Field::Value(name, text)) => match &*name {
                    "name" => op.name = self.text(&text)?,
                    "type" => op.op_type = self.text(&text)?,
                    "id" => op.id = text.parse().unwrap_or_default(),
                    "input" => op.inputs.push(edge(&self.text(&text)?)),
                    "subgraph_name" => op.subgraphs.push(self.text(&text)?),
                    _ => {}
                },
                Some(Field::End) | None => return Ok(op),
            }
        }
    }

    /// A key and its value.
    fn attr(&mut self) -> Result<(Arc<str>, Attr), Error> {
        let mut key: Arc<str> = Arc::from("");
        let mut value = Attr::Skipped("no value".to_owned());
        loop {
            match self.fields.next()? {
                Some(Field::Start(name)) if name == "value" => value = self.value()?,
                Some(Field::Start(_)) => self.fields.skip()?,
                Some(Field::Value(name, text)) if name == "key" => key = self.name(&text)?,
                Some(Field::Value(..)) => {}
                Some(Field::End) | None => return Ok((key, value)),
            }
        }
    }

    fn value(&mut self) -> Result<Attr, Error> {
        let mut value = Attr::Skipped("no value".to_owned());
        loop {
            match self.fields.next()? {
                Some(Field::Start(name)) => match &*name {
                    "list" => value = Attr::List(self.list()?),
                    "list_list_int" | "list_list_i" | "list_list_float" | "list_list_f" => {
                        value = Attr::List(self.lists()?);
                    }
                    other => {
                        let what = self.text(other)?;
                        value = Attr::Skipped(what);
                        self.fields.skip()?;
                    }
                },
                Some(Field::Value(name, text)) => {
                    self.charge(0)?;
                    if let Some(read) = scalar(&name, &text) {
                        value = read;
                    }
                }
                Some(Field::End) | None => return Ok(value),
            }
        }
    }

    fn list(&mut self) -> Result<Vec<Attr>, Error> {
        let mut items = Vec::new();
        loop {
            match self.fields.next()? {
                Some(Field::Start(_)) => self.fields.skip()?,
                Some(Field::Value(name, text)) => {
                    self.charge(text.len().min(MAX_TEXT))?;
                    items.extend(scalar(&name, &text));
                }
                Some(Field::End) | None => return Ok(items),
            }
        }
    }

    fn lists(&mut self) -> Result<Vec<Attr>, Error> {
        let mut items = Vec::new();
        loop {
            match self.fields.next()? {
                Some(Field::Start(_)) => {
                    self.charge(0)?;
                    items.push(Attr::List(self.numbers()?));
                }
                Some(Field::Value(..)) => {}
                Some(Field::End) | None => return Ok(items),
            }
        }
    }

    /// The numbers of a list, whatever the field is called.
    fn numbers(&mut self) -> Result<Vec<Attr>, Error> {
        let mut items = Vec::new();
        loop {
            match self.fields.next()? {
                Some(Field::Start(_)) => self.fields.skip()?,
                Some(Field::Value(_, text)) => {
                    self.charge(0)?;
                    items.push(text.parse().map_or_else(|_| Attr::Text(shortened(&text)), Attr::Int));
                }
                Some(Field::End) | None => return Ok(items),
            }
        }
    }

    fn desc(&mut self) -> Result<TensorDesc, Error> {
        self.charge(size_of::<TensorDesc>())?;
        let mut desc = TensorDesc::default();
        loop {
            match self.fields.next()? {
                Some(Field::Start(name)) => match &*name {
                    "shape" => {
                        desc.shape = self.numbers()?.iter().filter_map(number).collect();
                    }
                    "attr" => {
                        let attr = self.attr()?;
                        desc.attrs.push(attr);
                    }
                    _ => self.fields.skip()?,
                },
                Some(Field::Value(name, text)) => match &*name {
                    "dtype" => desc.dtype = self.name(&text)?,
                    "layout" => desc.layout = self.name(&text)?,
                    _ => {}
                },
                Some(Field::End) | None => return Ok(desc),
            }
        }
    }

    /// A node of a `ge_onnx` file: what GE knows of its tensors is in attributes such as `input_desc_dtype:0`.
    fn node(&mut self) -> Result<Op, Error> {
        self.charge(size_of::<Op>())?;
        let mut op = Op::default();
        loop {
            match self.fields.next()? {
                Some(Field::Start(name)) if name == "attribute" => {
                    let (key, value) = self.onnx_attribute()?;
                    self.of_node(&mut op, key, value)?;
                }
                Some(Field::Start(_)) => self.fields.skip()?,
                Some(Field::Value(name, text)) => match &*name {
                    "name" => op.name = self.text(&text)?,
                    "op_type" => op.op_type = self.text(text.strip_prefix("ge:").unwrap_or(&text))?,
                    "input" => op.inputs.push(edge(&self.text(&text)?)),
                    _ => {}
                },
                Some(Field::End) | None => return Ok(op),
            }
        }
    }

    fn onnx_attribute(&mut self) -> Result<(Arc<str>, Attr), Error> {
        let mut key: Arc<str> = Arc::from("");
        let (mut one, mut items, mut is_list) = (None, Vec::new(), false);
        loop {
            match self.fields.next()? {
                Some(Field::Start(_)) => self.fields.skip()?,
                Some(Field::Value(name, text)) => {
                    self.charge(text.len().min(MAX_TEXT))?;
                    match &*name {
                        "name" => key = self.name(&text)?,
                        "s" | "i" | "f" => one = scalar(&name, &text),
                        "ints" => items.extend(scalar("i", &text)),
                        "strings" => items.extend(scalar("s", &text)),
                        "floats" => items.extend(scalar("f", &text)),
                        "type" => is_list = text.ends_with('S'),
                        _ => {}
                    }
                }
                Some(Field::End) | None => {
                    let list = || Attr::List(items);
                    return Ok((key, one.filter(|_| !is_list).unwrap_or_else(list)));
                }
            }
        }
    }

    fn of_node(&mut self, op: &mut Op, key: Arc<str>, value: Attr) -> Result<(), Error> {
        if &*key == "id" {
            op.id = number(&value).unwrap_or_default();
        }
        let place = key.rsplit_once(':').and_then(|(name, at)| Some((name, at.parse::<usize>().ok()?)));
        let (Some((name, at)), is_input) = (place, key.starts_with("input_desc_")) else {
            op.attrs.push((key, value));
            return Ok(());
        };
        let field = name.strip_prefix("input_desc_").or_else(|| name.strip_prefix("output_desc_"));
        let (Some(field), true) = (field, at < MAX_TENSORS) else {
            op.attrs.push((key, value));
            return Ok(());
        };
        let descs = if is_input { &mut op.input_descs } else { &mut op.output_descs };
        if descs.len() <= at {
            let missing = at + 1 - descs.len();
            self.budget
                .charge("the operators of a graph", missing * size_of::<TensorDesc>())
                .map_err(Error::whole)?;
            descs.resize_with(at + 1, TensorDesc::default);
        }
        let desc = &mut descs[at];
        let list = |value: Attr| if let Attr::List(items) = value { items } else { Vec::new() };
        match field {
            "dtype" => desc.dtype = value.to_string().into(),
            "layout" => desc.layout = value.to_string().into(),
            "shape" => desc.shape = list(value).iter().filter_map(number).collect(),
            "origin_layout" => desc.attrs.push((Arc::from("origin_format"), value)),
            field => {
                let name = field.strip_prefix("attr_").unwrap_or(field);
                desc.attrs.push((name.into(), value));
            }
        }
        Ok(())
    }
}

/// More inputs or outputs than an operator has.
const MAX_TENSORS: usize = 1 << 12;

/// A value by the name of its field.
fn scalar(name: &str, text: &str) -> Option<Attr> {
    Some(match name {
        "s" | "bt" | "dt" | "expression" => Attr::Text(shortened(text)),
        "i" => Attr::Int(text.parse().ok()?),
        "f" => Attr::Float(text.trim_end_matches('f').parse().ok()?),
        "b" => Attr::Bool(text == "true" || text == "1"),
        _ => return None,
    })
}

fn number(attr: &Attr) -> Option<i64> {
    if let Attr::Int(number) = attr { Some(*number) } else { None }
}

/// `name:0`, `name:-1`; names may have colons.
fn edge(text: &str) -> Edge {
    match text.rsplit_once(':').and_then(|(source, index)| Some((source, index.parse().ok()?))) {
        Some((source, index)) => Edge { source: source.to_owned(), index },
        None => Edge { source: text.to_owned(), index: 0 },
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
