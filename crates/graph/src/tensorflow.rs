//! Graphs of TensorFlow: of a `.meta` file, of an event file, of the debugger.
//!
//! A node says which operator it is and where its inputs come from. Types and shapes of its outputs are known as far as
//! its attributes have them: the definitions of operators are not in the file.

use std::ops::Range;
use std::sync::Arc;

use ulpscope_formats::protobuf::{Field, Message};
use ulpscope_formats::tensorflow::{TfType, describe_tensor, graph_range, read_shape};
use ulpscope_formats::{Budget, Error, Fault};

use crate::model::{Attr, Edge, Graph, Op, TensorDesc};

/// Bytes of a file by which text and messages are distinguished.
const LOOKED_AT: usize = 256;

/// Bytes that an item takes in memory beside its text.
const ITEM: usize = 64;

/// Longer texts are shortened: functions as texts, vocabularies.
const MAX_TEXT: usize = 4096;

/// Attributes that have the type of the first output.
const OUTPUT_TYPES: [&str; 5] = ["dtype", "DstT", "out_type", "output_type", "T"];

/// Whether a file is a message and not text.
pub(crate) fn is_message(file: &[u8]) -> bool {
    let is_control = |byte: &u8| *byte < b' ' && !b"\t\n\r".contains(byte);
    file.iter().take(LOOKED_AT).any(is_control)
}

/// Reads the graph of a file, and then its functions.
pub(crate) fn graphs(file: &[u8], budget: &mut Budget) -> Result<Vec<Graph>, Error> {
    let Some(range) = graph_range(file)? else {
        let fault = Fault::malformed("a graph of TensorFlow (.meta, or an event file with a graph)", "none");
        return Err(Error::whole(fault));
    };
    let reader = NodeReader { file, budget };
    let mut graphs = vec![Graph::default()];
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => {
                let node = reader.node(field.range("node")?)?;
                graphs[0].ops.push(node);
            }
            2 => graphs.extend(reader.library(field.range("library")?)?),
            _ => {}
        }
    }
    for graph in &mut graphs {
        (0..).zip(&mut graph.ops).for_each(|(id, op)| op.id = id);
    }
    Ok(graphs)
}

struct NodeReader<'a> {
    file: &'a [u8],
    budget: &'a Budget,
}

impl NodeReader<'_> {
    fn charge(&self, bytes: usize) -> Result<(), Error> {
        self.budget.charge("the operators of a graph", ITEM + bytes).map_err(Error::whole)
    }

    fn text(&self, field: &Field, name: &str) -> Result<String, Error> {
        let text = field.text(self.file, name)?;
        self.charge(text.len().min(MAX_TEXT))?;
        Ok(match text.char_indices().nth(MAX_TEXT) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        })
    }

    fn library(&self, range: Range<usize>) -> Result<Vec<Graph>, Error> {
        let mut graphs = Vec::new();
        let mut message = Message::new(self.file, range);
        while let Some(field) = message.next_field()? {
            if field.number != 1 {
                continue;
            }
            self.charge(size_of::<Graph>())?;
            let mut graph = Graph::default();
            let mut function = Message::new(self.file, field.range("function")?);
            while let Some(field) = function.next_field()? {
                match field.number {
                    1 => {
                        let mut signature = Message::new(self.file, field.range("signature")?);
                        while let Some(field) = signature.next_field()? {
                            if field.number == 1 {
                                graph.name = self.text(&field, "name")?;
                            }
                        }
                    }
                    3 => graph.ops.push(self.node(field.range("node_def")?)?),
                    _ => {}
                }
            }
            graphs.push(graph);
        }
        Ok(graphs)
    }

    fn node(&self, range: Range<usize>) -> Result<Op, Error> {
        self.charge(size_of::<Op>())?;
        let mut op = Op::default();
        let mut shapes = None;
        let mut message = Message::new(self.file, range);
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => op.name = self.text(&field, "name")?,
                2 => op.op_type = self.text(&field, "op")?,
                3 => op.inputs.push(edge(&self.text(&field, "input")?)),
                5 => {
                    let (key, value) = self.attr(field.range("attr")?)?;
                    match (&*key, value) {
                        ("_output_shapes", Attr::List(items)) => shapes = Some(items),
                        (_, value) => op.attrs.push((key, value)),
                    }
                }
                _ => {}
            }
        }
        // Edges that carry data come first, as in graphs of GE.
        op.inputs.sort_by_key(Edge::is_control);
        op.output_descs = outputs(&op, shapes);
        self.charge(op.output_descs.len().saturating_mul(size_of::<TensorDesc>()))?;
        Ok(op)
    }

    fn attr(&self, range: Range<usize>) -> Result<(Arc<str>, Attr), Error> {
        let mut key: Arc<str> = Arc::from("");
        let mut value = Attr::Skipped("no value".to_owned());
        let mut message = Message::new(self.file, range);
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => key = self.text(&field, "key")?.into(),
                2 => value = self.value(field.range("value")?)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn value(&self, range: Range<usize>) -> Result<Attr, Error> {
        let mut value = Attr::Skipped("no value".to_owned());
        let mut message = Message::new(self.file, range);
        while let Some(field) = message.next_field()? {
            self.charge(0)?;
            if field.number == 1 {
                value = Attr::List(self.list(field.range("list")?)?);
            } else if let Some(one) = self.scalar(&field)? {
                value = one;
            }
        }
        Ok(value)
    }

    fn list(&self, range: Range<usize>) -> Result<Vec<Attr>, Error> {
        let mut items = Vec::new();
        let mut message = Message::new(self.file, range);
        while let Some(field) = message.next_field()? {
            self.charge(0)?;
            match field.number {
                // Numbers may be packed together.
                3 | 5 | 6 => {
                    let mut numbers = Vec::new();
                    let most = usize::try_from(self.budget.limit()).unwrap_or(usize::MAX) / ITEM;
                    field.extend(self.file, "items", most, &mut numbers)?;
                    self.charge(numbers.len().saturating_mul(ITEM))?;
                    items.extend(numbers.into_iter().map(|number| number_attr(field.number, number)));
                }
                4 => {
                    let floats = &self.file[field.fixed_width("f")?];
                    self.charge(floats.len().saturating_mul(ITEM))?;
                    items.extend(floats.as_chunks::<4>().0.iter().map(|bytes| float(*bytes)));
                }
                _ => items.extend(self.scalar(&field)?),
            }
        }
        Ok(items)
    }

    /// A value that is no list.
    fn scalar(&self, field: &Field) -> Result<Option<Attr>, Error> {
        Ok(Some(match field.number {
            2 => Attr::Text(self.text(field, "s")?),
            3 | 5 | 6 => number_attr(field.number, field.number_value("a value")?),
            4 => {
                let bytes = &self.file[field.fixed_width("f")?];
                bytes.first_chunk().map_or_else(|| Attr::Skipped("f".to_owned()), |bytes| float(*bytes))
            }
            7 => match read_shape(self.file, field.range("shape")?)? {
                Some(dims) => {
                    self.charge(dims.len() * ITEM)?;
                    Attr::List(dims.into_iter().map(Attr::Int).collect())
                }
                None => Attr::Skipped("unknown shape".to_owned()),
            },
            8 => {
                let found = describe_tensor(self.file, field.range("tensor")?)?;
                Attr::Skipped(format!("tensor {} {:?}", found.data_type, found.shape))
            }
            9 | 10 => Attr::Skipped("func".to_owned()),
            _ => return Ok(None),
        }))
    }
}

