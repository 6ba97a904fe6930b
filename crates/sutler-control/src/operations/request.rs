//! What an Operation that a person made asks for, read and checked.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use sutler_api::{
    free_form::FreeForm,
    sutler::{ErrorKind, Operation, OperationType},
};

use super::report::Failure;
use crate::fleet::Key;

/// What an Operation asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// Something about a machine's record.
    Machine(Key, Wish),
    /// A command in a machine's guest.
    Command {
        /// The machine's record.
        machine: Key,
        /// Program and arguments.
        command: Vec<String>,
        /// How long it may take, where that is said.
        seconds: Option<u64>,
    },
    /// The templates that a platform has.
    Templates(Key),
    /// An image on a platform.
    Image {
        /// The image.
        image: Key,
        /// The Provider that it is brought to.
        provider: Key,
    },
}

/// What is asked for of a machine's record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wish {
    /// That it is there and as wanted.
    Provision,
    /// That it is on.
    Start,
    /// That it is off.
    Stop {
        /// At once, without asking the guest.
        force: bool,
    },
    /// That it is switched off and on.
    Restart,
    /// That it is another size.
    Reconfigure(Size),
    /// That it is destroyed.
    Destroy,
    /// That its record goes and the machine stays.
    Forget,
}

/// Another size.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Size {
    /// What is merged into `spec.resources`.
    pub(crate) resources: Option<Value>,
    /// Disks that are merged by name into `spec.disks`.
    pub(crate) disks: Vec<Value>,
}

impl Size {
    /// The disks of a record with these merged in.
    pub(crate) fn merged(&self, disks: &Value) -> Value {
        let mut merged = disks.as_array().cloned().unwrap_or_default();
        for disk in &self.disks {
            let same = merged.iter_mut().find(|known| known["name"] == disk["name"]);
            match (same, disk) {
                (Some(Value::Object(known)), Value::Object(disk)) => known.extend(disk.clone()),
                _ => merged.push(disk.clone()),
            }
        }
        Value::Array(merged)
    }
}

/// What an Operation asks for, or why that cannot be carried out.
pub(crate) fn read(operation: &Operation) -> Result<Request, Failure> {
    let spec = &operation.spec;
    if spec.agent_ref.is_some() {
        return Err(Failure::unserved(
            "spec.agentRef: agents are not served by this release: name a providerRef or targetRef",
        ));
    }
    if let Err(error) = spec.timeout.to_std() {
        return Err(invalid("spec.timeout", &error.to_string()));
    }
    let params = spec.params.clone().unwrap_or_default();
    let wish = match &spec.type_ {
        OperationType::Provision => {
            check(&params, &[])?;
            Wish::Provision
        }
        OperationType::Start => {
            check(&params, &[])?;
            Wish::Start
        }
        OperationType::Stop => {
            check(&params, &["force"])?;
            Wish::Stop { force: flag(&params, "force")? }
        }
        OperationType::Restart => {
            check(&params, &[])?;
            Wish::Restart
        }
        OperationType::Destroy => {
            check(&params, &[])?;
            Wish::Destroy
        }
        OperationType::Forget => {
            check(&params, &[])?;
            Wish::Forget
        }
        OperationType::Reconfigure => Wish::Reconfigure(size(&params)?),
        OperationType::RunCommand => return command(operation, &params),
        OperationType::ListTemplates => {
            check(&params, &[])?;
            return Ok(Request::Templates(provider(operation)?));
        }
        OperationType::PrepareImage => {
            check(&params, &[])?;
            let image = target(operation, "VMImage")?;
            return Ok(Request::Image { image, provider: provider(operation)? });
        }
        OperationType::Snapshot
        | OperationType::Revert
        | OperationType::Clone
        | OperationType::Migrate
        | OperationType::Adopt => {
            let instead = match spec.type_ {
                OperationType::Snapshot => ": create a VMSnapshot",
                OperationType::Revert => ": set spec.snapshot.revertToRef of the VirtualMachine",
                OperationType::Clone => ": create a VMClone",
                _ => "",
            };
            let message =
                format!("spec.type: {} is not served by this release{instead}", spec.type_);
            return Err(Failure::unserved(message));
        }
        OperationType::Other(other) => {
            return Err(invalid("spec.type", &format!("{other:?} is not known here")));
        }
    };
    Ok(Request::Machine(target(operation, "VirtualMachine")?, wish))
}

