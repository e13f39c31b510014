//! `ulpscope precision-tool`: what `precision_tool/cli.py` does with arguments, and the making of that folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ulpscope_session::Language;
use ulpscope_shell::{Dialect, Ending, Session, words};

use super::shell::{Shell, configured, show};
use crate::args::{PrecisionToolAction, PrecisionToolArgs, ShellArgs, language};
use crate::exit::Exit;
use crate::output::Output;
use crate::training::{Training, run_requested};

/// The files of the folder `precision_tool`.
const FILES: [(&str, &str); 8] = [
    ("__init__.py", include_str!("../precision_tool/__init__.py")),
    ("cli.py", include_str!("../precision_tool/cli.py")),
    ("config.py", include_str!("../precision_tool/config.py")),
    ("fusion_off.cfg", include_str!("../precision_tool/fusion_off.cfg")),
    ("fusion_switch.cfg", include_str!("../precision_tool/fusion_switch.cfg")),
    ("tf_config.py", include_str!("../precision_tool/tf_config.py")),
    ("tf_session.py", include_str!("../precision_tool/tf_session.py")),
    ("tf_train.py", include_str!("../precision_tool/tf_train.py")),
];

/// Runs an action; returns the exit code.
pub(crate) fn run(args: PrecisionToolArgs, output: &mut Output) -> anyhow::Result<u8> {
    let PrecisionToolArgs { action, config, lang } = args;
    let exit = match action {
        PrecisionToolAction::Init { dir, force } => init(&dir, force, output)?,
        PrecisionToolAction::Data { dir } => open_shell(dir, config, lang, output)?,
        PrecisionToolAction::Infer { dir } => {
            let (settings, _) = configured(config.clone(), None)?;
            import(&dir, &settings.data_root)?;
            output.line(&format!("{} is imported into {}", dir.display(), settings.data_root.display()))?;
            open_shell(settings.data_root, config, lang, output)?
        }
        PrecisionToolAction::Compare { words } => one_command("cp", &words, config, output)?,
        PrecisionToolAction::VectorCompare { words } => one_command("vc", &words, config, output)?,
        PrecisionToolAction::Train { words } => {
            let config = settings(config, output)?;
            let given = separate(&words)?;
            let reply = Session::new(Dialect::PrecisionTool, &config).command("train", &given);
            let code = match show(&reply, output)? {
                Ending::Failed => Exit::Failed.code(),
                _ => run_requested(&reply.trainings, &config, language(lang)?, output)?,
            };
            output.flush()?;
            return Ok(code);
        }
        PrecisionToolAction::TfDump { command } => {
            return Training::new(&command, &settings(config, output)?)?.tf_dump(output);
        }
        PrecisionToolAction::NpuDump { command } => {
            return Training::new(&command, &settings(config, output)?)?.npu_dump(output);
        }
        PrecisionToolAction::NpuOverflow { command } => {
            let code =
                Training::new(&command, &settings(config, output)?)?.npu_overflow(language(lang)?, output)?;
            output.flush()?;
            return Ok(code);
        }
    };
    output.flush()?;
    Ok(exit.code())
}

fn settings(config: Option<PathBuf>, output: &mut Output) -> anyhow::Result<ulpscope_shell::config::Config> {
    let (config, problems) = configured(config, None)?;
    problems.iter().for_each(|problem| output.complain(&format!("warning: {problem}")));
    Ok(config)
}

/// Makes the folder. Nothing is replaced without being asked: `config.py` and the switch files are edited by users.
fn init(dir: &Path, force: bool, output: &mut Output) -> anyhow::Result<Exit> {
    let folder = dir.join("precision_tool");
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    let existing: Vec<&str> =
        FILES.iter().map(|(name, _)| *name).filter(|name| folder.join(name).exists()).collect();
    if !existing.is_empty() && !force {
        bail!("{}: has {} already; --force replaces them", folder.display(), existing.join(", "));
    }
    for (name, text) in FILES {
        fs::write(folder.join(name), text).with_context(|| format!("{}", folder.join(name).display()))?;
    }
    output.line(&format!("{} has {}", folder.display(), FILES.map(|(name, _)| name).join(", ")))?;
    Ok(Exit::Done)
}

fn open_shell(
    data: PathBuf,
    config: Option<PathBuf>,
    lang: Option<Language>,
    output: &mut Output,
) -> anyhow::Result<Exit> {
    let args = ShellArgs {
        data: Some(data),
        parse: false,
        command: Vec::new(),
        allow_commands: false,
        config,
        lang,
    };
    Shell::try_from(args)?.run(output)
}

/// Runs a command of the shell. Its arguments may be one text, as in the guide.
fn one_command(
    name: &str,
    given: &[String],
    config: Option<PathBuf>,
    output: &mut Output,
) -> anyhow::Result<Exit> {
    let config = settings(config, output)?;
    let given = separate(given)?;
    let reply = Session::new(Dialect::PrecisionTool, &config).command(name, &given);
    Ok(match show(&reply, output)? {
        Ending::Done => Exit::Done,
        Ending::Differs => Exit::Differ,
        Ending::Failed => Exit::Failed,
    })
}

/// The words of a command, which may be one text, as in the guide.
fn separate(given: &[String]) -> anyhow::Result<Vec<String>> {
    match given {
        [one] => words::split(one).map_err(anyhow::Error::msg),
        several => Ok(several.to_vec()),
    }
}

/// Makes a `precision_data` of what msquickcmp left: its graphs, the dumps of both sides, and its results.
fn import(dir: &Path, root: &Path) -> anyhow::Result<()> {
    if dir.extension().is_some_and(|extension| extension == "om") {
        bail!(
            "{}: an .om model is not run here; give the folder that msquickcmp wrote for it",
            dir.display()
        );
    }
    if root.exists() {
        bail!("{}: exists already; move it away first", root.display());
    }
    if !dir.join("dump_data").is_dir() && !dir.join("model").is_dir() {
        bail!("{}: expected the folders model and dump_data of msquickcmp", dir.display());
    }
    for (number, graph) in files_with(&dir.join("model"), "json")?.iter().enumerate() {
        link(graph, &root.join(format!("npu/debug_0/graph/ge_proto_{number:08}_Build.txt.json")))?;
    }
    for framework in ["tf", "onnx"] {
        for file in files_with(&dir.join("dump_data").join(framework), "npy")? {
            link(&file, &root.join("tf/dump").join(file.file_name().unwrap_or_default()))?;
        }
    }
    link_tree(&dir.join("dump_data/npu"), &root.join("npu/debug_0/dump"))?;
    for file in files_with(dir, "csv")? {
        link(&file, &root.join("temp/vector_compare/0").join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// The files of a folder with an extension, in order; none if there is no such folder.
fn files_with(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file() && path.extension().is_some_and(|found| found == extension));
    files.sort();
    Ok(files)
}

fn link_tree(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(from).with_context(|| format!("{}", from.display()))?.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        // Links are not followed: one may lead back, or to the rest of the disk.
        match entry.file_type()? {
            kind if kind.is_dir() => link_tree(&path, &target)?,
            kind if kind.is_file() => link(&path, &target)?,
            _ => {}
        }
    }
    Ok(())
}

/// The same file under a second name; a copy, where the file system has no second names.
fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).with_context(|| format!("{}", to.display()))?;
    }
    Ok(())
}
