//! What can go wrong with a GPU.

use std::path::PathBuf;

use ulpscope_tensor::DType;

/// An error of a GPU, or of the libraries that lead to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A library could not be opened, or lacks a function.
    #[error("{library} cannot be used: {cause}")]
    Library {
        /// Its name.
        library: &'static str,
        /// The loader's message.
        cause: String,
    },
    /// No file of NVRTC was found.
    #[error("NVRTC cannot be used: no libnvrtc among torch's packages ({}) or where the loader looks", .0.display())]
    NoCompiler(PathBuf),
    /// The compiler refused the kernel.
    #[error("the kernel does not compile for {architecture} (code {code}): {log}")]
    Compile {
        /// For example `sm_90`.
        architecture: String,
        /// NVRTC's code.
        code: i32,
        /// Its messages.
        log: String,
    },
    /// A function of the compiler failed.
    #[error("{function} of NVRTC failed with code {code}")]
    Compiler {
        /// The function.
        function: &'static str,
        /// NVRTC's code.
        code: i32,
    },
    /// A function of the driver failed.
    #[error("{function} of the CUDA driver failed with code {code}")]
    Driver {
        /// The function.
        function: &'static str,
        /// The driver's code.
        code: i32,
    },
    /// The kernel has no such dtype.
    #[error("the kernel does not measure {0}")]
    Dtype(DType),
    /// More dimensions than the kernel knows, after those that lie one behind the other are joined.
    #[error("the kernel measures tensors of up to 8 separate dimensions, found {0}")]
    Rank(usize),
    /// The kernel's numbers are not those of the host.
    #[error("the kernel failed its self-check with {dtype}: expected {expected}, found {found}")]
    SelfCheck {
        /// The dtype.
        dtype: DType,
        /// The host's numbers.
        expected: String,
        /// The kernel's.
        found: String,
    },
    /// The self-check did not come to an end.
    #[error("the self-check of the kernel gave no numbers within {0} seconds")]
    NoAnswer(u64),
    /// More streams than there is scratch memory for.
    #[error("the program uses more than {0} streams")]
    Streams(usize),
    /// More captured graphs than there is memory for.
    #[error("the captured graphs of the program need more than {0} MiB of the GPU for their results")]
    Graphs(usize),
    /// Too many tensors are being measured.
    #[error("{0} tensors are being measured, which is the limit")]
    Full(usize),
}

impl Error {
    /// An error of the loader, whose own text leaves out the reason.
    pub(crate) fn of_loader(library: &'static str, error: &libloading::Error) -> Error {
        let reason = std::error::Error::source(error).map(|source| format!(": {source}"));
        Error::Library { library, cause: format!("{error}{}", reason.unwrap_or_default()) }
    }
}