fn invalid(field: &str, message: &str) -> Failure {
    Failure::new(ErrorKind::Invalid, format!("{field}: {message}"))
}

/// The object that is meant. One in another namespace is not for those who may make Operations here.
fn target(operation: &Operation, kind: &str) -> Result<Key, Failure> {
    let own = operation.namespace().unwrap_or_default();
    let Some(target) = &operation.spec.target_ref else {
        return Err(invalid("spec.targetRef", &format!("name the {kind} that is meant")));
    };
    if target.kind != kind {
        let message = format!("{} takes a {kind}, not a {}", operation.spec.type_, target.kind);
        return Err(invalid("spec.targetRef.kind", &message));
    }
    let group = target.api_version.as_ref().and_then(|version| version.split_once('/'));
    if target.api_version.is_some() && group.is_none_or(|(group, _)| group != "infra.virtrigaud.io")
    {
        let message = format!("a {kind} is of infra.virtrigaud.io/v1beta1");
        return Err(invalid("spec.targetRef.apiVersion", &message));
    }
    if target.namespace.as_ref().is_some_and(|namespace| *namespace != own) {
        let message = "the target has to be in the namespace of the Operation";
        return Err(invalid("spec.targetRef.namespace", message));
    }
    Ok(Key::new(own, &target.name))
}

fn provider(operation: &Operation) -> Result<Key, Failure> {
    let own = operation.namespace().unwrap_or_default();
    if let Some(provider) = &operation.spec.provider_ref {
        return Ok(Key::new(provider.namespace_or(&own), &provider.name));
    }
    let target = operation.spec.target_ref.as_ref().filter(|target| target.kind == "Provider");
    match target {
        Some(target) if target.namespace.as_ref().is_none_or(|namespace| *namespace == own) => {
            Ok(Key::new(own, &target.name))
        }
        _ => Err(invalid("spec.providerRef", "name the Provider that is meant")),
    }
}

fn check(params: &FreeForm, known: &[&str]) -> Result<(), Failure> {
    match params.0.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            Err(invalid(&format!("spec.params.{key}"), "this type knows no such parameter"))
        }
    }
}

fn flag(params: &FreeForm, key: &str) -> Result<bool, Failure> {
    match params.get(key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(invalid(&format!("spec.params.{key}"), "it is true or false")),
    }
}

fn size(params: &FreeForm) -> Result<Size, Failure> {
    check(params, &["cpu", "memoryMiB", "disks"])?;
    let mut size = Size::default();
    let mut resources = serde_json::Map::new();
    for key in ["cpu", "memoryMiB"] {
        match params.get(key) {
            None => {}
            Some(number) if number.as_u64().is_some_and(|number| number > 0) => {
                resources.insert(key.to_owned(), number.clone());
            }
            Some(_) => {
                return Err(invalid(&format!("spec.params.{key}"), "it is a number from 1"));
            }
        }
    }
    if !resources.is_empty() {
        size.resources = Some(json!(resources));
    }
    match params.get("disks") {
        None => {}
        Some(Value::Array(disks)) => {
            let named = |disk: &Value| disk.get("name").is_some_and(Value::is_string);
            if !disks.iter().all(named) {
                return Err(invalid("spec.params.disks", "every disk has a name"));
            }
            size.disks.clone_from(disks);
        }
        Some(_) => return Err(invalid("spec.params.disks", "it is a list of disks")),
    }
    if size == Size::default() {
        return Err(invalid("spec.params", "set cpu, memoryMiB or disks"));
    }
    Ok(size)
}

