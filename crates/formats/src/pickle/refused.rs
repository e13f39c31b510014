//! Names that no file of tensors has an honest use for.
//!
//! Nothing is ever called here, whatever the name; an unknown class merely ends up as an opaque value. But a
//! file that names a way to run code was made to attack whoever opens it with Python, and the user should hear
//! so before the file travels on.

/// Modules of which every name is refused, with all their submodules.
const MODULES: &[&str] = &[
    "_aix_support",
    "_osx_support",
    "_pickle",
    "_posixsubprocess",
    "_socket",
    "asyncio",
    "bdb",
    "cProfile",
    "cloudpickle",
    "code",
    "codeop",
    "ctypes",
    "dill",
    "distutils",
    "ensurepip",
    "ftplib",
    "http",
    "idlelib",
    "imp",
    "importlib",
    "marshal",
    "multiprocessing",
    "nt",
    "os",
    "pdb",
    "pickle",
    "pip",
    "pkgutil",
    "popen2",
    "posix",
    "profile",
    "pty",
    "pydoc",
    "requests",
    "runpy",
    "shelve",
    "shutil",
    "smtplib",
    "socket",
    "ssl",
    "subprocess",
    "sys",
    "threading",
    "timeit",
    "torch.hub",
    "torch.jit",
    "torch.package",
    "torch.utils.cpp_extension",
    "torch.utils.model_zoo",
    "urllib",
    "urllib2",
    "venv",
    "webbrowser",
    "zipimport",
];

/// Single names, in modules that are otherwise harmless.
const NAMES: &[(&str, &str)] = &[
    ("_io", "FileIO"),
    ("_io", "open"),
    ("_io", "open_code"),
    ("_operator", "attrgetter"),
    ("_operator", "itemgetter"),
    ("_operator", "methodcaller"),
    ("_functools", "partial"),
    ("_functools", "reduce"),
    ("builtins", "__build_class__"),
    ("builtins", "__import__"),
    ("builtins", "apply"),
    ("builtins", "breakpoint"),
    ("builtins", "compile"),
    ("builtins", "delattr"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "execfile"),
    ("builtins", "file"),
    ("builtins", "filter"),
    ("builtins", "getattr"),
    ("builtins", "globals"),
    ("builtins", "help"),
    ("builtins", "input"),
    ("builtins", "locals"),
    ("builtins", "map"),
    ("builtins", "open"),
    ("builtins", "reload"),
    ("builtins", "setattr"),
    ("builtins", "vars"),
    ("functools", "partial"),
    ("functools", "partialmethod"),
    ("functools", "reduce"),
    ("io", "FileIO"),
    ("io", "open"),
    ("io", "open_code"),
    ("numpy", "load"),
    ("numpy", "fromfile"),
    ("numpy", "memmap"),
    ("numpy.testing._private.utils", "runstring"),
    ("operator", "attrgetter"),
    ("operator", "itemgetter"),
    ("operator", "methodcaller"),
    ("torch", "load"),
    ("torch", "save"),
    ("torch._C", "_jit_script_compile"),
    ("torch.fx.graph_module", "reduce_graph_module"),
    ("torch.fx.graph_module", "reduce_package_graph_module"),
    ("torch.ops", "load_library"),
    ("torch.serialization", "load"),
    ("torch.serialization", "save"),
    ("torch.storage", "_load_from_bytes"),
    ("types", "CodeType"),
    ("types", "FunctionType"),
];

/// Whether naming this is reason enough to refuse the file.
pub(super) fn is_refused(module: &str, name: &str) -> bool {
    if reaches_refused(&format!("{module}.{name}")) {
        return true;
    }
    // From protocol 4 on a name may reach through attributes: `os.system` within any module that imports `os`.
    let mut rest = name;
    while let Some((_, after)) = rest.split_once('.') {
        if reaches_refused(rest) {
            return true;
        }
        rest = after;
    }
    false
}

fn reaches_refused(path: &str) -> bool {
    let follows = |rest: &str| rest.is_empty() || rest.starts_with('.');
    MODULES.iter().any(|module| path.strip_prefix(module).is_some_and(follows))
        || NAMES.iter().any(|(module, name)| {
            let rest = path.strip_prefix(module).and_then(|rest| rest.strip_prefix('.'));
            rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(follows)
        })
}