fn number_attr(field: u64, number: u64) -> Attr {
    match field {
        5 => Attr::Bool(number != 0),
        6 => Attr::Text(TfType(number).to_string()),
        _ => Attr::Int(number as i64),
    }
}

fn float(bytes: [u8; 4]) -> Attr {
    Attr::Float(f32::from_le_bytes(bytes).into())
}

/// `name`, `name:1`, `name:output:0` in a function, `^name` for control.
fn edge(text: &str) -> Edge {
    if let Some(source) = text.strip_prefix('^') {
        return Edge { source: source.to_owned(), index: -1 };
    }
    let source = text.split_once(':').map_or(text, |(source, _)| source);
    let index = text.rsplit_once(':').and_then(|(_, index)| index.parse().ok()).unwrap_or(0);
    Edge { source: source.to_owned(), index }
}

/// What the attributes say of the outputs.
fn outputs(op: &Op, shapes: Option<Vec<Attr>>) -> Vec<TensorDesc> {
    let named = |names: &[&str]| names.iter().find_map(|name| op.attr(name));
    let dtype: Arc<str> = match (op.op_type.as_str(), named(&OUTPUT_TYPES)) {
        ("VarHandleOp", _) => Arc::from("resource"),
        (_, Some(Attr::Text(dtype))) => dtype.as_str().into(),
        _ => Arc::from(""),
    };
    let layout: Arc<str> = named(&["data_format"]).map_or_else(String::new, Attr::to_string).into();
    let shapes = match (shapes, op.attr("shape"), op.op_type.as_str()) {
        (Some(shapes), ..) => shapes,
        (None, Some(shape @ Attr::List(_)), "Placeholder") => vec![shape.clone()],
        _ => return Vec::new(),
    };
    let size = |dim: &Attr| if let Attr::Int(size) = dim { *size } else { -1 };
    let desc = |(at, shape): (usize, &Attr)| TensorDesc {
        // The other outputs of an operator may be of different types.
        dtype: if at == 0 { Arc::clone(&dtype) } else { Arc::from("") },
        shape: if let Attr::List(dims) = shape { dims.iter().map(size).collect() } else { Vec::new() },
        layout: Arc::clone(&layout),
        attrs: Vec::new(),
    };
    shapes.iter().enumerate().map(desc).collect()
}
