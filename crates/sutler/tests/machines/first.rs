//! What a person does in the first minute.

use std::process::Command;

use crate::server::Form;

/// Runs the program as the administrator of the embedded server.
pub(crate) fn sutler(args: &[&str]) -> String {
    let server = Form::Embedded.server().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sutler"))
        .args(args)
        .env("SUTLER_KUBECONFIG", &server.kubeconfig)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "sutler {args:?}: {all}");
    all
}

#[test]
fn the_example_works_with_what_the_first_start_made() {
    let example = std::path::absolute("../../examples/vm.yaml").unwrap();
    sutler(&["apply", "-f", example.to_str().unwrap()]);
    let said = sutler(&["wait", "vm/demo", "--for=ready", "--timeout=60s"]);
    assert!(said.contains("/demo condition met"), "{said}");
    let stage = |name: &str| said.lines().any(|line| line.contains(name));
    assert!(stage("1/6 clone_template") && stage("4/6 wait_network"), "{said}");
    let table = sutler(&["get", "vm", "demo"]);
    assert!(table.contains("Running") && table.contains("10."), "{table}");
    let orphans = sutler(&["orphans"]);
    assert!(orphans.contains("no orphans"), "{orphans}");
    sutler(&["delete", "vm", "demo"]);
}
