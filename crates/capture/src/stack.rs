//! Where a call was made.

/// What is known of the frames that a call was made in.
#[derive(Clone, Debug, Default)]
pub struct CallStack {
    /// Its number in journals.
    pub id: u64,
    /// Whether others of its kind will have its id; if not, it is none.
    pub is_kept: bool,
    /// The frames as a list in JSON, innermost first.
    pub frames: String,
    /// The operator whose instruction made the call, if one did: `+`, `+=`, `==`.
    pub operator: Option<String>,
    /// Names that the caller's code mentions.
    pub names: Vec<String>,
    /// How many arguments the caller passed by position, if its instruction tells.
    pub positional: Option<usize>,
    /// The names of those that it passed by name.
    pub keywords: Vec<String>,
    /// The parent that such a call has: `optimizer`, `clip_grad`.
    pub parent: Option<String>,
    /// Whether it lies within activation checkpointing, where a forward during a backward is a repeated one.
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