fn command(operation: &Operation, params: &FreeForm) -> Result<Request, Failure> {
    check(params, &["command", "timeoutSeconds"])?;
    let machine = target(operation, "VirtualMachine")?;
    let field = "spec.params.command";
    let command: Vec<String> = match params.get("command") {
        Some(Value::String(line)) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()],
        Some(Value::Array(words)) => {
            let words: Option<Vec<String>> =
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            words.ok_or_else(|| invalid(field, "it is a line, or a list of words"))?
        }
        _ => return Err(invalid(field, "say what is to be run")),
    };
    if command.first().is_none_or(String::is_empty) {
        return Err(invalid(field, "say what is to be run"));
    }
    let seconds = match params.get("timeoutSeconds") {
        None => None,
        Some(number) => Some(number.as_u64().filter(|seconds| *seconds > 0).ok_or_else(|| {
            invalid("spec.params.timeoutSeconds", "it is a number of seconds from 1")
        })?),
    };
    Ok(Request::Command { machine, command, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(spec: Value) -> Operation {
        serde_json::from_value(json!({
            "apiVersion": "sutler.dev/v1alpha1", "kind": "Operation",
            "metadata": { "name": "o", "namespace": "ns" }, "spec": spec,
        }))
        .unwrap()
    }

    fn on_machine(type_: &str, params: Value) -> Operation {
        operation(json!({
            "type": type_, "params": params,
            "targetRef": { "kind": "VirtualMachine", "name": "vm" },
        }))
    }

    #[test]
    fn every_type_that_is_served_is_read() {
        let vm = Key::new("ns", "vm");
        for (type_, params, wish) in [
            ("provision", json!({}), Wish::Provision),
            ("start", json!({}), Wish::Start),
            ("stop", json!({}), Wish::Stop { force: false }),
            ("stop", json!({ "force": true }), Wish::Stop { force: true }),
            ("restart", json!({}), Wish::Restart),
            ("destroy", json!({}), Wish::Destroy),
            ("forget", json!({}), Wish::Forget),
        ] {
            let read = read(&on_machine(type_, params));
            assert_eq!(read, Ok(Request::Machine(vm.clone(), wish)));
        }
        let list = operation(json!({ "type": "list_templates", "providerRef": { "name": "p" } }));
        assert_eq!(read(&list), Ok(Request::Templates(Key::new("ns", "p"))));
        let run = read(&on_machine("run_command", json!({ "command": ["a", "b"] }))).unwrap();
        assert!(matches!(run, Request::Command { command, .. } if command == ["a", "b"]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let other = |kind: &str, namespace: Option<&str>| {
            operation(json!({
                "type": "start",
                "targetRef": { "kind": kind, "name": "vm", "namespace": namespace },
            }))
        };
        for (operation, kind, field) in [
            (other("VMImage", None), ErrorKind::Invalid, "spec.targetRef.kind"),
            (other("VirtualMachine", Some("x")), ErrorKind::Invalid, "spec.targetRef.namespace"),
            (on_machine("dance", json!({})), ErrorKind::Invalid, "spec.type"),
            (on_machine("clone", json!({})), ErrorKind::Unsupported, "spec.type"),
            (on_machine("start", json!({ "x": 1 })), ErrorKind::Invalid, "spec.params.x"),
            (on_machine("reconfigure", json!({})), ErrorKind::Invalid, "spec.params"),
            (on_machine("reconfigure", json!({ "cpu": 0 })), ErrorKind::Invalid, "spec.params.cpu"),
            (on_machine("run_command", json!({})), ErrorKind::Invalid, "spec.params.command"),
            (on_machine("list_templates", json!({})), ErrorKind::Invalid, "spec.providerRef"),
            (on_machine("prepare_image", json!({})), ErrorKind::Invalid, "spec.targetRef.kind"),
        ] {
            let failure = read(&operation).unwrap_err();
            assert_eq!(failure.kind, kind, "{}", failure.message);
            assert!(failure.message.starts_with(&format!("{field}: ")), "{}", failure.message);
        }
    }

    #[test]
    fn disks_are_merged_by_name() {
        let size = Size {
            resources: None,
            disks: vec![json!({ "name": "a", "sizeGiB": 9 }), json!({ "name": "c", "sizeGiB": 1 })],
        };
        let disks = json!([{ "name": "a", "sizeGiB": 5, "type": "thin" }, { "name": "b" }]);
        assert_eq!(
            size.merged(&disks),
            json!([
                { "name": "a", "sizeGiB": 9, "type": "thin" }, { "name": "b" },
                { "name": "c", "sizeGiB": 1 },
            ])
        );
    }
}
