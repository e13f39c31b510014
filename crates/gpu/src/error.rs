//! What can go wrong with a GPU.

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
        cause: libloading::Error,
    },
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
}
