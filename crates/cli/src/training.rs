//! Runs a training for precision_tool: the environment of the child alone is changed, and its exit code is passed on.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::SystemTime;

use anyhow::{Context, bail};
use serde_json::Value as Json;
use ulpscope_session::Language;
use ulpscope_shell::config::Config;
use ulpscope_shell::{DataFolders, DataKind, Dialect, Session, TrainingDevice, TrainingRequest};

use crate::commands::shell::show;
use crate::exit::Exit;
use crate::output::Output;

/// Patches TensorFlow's debugger in the training process.
const UNATTENDED: &str = include_str!("precision_tool/tfdbg_unattended.py");

/// The lines that a script needs for `tf_dump`.
const TF_DEBUG_LINES: &str = "sess = tf_debug.LocalCLIDebugWrapperSession(sess, ui_type=\"readline\"), or \
                              training_hooks=[tf_debug.LocalCLIDebugHook()] of an EstimatorSpec";

/// Operators with an overflow that are shown; `ac -l` shows more.
const OVERFLOWS: usize = 3;

/// Runs a step from the checkpoint. In the folder that the user made.
const FROM_CHECKPOINT: &str = "precision_tool/tf_train.py";

/// One training.
pub(crate) struct Training<'a> {
    command: &'a str,
    root: PathBuf,
    config: &'a Config,
    folders: DataFolders,
    /// The files that were there before it started.
    before: HashSet<FileVersion>,
}

/// A file, and when it was last written or replaced.
type FileVersion = (PathBuf, Option<SystemTime>, [i64; 2]);

fn version(path: &Path) -> FileVersion {
    let metadata = fs::metadata(path).ok();
    let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
    // A copy may have the time of its original; when it was made is a time of its own.
    #[cfg(unix)]
    let changed = metadata.map_or([0; 2], |metadata| {
        use std::os::unix::fs::MetadataExt;
        [metadata.ctime(), metadata.ctime_nsec()]
    });
    #[cfg(not(unix))]
    let changed = [0; 2];
    (path.to_owned(), modified, changed)
}

/// What a training writes.
const WRITTEN: [DataKind; 4] = [DataKind::NpuGraph, DataKind::NpuDump, DataKind::Overflow, DataKind::TfDump];

/// Runs the trainings that a command of the shell asks for: those of the checkpoint. The worst exit code counts.
pub(crate) fn run_requested(
    requests: &[TrainingRequest],
    config: &Config,
    language: Language,
    output: &mut Output,
) -> anyhow::Result<u8> {
    let mut worst = 0;
    for request in requests {
        if !Path::new(FROM_CHECKPOINT).is_file() {
            bail!("{FROM_CHECKPOINT} is missing: ulpscope precision-tool init . makes that folder");
        }
        let device = match request.device {
            TrainingDevice::Cpu => "cpu",
            TrainingDevice::Npu => "npu",
        };
        let command = format!("python3 {FROM_CHECKPOINT} {device}");
        output.line(&format!("[INFO] {command}"))?;
        let training = Training::new(&command, config)?;
        let code = match (request.device, request.detects_overflow) {
            (TrainingDevice::Cpu, _) => training.tf_dump(output)?,
            (TrainingDevice::Npu, true) => training.npu_overflow(language, output)?,
            (TrainingDevice::Npu, false) => training.npu_dump(output)?,
        };
        worst = worst.max(code);
    }
    Ok(worst)
}

