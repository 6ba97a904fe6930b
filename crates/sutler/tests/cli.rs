//! The program against a server, as people use it.

#[path = "support/runs.rs"]
mod runs;
#[path = "cli/support.rs"]
mod support;

use runs::Running;
use support::{Server, arg};

fn config_map(namespace: &str, name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}\ndata:\n  key: {value}\n"
    )
}

#[test]
fn apply_does_what_it_can_and_names_file_and_line() {
    let server = Server::start();
    server.namespace("cli-apply");
    let file = server.file(
        "all.yaml",
        &format!(
            "{}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: bad\n  namespace: cli-apply\ndatta:\n  key: x\n---\napiVersion: v1\nkind: ConfigMapp\nmetadata: {{name: odd}}\n---\n{}",
            config_map("cli-apply", "one", "a"),
            config_map("cli-apply", "two", "b"),
        ),
    );
    let run = server.run(&["apply", "-f", arg(&file)]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(run.out, "configmap/one created\nconfigmap/two created\n");
    assert!(
        run.err.contains("all.yaml:12:1: datta: unknown field; did you mean data?"),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("all.yaml:16:1:") && run.err.contains("ConfigMap of v1"),
        "{}",
        run.err
    );
    assert!(run.err.contains("2 of 4 failed"), "{}", run.err);

    let again = server.apply(&config_map("cli-apply", "one", "a"));
    assert_eq!(again.out, "configmap/one unchanged\n");
    let changed = server.apply(&config_map("cli-apply", "one", "c"));
    assert_eq!(changed.out, "configmap/one configured\n");
    let file = server.file("one.yaml", &config_map("cli-apply", "one", "d"));
    let dry = server.ok(&["apply", "--dry-run", "-f", arg(&file)]);
    assert_eq!(dry, "configmap/one configured (dry run)\n");
    let broken = server.apply("a: [1\n");
    assert_eq!(broken.code, 1);
    assert!(broken.err.contains("<stdin>:1:4"), "{}", broken.err);
}

#[test]
fn fields_of_others_are_taken_over_only_by_force() {
    let server = Server::start();
    server.namespace("cli-force");
    assert_eq!(server.apply(&config_map("cli-force", "one", "a")).code, 0);
    let run = server.edit(&["cm/one", "-n", "cli-force"], "sed -i 's/key: a/key: b/' \"$1\"");
    assert_eq!(run.out, "configmap/one edited\n", "{run:?}");
    let file = server.file("one.yaml", &config_map("cli-force", "one", "c"));
    let run = server.run(&["apply", arg(&file)]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("data.key: conflict with \"sutler-edit\""), "{}", run.err);
    assert!(run.err.contains("--force-conflicts"), "{}", run.err);
    assert_eq!(
        server.ok(&["apply", arg(&file), "--force-conflicts"]),
        "configmap/one configured\n"
    );
}

#[test]
fn get_shows_tables_names_and_whole_objects() {
    let server = Server::start();
    server.namespace("cli-get");
    for name in ["one", "two"] {
        assert_eq!(server.apply(&config_map("cli-get", name, "a")).code, 0);
    }
    let table = server.ok(&["get", "cm", "-n", "cli-get", "-l", "app in (one,two)"]);
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("NAME   DATA   AGE"), "{table}");
    assert!(lines.next().unwrap().starts_with("one    1      "), "{table}");
    let all = server.ok(&["get", "configmaps,ns", "-A"]);
    assert!(
        all.contains("NAMESPACE")
            && all.contains("configmap/one")
            && all.contains("namespace/cli-get"),
        "{all}"
    );
    assert_eq!(
        server.ok(&["get", "cm", "one", "two", "-n", "cli-get", "-o", "name"]),
        "configmap/one\nconfigmap/two\n"
    );
    let yaml = server.ok(&["get", "cm/one", "-n", "cli-get", "-o", "yaml"]);
    assert!(yaml.starts_with("apiVersion: v1\n") && !yaml.contains("managedFields"), "{yaml}");
    assert_eq!(server.ok(&["get", "cm/one", "-n", "cli-get", "-o", "jsonpath={.data.key}"]), "a");
    let list = server.ok(&["get", "cm", "-n", "cli-get", "-l", "app", "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert_eq!(list["items"][0]["kind"], "ConfigMap");

    let run = server.run(&["get", "cm", "one", "nope", "-n", "cli-get"]);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("one") && run.err.contains("\"nope\" not found"), "{run:?}");
    let run = server.run(&["get", "configmapz"]);
    assert!(run.err.contains("did you mean configmaps?"), "{}", run.err);
    let run = server.run(&["get", "cm", "-n", "cli-get-none"]);
    assert_eq!((run.code, run.out.as_str()), (0, ""));
    assert!(run.err.contains("no configmaps found in namespace cli-get-none"), "{}", run.err);
}

#[test]
fn a_watch_shows_changes_as_they_happen() {
    let server = Server::start();
    server.namespace("cli-watch");
    assert_eq!(server.apply(&config_map("cli-watch", "one", "a")).code, 0);
    let mut watch =
        Running::out(server.command(&["get", "cm", "-n", "cli-watch", "-l", "app", "-w"]));
    watch.until("one ");
    assert_eq!(server.apply(&config_map("cli-watch", "two", "a")).code, 0);
    watch.until("two ");
    server.ok(&["delete", "cm", "one", "-n", "cli-watch"]);
    watch.until("one ");
    drop(watch);
}

#[test]
fn wait_sees_conditions_and_says_what_is_missing() {
    let server = Server::start();
    let node = "cli-wait-node";
    let run = server.apply(&format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\n"));
    assert_eq!(run.code, 0, "{run:?}");
    let late = server.run(&["wait", "node", node, "--for", "condition=Ready", "--timeout", "1s"]);
    assert_eq!(late.code, 4, "{late:?}");
    assert!(late.err.contains("has no condition Ready"), "{}", late.err);

    let mut waiting = Running::err(server.command(&[
        "wait",
        "node",
        node,
        "--for",
        "condition=Ready",
        "--timeout",
        "60s",
    ]));
    waiting.until("waiting for");
    let write = "sed -i 's/^status:.*/status:\\n  conditions: [{type: Ready, status: \"True\"}]/' \"$1\"; grep -q '^status:' \"$1\" || printf 'status:\\n  conditions: [{type: Ready, status: \"True\"}]\\n' >> \"$1\"";
    let run = server.edit(&["node", node, "--subresource", "status"], write);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(waiting.end(), 0);
    let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=True";
    assert!(server.ok(&["wait", "node", node, "--for", path]).contains("condition met"));
    server.ok(&["delete", "node", node]);
    assert_eq!(server.run(&["wait", "node", node, "--for", "delete"]).code, 0);
    assert_eq!(server.run(&["wait", "node", node, "--for", "condition=Ready"]).code, 1);
}

#[test]
fn delete_waits_until_finalizers_are_done() {
    let server = Server::start();
    server.namespace("cli-delete");
    let run = server.apply("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: held\n  namespace: cli-delete\n  finalizers: [sutler.dev/test]\n");
    assert_eq!(run.code, 0, "{run:?}");
    let late = server.run(&["delete", "cm/held", "-n", "cli-delete", "--timeout", "1s"]);
    assert_eq!(late.code, 4, "{late:?}");
    let mut deleting = Running::err(server.command(&["delete", "cm/held", "-n", "cli-delete"]));
    let line = deleting.until("waiting for");
    assert!(
        line.contains("configmap/held: being deleted, waits for finalizers sutler.dev/test"),
        "{line}"
    );
    let run = server.edit(
        &["cm/held", "-n", "cli-delete"],
        "sed -i '/finalizers:/d; /sutler.dev.test/d' \"$1\"",
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(deleting.end(), 0);
    assert_eq!(server.run(&["get", "cm/held", "-n", "cli-delete"]).code, 1);

    for name in ["one", "two"] {
        assert_eq!(server.apply(&config_map("cli-delete", name, "a")).code, 0);
    }
    assert_eq!(server.run(&["delete", "cm", "-n", "cli-delete"]).code, 2);
    let dry = server.ok(&["delete", "cm", "-l", "app=one", "-n", "cli-delete", "--dry-run"]);
    assert_eq!(dry, "configmap/one deleted (dry run)\n");
    let both = server.ok(&["delete", "cm", "-l", "app", "-n", "cli-delete"]);
    assert_eq!(both.lines().count(), 2, "{both}");
    assert_eq!(server.run(&["delete", "cm", "one", "-n", "cli-delete"]).code, 1);
    server.ok(&["delete", "cm", "one", "-n", "cli-delete", "--ignore-not-found"]);
}

#[test]
fn edit_opens_again_with_the_reason_and_keeps_what_was_typed() {
    let server = Server::start();
    server.namespace("cli-edit");
    assert_eq!(server.apply(&config_map("cli-edit", "one", "a")).code, 0);
    let seen = server.folder.path().join("seen");
    // The first time the name is changed, which is refused; the second time nothing is.
    let editor =
        format!("cp \"$1\" '{}'; sed -i 's/^  name: one/  name: other/' \"$1\"", seen.display());
    let run = server.edit(&["cm/one", "-n", "cli-edit"], &editor);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("metadata.name cannot be changed"), "{}", run.err);
    assert!(std::fs::read_to_string(&seen).unwrap().contains("# This was refused:"));
    let kept = run.err.trim().rsplit(' ').next().unwrap();
    assert!(std::fs::read_to_string(kept).unwrap().contains("name: other"));
    std::fs::remove_file(kept).unwrap();
    let run = server.edit(&["cm/one", "-n", "cli-edit"], "true");
    assert_eq!(run.code, 0);
    assert!(run.err.contains("unchanged"), "{run:?}");
}

#[test]
fn describe_never_shows_secrets() {
    let server = Server::start();
    server.namespace("cli-describe");
    let run = server.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: cli-describe}\nstringData: {password: s3cret}\n");
    assert_eq!(run.code, 0, "{run:?}");
    let text = server.ok(&["describe", "secret/s", "-n", "cli-describe"]);
    assert!(text.contains("password: 6 bytes") && text.contains("Type:         Opaque"), "{text}");
    assert!(!text.contains("s3cret") && !text.contains("czNjcmV0"), "{text}");
}

#[test]
fn mistakes_have_their_exit_codes() {
    let server = Server::start();
    assert_eq!(server.run(&["get"]).code, 2);
    assert_eq!(server.run(&["wait", "ns/default", "--for", "bogus"]).code, 2);
    let run = server.run(&["get", "ns", "--server", "https://127.0.0.1:1"]);
    assert_eq!(run.code, 3);
    assert!(
        run.err.contains("https://127.0.0.1:1") && run.err.contains("sutler serve"),
        "{}",
        run.err
    );
    let run = server.run(&["get", "ns", "--context", "nope"]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("has no context \"nope\""), "{}", run.err);
    let version = server.ok(&["version"]);
    assert!(version.contains("client: sutler") && version.contains("server: v"), "{version}");
}

#[test]
fn users_get_in_with_their_token_until_they_are_removed() {
    let server = Server::start();
    let out = server.folder.path().join("jane.kubeconfig");
    let run = server.run(&["user", "add", "jane", "--role", "view", "--kubeconfig-out", arg(&out)]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(server.run(&["user", "add", "jane"]).code, 1);
    let list = server.ok(&["user", "list"]);
    assert!(list.contains("jane") && list.contains("never"), "{list}");
    let token = server.ok(&["user", "token", "jane", "--expires", "30d"]);
    assert!(token.starts_with("sutler_"), "{token}");
    let secret = server.ok(&["get", "secret/user-jane", "-n", "sutler-system", "-o", "yaml"]);
    assert!(!secret.contains(token.trim()), "{secret}");
    if server.is_ours() {
        let as_jane = |args: &[&str]| {
            let mut all = vec!["--kubeconfig", arg(&out)];
            all.extend(args);
            server.run(&all)
        };
        assert_eq!(as_jane(&["get", "cm", "-A"]).code, 0);
        let run = as_jane(&["user", "list"]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("forbidden"), "{}", run.err);
    }
    server.ok(&["user", "remove", "jane"]);
    assert_eq!(server.run(&["user", "remove", "jane"]).code, 1);
    if server.is_ours() {
        let run = server.run(&["--kubeconfig", arg(&out), "get", "cm", "-A"]);
        assert_eq!(run.code, 3, "{run:?}");
    }
}

#[test]
fn the_server_ends_cleanly() {
    let mut server = Server::start();
    if server.is_ours() {
        server.ok(&["get", "ns"]);
        assert!(server.terminate().unwrap().success());
        assert_eq!(server.run(&["get", "ns"]).code, 3);
    }
}
