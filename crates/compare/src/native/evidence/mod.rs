//! What was measured: how large tensors are and how far apart, by which call they were made, what fills of masks hide.
//!
//! ```text
//! two entries ──► measure ──► row
//!                   └──► tensor_error ──► call_evidence: some hundred bytes per entry, in entry_store
//! all evidence ──► flow: which call made what; written: what calls write into parameters
//! ```

pub(in crate::native) mod call_evidence;
pub(in crate::native) mod entry_store;
pub(in crate::native) mod flow;
pub(in crate::native) mod measure;
pub(in crate::native) mod operation;
pub(in crate::native) mod sentinels;
pub(in crate::native) mod shared_traits;
pub(in crate::native) mod tensor_error;
pub(in crate::native) mod unit_links;
pub(in crate::native) mod values;
pub(in crate::native) mod written;