impl<'a> Training<'a> {
    pub(crate) fn new(command: &'a str, config: &'a Config) -> anyhow::Result<Training<'a>> {
        // The training may change its folder.
        let root = std::path::absolute(&config.data_root)
            .with_context(|| format!("{}", config.data_root.display()))?;
        let folders = DataFolders::new(config.data_root.clone());
        let before = WRITTEN.into_iter().flat_map(|kind| folders.files(kind)).map(|path| version(&path));
        let before = before.collect();
        Ok(Training { command, root, config, folders, before })
    }

    /// `npu_dump`: graph and tensors.
    pub(crate) fn npu_dump(&self, output: &mut Output) -> anyhow::Result<u8> {
        let code = self.npu("PRECISION_TOOL_DUMP", output)?;
        if !self.is_new(DataKind::NpuGraph) {
            output.complain(&format!(
                "warning: no graph appeared in {}; the script must not unset DUMP_GE_GRAPH, DUMP_GRAPH_LEVEL and \
                 DUMP_GRAPH_PATH",
                self.graphs().display()
            ));
        }
        if !self.is_new(DataKind::NpuDump) {
            output.complain(&format!(
                "error: {}; the script needs session_dump_config or estimator_dump_config of \
                 precision_tool.tf_config",
                self.not_new(DataKind::NpuDump)
            ));
            return Ok(without_data(code));
        }
        Ok(code)
    }

    /// `npu_overflow`: overflow detection.
    pub(crate) fn npu_overflow(&self, language: Language, output: &mut Output) -> anyhow::Result<u8> {
        let code = self.npu("PRECISION_TOOL_OVERFLOW", output)?;
        let files = self.new_files(DataKind::Overflow);
        if files.is_empty() {
            output.complain(&format!(
                "note: {}; either nothing overflowed, or the script lacks session_dump_config or estimator_dump_config of \
                 precision_tool.tf_config",
                self.not_new(DataKind::Overflow)
            ));
            return Ok(without_data(code));
        }
        let session = Session::new(Dialect::PrecisionTool, self.config);
        let session = if language == Language::Chinese { session.in_chinese() } else { session };
        show(&session.overflows(OVERFLOWS, &files), output)?;
        Ok(code)
    }

    /// One line that says that the training has not written data of a kind.
    fn not_new(&self, kind: DataKind) -> String {
        if self.folders.files(kind).is_empty() {
            return self.folders.missing(kind);
        }
        let root = self.folders.root().display();
        format!("this training wrote no {}; the files below {root} are older", kind.name())
    }

    fn npu(&self, flag: &str, output: &mut Output) -> anyhow::Result<u8> {
        let mut child = self.child();
        let graphs = self.graphs();
        fs::create_dir_all(&graphs).with_context(|| format!("{}", graphs.display()))?;
        child.env(flag, "True");
        child.env("DUMP_GE_GRAPH", self.config.dump_graph_value.to_string());
        child.env("DUMP_GRAPH_LEVEL", self.config.dump_graph_level.to_string());
        child.env("DUMP_GRAPH_PATH", &graphs);
        child.env("NPU_DUMP_GRAPH", "true");
        if let Some(switches) = self.fusion_switches()? {
            child.env("FUSION_SWITCH_FILE", switches);
        }
        output.flush()?;
        self.run(child)
    }

    /// `tf_dump`: every tensor of the first step as npy.
    pub(crate) fn tf_dump(&self, output: &mut Output) -> anyhow::Result<u8> {
        let (debug, dump) = (self.root.join("tf/tf_debug"), self.root.join("dump/cpu"));
        let patch = self.root.join("temp/tfdbg_unattended");
        for folder in [&debug, &dump, &patch] {
            fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        let _removed = Removed(&patch);
        fs::write(patch.join("sitecustomize.py"), UNATTENDED)
            .with_context(|| format!("{}", patch.display()))?;
        let mut child = self.child();
        let mut path = patch.clone().into_os_string();
        if let Some(users) = std::env::var_os("PYTHONPATH").filter(|users| !users.is_empty()) {
            path.push(":");
            path.push(users);
        }
        child.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
        child.env("ULPSCOPE_TF_DEBUG_DIR", &debug).env("ULPSCOPE_TF_DUMP_DIR", &dump);
        output.flush()?;
        let code = self.run(child)?;
        if !self.is_new(DataKind::TfDump) {
            output.complain(&format!(
                "error: the training wrote no tensors; its script needs from tensorflow.python import debug as tf_debug, \
                 and {TF_DEBUG_LINES}"
            ));
            return Ok(without_data(code));
        }
        Ok(code)
    }

    fn graphs(&self) -> PathBuf {
        self.root.join("graph/all")
    }

    /// The user's line, in a shell: with its own parameters, as the guide writes it.
    fn child(&self) -> Command {
        let mut child = Command::new("/bin/sh");
        child.arg("-c").arg(self.command);
        child
    }

    fn run(&self, mut child: Command) -> anyhow::Result<u8> {
        // Ctrl-C is for the training, which ends; what it left is still reported.
        let ignored = std::sync::Arc::default();
        let handler = signal_hook::flag::register(signal_hook::consts::SIGINT, ignored)?;
        let status = child.status().context("cannot start /bin/sh")?;
        signal_hook::low_level::unregister(handler);
        Ok(code_of(status))
    }

    /// The fusion switch file of the settings, if the user has any. A broken one is found before the training starts.
    fn fusion_switches(&self) -> anyhow::Result<Option<PathBuf>> {
        let path = &self.config.fusion_switch_file;
        if *path == Config::default().fusion_switch_file && !path.exists() {
            return Ok(None);
        }
        let text =
            fs::read_to_string(path).with_context(|| format!("FUSION_SWITCH_FILE {}", path.display()))?;
        match serde_json::from_str::<Json>(&text) {
            Ok(switches) if switches.get("Switch").is_some_and(Json::is_object) => {
                Ok(Some(std::path::absolute(path)?))
            }
            Ok(_) => bail!("FUSION_SWITCH_FILE {}: expected an object with the key Switch", path.display()),
            Err(error) => bail!("FUSION_SWITCH_FILE {}: {error}", path.display()),
        }
    }

    /// The files of a kind that the training has written.
    fn new_files(&self, kind: DataKind) -> Vec<PathBuf> {
        let files = self.folders.files(kind).into_iter();
        files.filter(|path| !self.before.contains(&version(path))).collect()
    }

    /// Whether the training has written a file of a kind.
    fn is_new(&self, kind: DataKind) -> bool {
        !self.new_files(kind).is_empty()
    }
}

/// The exit code of a training that left no data: its own, if it failed.
fn without_data(code: u8) -> u8 {
    if code == 0 { Exit::Failed.code() } else { code }
}

/// A folder that is removed with its content.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0);
    }
}

/// The exit code; 128 and the number of the signal that ended the process, as shells have it.
fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
