//! `sutler provider new`: the beginning of a provider, which compiles and keeps every rule.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

use crate::{error::Error, ui::Ui};

/// What it is called, and where it goes.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The type of Providers that it serves: small letters, digits and -
    name: String,
    /// The folder to make [default: provider-NAME]
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
    /// The checkout of Sutler that it builds on [default: the one that this is run in]
    #[arg(long, value_name = "FOLDER")]
    sutler: Option<PathBuf>,
}

/// The files, with Acme where the name goes.
const FILES: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("template/Cargo.toml.txt")),
    ("README.md", include_str!("template/README.md.txt")),
    (".gitignore", "/target\n"),
    ("src/lib.rs", include_str!("template/src/lib.rs")),
    ("src/main.rs", include_str!("template/src/main.rs")),
    ("src/platform.rs", include_str!("template/src/platform.rs")),
    ("src/check.rs", include_str!("template/src/check.rs")),
    ("src/provider.rs", include_str!("template/src/provider.rs")),
];

const TEST: (&str, &str) = ("tests/conformance.rs", include_str!("template/tests/conformance.rs"));

/// Files of the checkout that go along: what it was built with works here too.
const ALONG: [&str; 3] = ["Cargo.lock", "rust-toolchain.toml", "rustfmt.toml"];

/// Makes it.
pub(super) fn run(args: &NewArgs, ui: &Ui) -> Result<ExitCode, Error> {
    let name = Name::parse(&args.name)?;
    let checkout = checkout(args.sutler.as_deref())?;
    let folder = args.path.clone().unwrap_or_else(|| format!("provider-{}", name.plain).into());
    if folder.exists() {
        let what = format!("{} is there already: name another with --path", folder.display());
        return Err(Error::Usage(what));
    }
    let failed = |path: &Path, source: std::io::Error| {
        Error::Failed(format!("{}: {source}", path.display()))
    };
    for (file, text) in FILES.into_iter().chain([TEST]) {
        let path = folder.join(file);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).map_err(|source| failed(parent, source))?;
        let text = name.fill(text).replace("@SUTLER@", &escaped(&checkout)?);
        fs::write(&path, text).map_err(|source| failed(&path, source))?;
    }
    for file in ALONG {
        let (from, to) = (checkout.join(file), folder.join(file));
        if from.exists() {
            fs::copy(&from, &to).map_err(|source| failed(&from, source))?;
        }
    }
    let shown = folder.display();
    ui.line(&format!("{shown} is a provider of type {}:", name.plain))?;
    ui.line(&format!("  cd {shown} && cargo test"))?;
    ui.line("docs/writing-a-provider.md tells what comes next.")?;
    Ok(ExitCode::SUCCESS)
}

/// A name in the forms that files need it in.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    plain: String,
    snake: String,
    camel: String,
}

impl Name {
    fn parse(text: &str) -> Result<Self, Error> {
        let parts: Vec<&str> = text.split('-').collect();
        let fits = |part: &&str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            !part.is_empty() && part.chars().all(plain)
        };
        let letter = text.starts_with(|c: char| c.is_ascii_lowercase());
        if !letter || text.len() > 40 || !parts.iter().all(fits) {
            let rule = "small letters, digits and single dashes, beginning with a letter, up to 40";
            return Err(Error::Usage(format!("{text:?} is no name of a provider: {rule}")));
        }
        let capital = |part: &&str| {
            let (first, rest) = part.split_at(1);
            first.to_ascii_uppercase() + rest
        };
        Ok(Self {
            plain: text.to_owned(),
            snake: text.replace('-', "_"),
            camel: parts.iter().map(capital).collect(),
        })
    }

    fn fill(&self, text: &str) -> String {
        text.replace("provider_acme", &format!("provider_{}", self.snake))
            .replace("Acme", &self.camel)
            .replace("acme", &self.plain)
    }
}

/// The checkout that was named, or that the current folder is in.
fn checkout(named: Option<&Path>) -> Result<PathBuf, Error> {
    let is = |folder: &Path| folder.join("crates/sutler-provider/Cargo.toml").is_file();
    let found = match named {
        Some(folder) => Some(folder.to_owned()).filter(|folder| is(folder)),
        None => {
            let here = std::env::current_dir()?;
            here.ancestors().find(|folder| is(folder)).map(Path::to_owned)
        }
    };
    let missing = || {
        let what = "a provider builds on Sutler's crates: run this in a checkout of Sutler, or name \
                    one with --sutler";
        Error::Usage(what.to_owned())
    };
    let found = found.ok_or_else(missing)?;
    // The crates themselves count: what leads to them may be a link.
    let inner = fs::canonicalize(found.join("crates/sutler-provider"))?;
    Ok(inner.ancestors().nth(2).map_or(found, Path::to_owned))
}

/// A path within a TOML string.
fn escaped(path: &Path) -> Result<String, Error> {
    let odd = || Error::Usage(format!("{} is no path that Cargo can read", path.display()));
    let text = path.to_str().ok_or_else(odd)?;
    Ok(text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_everywhere_or_refused() {
        let name = Name::parse("my-cloud2").unwrap();
        let filled = name.fill("provider_acme::AcmeProvider in provider-acme, type acme");
        let want = "provider_my_cloud2::MyCloud2Provider in provider-my-cloud2, type my-cloud2";
        assert_eq!(filled, want);
        for (file, text) in FILES.into_iter().chain([TEST]) {
            assert!(!name.fill(text).to_lowercase().contains("acme"), "{file}");
        }
        for text in ["", "My", "a b", "a--b", "-a", "a-", "2a", "a/b", "ä"] {
            assert!(Name::parse(text).is_err(), "{text:?}");
        }
    }
}
