//! Names that no honest file of tensors contains.
//!
//! Nothing is ever called here, whatever the name: an unknown class becomes an opaque value. But a
//! file that names a way to run code was made to attack whoever opens it with Python. The user should know
//! that before the file is passed on.

/// Modules of which every name is refused, with all their submodules. Names that a user's own package may have
/// (`code.model.Net`, `ssl.SimSiam`) are not in this list: of those modules only the harmful names are refused.
const MODULES: &[&str] = &[
    "_aix_support",
    "_imp",
    "_osx_support",
    "_pickle",
    "_posixsubprocess",
    "_socket",
    "asyncio",
    "bdb",
    "cProfile",
    "cloudpickle",
    "codeop",
    "ctypes",
    "dill",
    "distutils",
    "ensurepip",
    "ftplib",
    "http.client",
    "http.cookiejar",
    "http.server",
    "idlelib",
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
    "pty",
    "pydoc",
    "requests",
    "runpy",
    "shelve",
    "shutil",
    "smtplib",
    "socket",
    "subprocess",
    "sys",
    "threading",
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
    ("_functools", "partial"),
    ("_functools", "reduce"),
    ("_io", "FileIO"),
    ("_io", "open"),
    ("_io", "open_code"),
    ("_operator", "attrgetter"),
    ("_operator", "itemgetter"),
    ("_operator", "methodcaller"),
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
    ("code", "InteractiveConsole"),
    ("code", "InteractiveInterpreter"),
    ("code", "compile_command"),
    ("code", "interact"),
    ("functools", "partial"),
    ("functools", "partialmethod"),
    ("functools", "reduce"),
    ("imp", "create_dynamic"),
    ("imp", "find_module"),
    ("imp", "get_frozen_object"),
    ("imp", "init_builtin"),
    ("imp", "init_frozen"),
    ("imp", "load_compiled"),
    ("imp", "load_dynamic"),
    ("imp", "load_module"),
    ("imp", "load_package"),
    ("imp", "load_source"),
    ("imp", "reload"),
    ("io", "FileIO"),
    ("io", "open"),
    ("io", "open_code"),
    ("numpy", "fromfile"),
    ("numpy", "load"),
    ("numpy", "memmap"),
    ("numpy.testing._private.utils", "runstring"),
    ("operator", "attrgetter"),
    ("operator", "itemgetter"),
    ("operator", "methodcaller"),
    ("profile", "Profile"),
    ("profile", "main"),
    ("profile", "run"),
    ("profile", "runctx"),
    ("ssl", "SSLContext"),
    ("ssl", "SSLSocket"),
    ("ssl", "_create_unverified_context"),
    ("ssl", "create_connection"),
    ("ssl", "create_default_context"),
    ("ssl", "get_server_certificate"),
    ("ssl", "wrap_socket"),
    ("timeit", "Timer"),
    ("timeit", "main"),
    ("timeit", "repeat"),
    ("timeit", "timeit"),
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

/// Whether this name alone is a reason to refuse the file.
pub(super) fn is_refused(module: &str, name: &str) -> bool {
    if reaches_refused(&format!("{module}.{name}")) {
        return true;
    }
    // From protocol 4 on, a name may contain attributes: `os.system` within any module that imports `os`.
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
