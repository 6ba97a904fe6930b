//! What README.md and docs/ tell people to type is typed here.
//!
//! The `sh` blocks of a file are one session, in order, and `yaml` blocks are applied; a block
//! without a language is a picture. In HTML comments, which readers do not see, `test: skip WHY`
//! leaves out the block that follows, and `test:` before shell lines has them run at that place.

#![expect(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    fmt::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{runs::Run, support::peer_kubectl};

/// What is ready before the first line of a session. Programs that go on until they are ended
/// return once they can be used.
const PRELUDE: &str = r#"
set -eu -o pipefail
trap 'echo "$AT: this does not work" >&2' ERR
SERVER=
stop() { if [ -n "$SERVER" ]; then kill -TERM "$SERVER"; wait "$SERVER" || true; SERVER=; fi; }
trap stop EXIT
serve() {
    stop
    exec 3< <(exec "$PWD/target/release/sutler" serve "$@" 2>>log)
    SERVER=$!
    read -r -t 60 line <&3 || { cat log >&2; return 1; }
    case $line in "Sutler serves the Kubernetes API at "*) ;; *) echo "$line" >&2; return 1 ;; esac
}
sutler() { if [ "$1" = serve ]; then shift; serve "$@"; else command sutler "$@"; fi; }
make() { [ "$*" = run ] && serve --playground --data-dir .sutler --listen 127.0.0.1:0; }
ROOT=$PWD
PROVIDERS=
trap 'stop; for pid in $PROVIDERS; do kill -TERM "$pid"; done' EXIT
cargo() {
    if [ "$1" != run ]; then command cargo "$1" --offline --profile "$PROFILE" "${@:2}"; return; fi
    command cargo build --offline --profile "$PROFILE"
    shift 2
    exec 4< <(exec "$CARGO_TARGET_DIR/$PROFILE/${PWD##*/}" "$@" 2>>"$ROOT/log")
    PROVIDERS="$PROVIDERS $!"
    read -r -t 60 line <&4 || { cat "$ROOT/log" >&2; return 1; }
    case $line in "listening on "*) ;; *) echo "$line" >&2; return 1 ;; esac
}
instead() { sed -e "s|/run/acme.sock|$ROOT/acme.sock|g" -e "s|127.0.0.1:9443|$FREE|g"; }
"#;

/// What stands in a text for what is different on every machine.
const INSTEAD: [(&str, &str); 4] = [
    ("/var/lib/sutler", "\"$PWD\"/data"),
    ("127.0.0.1:7443", "127.0.0.1:0"),
    ("/run/acme.sock", "\"$ROOT\"/acme.sock"),
    ("127.0.0.1:9443", "\"$FREE\""),
];

#[test]
fn the_readme_works() {
    session("README.md");
}

#[test]
fn the_operators_manual_works() {
    session("docs/operating.md");
}

#[test]
fn the_page_on_machines_works() {
    session("docs/machines.md");
}

#[test]
fn the_page_on_the_simulated_hypervisor_works() {
    session("docs/provider-sim.md");
}

#[test]
fn the_page_on_libvirt_works() {
    session("docs/provider-libvirt.md");
}

/// It builds a crate of its own, with what this build has made already where that fits.
#[test]
fn the_guide_to_providers_works() {
    session("docs/writing-a-provider.md");
}

#[test]
fn the_page_on_snapshots_and_copies_works() {
    session("docs/snapshots-and-clones.md");
}

#[test]
fn sets_and_placement_work() {
    session("docs/sets-and-placement.md");
}

#[test]
fn the_page_on_cluster_autoscaler_works() {
    session("docs/cluster-autoscaler.md");
}

#[test]
fn the_page_on_vpsie_works() {
    session("docs/provider-vpsie.md");
}

#[test]
fn the_page_on_node_groups_works() {
    session("docs/node-groups.md");
}

#[test]
fn the_page_on_scaling_works() {
    session("docs/scaling.md");
}

#[test]
fn no_document_is_left_out() {
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut docs: Vec<String> = docs.filter(|name| name.ends_with(".md")).collect();
    docs.sort();
    let tested = [
        "cluster-autoscaler.md",
        "machines.md",
        "node-groups.md",
        "operating.md",
        "provider-libvirt.md",
        "provider-sim.md",
        "provider-vpsie.md",
        "scaling.md",
        "sets-and-placement.md",
        "snapshots-and-clones.md",
        "writing-a-provider.md",
    ];
    assert_eq!(docs, tested, "add a test for each");
}

