//! Where a call was made.

/// The frames that a call was made in.
#[derive(Clone, Debug, Default)]
pub struct CallStack {
    /// Its number in journals.
    pub id: u64,
    /// Whether equal stacks get the same id; if not, it has none.
    pub is_kept: bool,
    /// The frames as a list in JSON, innermost first.
    pub frames: String,
    /// The operator whose instruction made the call, if one did: `+`, `+=`, `==`.
    pub operator: Option<String>,
    /// Names that the caller's code mentions.
    pub names: Vec<String>,
    /// How many arguments the caller passed by position, if its instruction shows that.
    pub positional: Option<usize>,
    /// The names of those that it passed by name.
    pub keywords: Vec<String>,
    /// The parent of calls from here, if fixed: `optimizer`, `clip_grad`.
    pub parent: Option<String>,
    /// Whether it is inside activation checkpointing, where a forward during a backward is a recomputation.
    pub is_checkpoint: bool,
}

impl CallStack {
    /// Whether the caller's code mentions a name.
    pub fn mentions(&self, name: &str) -> bool {
        // `linalg.norm` is mentioned as `norm`.
        let last = name.rsplit('.').next().unwrap_or(name);
        self.names.iter().any(|known| known == last)
    }
}
