//! Embeds the page that `make web` builds. Without it everything else is built, and whatever needs the page says how to
//! get it.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=page/index.html");
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let page = folder.join("page/index.html");
    let source = if page.is_file() {
        format!("Some(include_str!({:?}))", page.display().to_string())
    } else {
        println!(
            "cargo:warning=the page of reports is not built: install Node.js 20.19 or newer with npm, then run `make web`"
        );
        "None".to_owned()
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if let Err(error) = fs::write(out.join("page.rs"), source) {
        println!("cargo:warning=cannot write the source of the page: {error}");
    }
}