#[test]
fn what_does_not_work_is_named() {
    let text = "# X\n\n```\npicture\n```\n\n<!-- test: skip it ends nowhere -->\n\n```sh\nfalse\n```\n\n<!-- test:\nX=1\n-->\n\n```sh\ntest $X = 1\necho seen\ntest $X = 2 # no\necho unseen\n```\n";
    let run = run("x.md", text, Path::new("/nowhere"));
    assert_ne!(run.code, 0);
    assert_eq!(run.out, "seen\n");
    assert!(run.err.contains("x.md:18: this does not work"), "{}", run.err);
}

/// Runs a document of the checkout.
fn session(file: &str) {
    let Some(kubectl) = peer_kubectl() else { return };
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    for (program, version) in [("sqlite3", "-version"), ("openssl", "version")] {
        let used = text.lines().any(|line| line.trim_start().starts_with(&format!("{program} ")));
        if used && Command::new(program).arg(version).output().is_err() {
            println!("SKIPPED: {program} is not installed, and {file} needs it");
            return;
        }
    }
    let run = run(file, &text, &kubectl);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}

fn root() -> PathBuf {
    std::path::absolute("../..").unwrap()
}

/// Runs the session of a text in a folder that looks like the checkout with a finished build.
fn run(file: &str, text: &str, kubectl: &Path) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("target/release");
    std::fs::create_dir_all(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_sutler"), bin.join("sutler")).unwrap();
    symlink(kubectl, bin.join("kubectl")).unwrap();
    for part in ["examples", "crates"] {
        symlink(root().join(part), folder.path().join(part)).unwrap();
    }
    // Crates that the text has built are built where this one was, in the same way.
    let built = Path::new(env!("CARGO_BIN_EXE_sutler")).parent().unwrap();
    let profile = built.file_name().unwrap().to_str().unwrap();
    let profile = if profile == "debug" { "dev" } else { profile };
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let own = |name: &str, or: &str| std::env::var_os(name).unwrap_or(home.join(or).into());
    // Nobody keeps it: it was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let script = format!("{PRELUDE}{}", script(file, text));
    let mut command = Command::new("timeout");
    command
        .args(["1200", "bash", "-c", &script])
        .env("CARGO_TARGET_DIR", built.parent().unwrap())
        .env("CARGO_HOME", own("CARGO_HOME", ".cargo"))
        .env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"))
        .env("CARGO_PROFILE_CI_INHERITS", "dev")
        .env("CARGO_PROFILE_CI_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_CI_DEBUG", "false")
        .env("PROFILE", profile)
        .env("FREE", free.to_string())
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("HOME", folder.path())
        .env_remove("KUBECONFIG")
        .env_remove("SUTLER_KUBECONFIG")
        .env_remove("SUTLER_SECRETS_KEY")
        .current_dir(folder.path())
        .stdin(Stdio::null());
    // What cargo tells this test about its own crate would make the cargo that it runs build again whatever
    // asks for that, and the next one too, which is not told.
    let told = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    for (name, _) in std::env::vars().filter(|(name, _)| told(name)) {
        command.env_remove(name);
    }
    command.output().unwrap().into()
}

/// The shell script of a document.
fn script(file: &str, text: &str) -> String {
    let mut script = String::new();
    let mut skip = false;
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        // Lines are counted from 1, and the block begins on the next one.
        let at = format!("AT={file}:{}\n", number + 2);
        let mut until = |end: &str| -> String {
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != end);
            body.fold(String::new(), |all, line| all + line + "\n")
        };
        if let Some(language) = line.strip_prefix("```") {
            let body = until("```");
            if std::mem::take(&mut skip) {
                continue;
            }
            match language {
                "" => {}
                "sh" => script.push_str(&(at + &typed(&body))),
                "yaml" => {
                    let here = format!("{at}instead <<'END_OF_BLOCK' | sutler apply -f -\n{body}");
                    writeln!(script, "{here}END_OF_BLOCK").unwrap();
                }
                other => panic!("{file}:{}: nobody runs {other:?}", number + 1),
            }
        } else if line.starts_with("<!-- test: skip ") {
            skip = true;
        } else if line == "<!-- test:" {
            script.push_str(&(at + &typed(&until("-->"))));
        } else {
            assert!(!line.starts_with("<!-- test"), "{file}:{}: {line}", number + 1);
        }
    }
    assert!(!skip, "{file} leaves out a block that is not there");
    script
}

/// Lines as they are typed here: nothing is put into the background, since what goes on returns.
fn typed(body: &str) -> String {
    let mut lines: String = body
        .lines()
        .map(|line| line.strip_suffix(" &").unwrap_or(line))
        .fold(String::new(), |all, line| all + line + "\n");
    for (there, here) in INSTEAD {
        lines = lines.replace(there, here);
    }
    lines
}
