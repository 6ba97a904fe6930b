//! Operations that ask a platform something: its answer comes in a task of its own.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sutler_api::{
    free_form::FreeForm,
    infra::VirtualMachine,
    names::reasons,
    sutler::{ErrorKind, OperationResult, ResultStatus},
};
use sutler_provider::{Capabilities, GuestCommand, GuestOutput, Owner, Proof, Result};

use super::{
    act::Next,
    control::Work,
    report::{Failure, cut},
};
use crate::{
    context::Context,
    fleet::{Connection, Key, lock},
    plan::Record,
};

/// How much of a command's output is kept, in characters.
const OUTPUT: usize = 32 * 1024;

/// How many templates are told.
const TEMPLATES: usize = 1000;

/// How long a command may take that says nothing else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The connection, once its platform can do what is asked.
fn connected(
    context: &Context,
    provider: &Key,
    can: impl FnOnce(&Capabilities) -> bool,
    what: &str,
) -> std::result::Result<Arc<Connection>, Next> {
    let waits = |message: String| Next::Wait(reasons::PROVIDER_NOT_READY.to_owned(), message);
    let Some(connection) = context.fleet.get(provider) else {
        return Err(waits(format!("Provider {provider} is not ready")));
    };
    match connection.capabilities() {
        None => Err(waits(format!("Provider {provider} has not told yet what it can do"))),
        Some(capabilities) if can(&capabilities) => Ok(connection),
        Some(_) => {
            let message = format!("Provider {provider} cannot {what}");
            Err(Failure::new(ErrorKind::Unsupported, message).into())
        }
    }
}

fn go(connected: std::result::Result<Arc<Connection>, Next>) -> Next {
    match connected {
        Ok(_) => Next::Go,
        Err(next) => next,
    }
}

/// Whether templates can be listed.
pub(crate) fn can_list(context: &Context, provider: &Key) -> Next {
    go(connected(context, provider, |can| can.templates, "list templates"))
}

/// Whether images can be brought in.
pub(crate) fn can_import(context: &Context, provider: &Key) -> Next {
    go(connected(context, provider, |can| can.image_import, "bring in images"))
}

/// Whether a command can be run in this machine's guest.
pub(crate) fn can_run(context: &Context, vm: &VirtualMachine) -> Next {
    match machine(context, vm) {
        Ok(_) => Next::Go,
        Err(next) => next,
    }
}

fn machine(
    context: &Context,
    vm: &VirtualMachine,
) -> std::result::Result<(Arc<Connection>, GuestCommand), Next> {
    let record = Record::read(vm).map_err(|message| Failure::new(ErrorKind::Invalid, message))?;
    let provider =
        Key::new(vm.spec.provider_ref.namespace_or(&record.namespace), &vm.spec.provider_ref.name);
    let can = |can: &Capabilities| can.guest_commands;
    let connection = connected(context, &provider, can, "run commands in guests")?;
    let (Some(id), Some(token)) = (record.id.clone(), record.token().cloned()) else {
        let message = "the VirtualMachine has no machine yet: wait until it is Ready";
        return Err(Failure::new(ErrorKind::Conflict, message).into());
    };
    let owner = Owner {
        token,
        installation: context.installation.clone(),
        namespace: record.namespace.clone(),
        name: record.name.clone(),
    };
    let name = record.platform_name.clone().filter(|_| !record.adopted);
    let proof = Proof { owner, name };
    Ok((connection, GuestCommand { id, proof, command: Vec::new(), timeout: PATIENCE }))
}

/// Runs a command in a guest.
pub(crate) fn run(
    work: &Work<'_>,
    vm: &VirtualMachine,
    command: &[String],
    seconds: Option<u64>,
) -> Next {
    let (connection, mut request) = match machine(work.context, vm) {
        Ok(ready) => ready,
        Err(next) => return next,
    };
    let now = work.context.clock.now();
    let left = Duration::try_from(work.deadline().duration_since(now)).unwrap_or_default();
    request.command = command.to_vec();
    request.timeout = seconds.map_or(PATIENCE, Duration::from_secs).min(left);
    let not_after = work.deadline();
    let name = vm.metadata.name.clone().unwrap_or_default();
    call(work, async move {
        let output = connection.gate.guest_exec(request, not_after).await;
        ended(&name, output)
    });
    Next::Go
}

/// Lists a platform's templates.
pub(crate) fn list(work: &Work<'_>, provider: &Key) -> Next {
    let can = |can: &Capabilities| can.templates;
    let connection = match connected(work.context, provider, can, "list templates") {
        Ok(connection) => connection,
        Err(next) => return next,
    };
    let name = provider.name.clone();
    call(work, async move {
        let mut templates = connection.gate.templates().await?;
        templates.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        let count = templates.len();
        templates.truncate(TEMPLATES);
        let data = json!({ "templates": templates, "count": count });
        Ok(with_data(&name, data))
    });
    Next::Go
}

/// Asks beside everything else, and wakes the Operation when the answer is there.
fn call<F>(work: &Work<'_>, call: F)
where
    F: Future<Output = std::result::Result<OperationResult, Failure>> + Send + 'static,
{
    work.remember(|memo| memo.acted = true);
    let (context, key, uid) = (work.context.clone(), work.key.clone(), work.uid.clone());
    work.context.tasks.spawn(async move {
        let outcome = call.await;
        lock(&context.operations_index).memo(&uid).outcome = Some(outcome);
        context.wake_operation(&key);
    });
}

/// What a command said.
fn ended(name: &str, output: Result<GuestOutput>) -> std::result::Result<OperationResult, Failure> {
    let output = output?;
    let data = json!({
        "exitCode": output.exit_code,
        "stdout": cut(&output.stdout, OUTPUT),
        "stderr": cut(&output.stderr, OUTPUT),
    });
    let result = with_data(name, data);
    match output.exit_code {
        0 => Ok(result),
        code => {
            let message = format!("the command ended with {code}");
            let mut failure = Failure::new(ErrorKind::Failed, message);
            failure.reason = "ExitCode".to_owned();
            failure.result = Some(Box::new(OperationResult { status: None, ..result }));
            Err(failure)
        }
    }
}

/// A result that holds data of its type.
pub(crate) fn with_data(name: &str, data: Value) -> OperationResult {
    let data = match data {
        Value::Object(data) => Some(FreeForm(data)),
        _ => None,
    };
    OperationResult {
        name: Some(name.to_owned()),
        status: Some(ResultStatus::Completed),
        data,
        ..OperationResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_still_tells_what_it_said() {
        let output = |exit_code| GuestOutput {
            exit_code,
            stdout: "out".to_owned(),
            stderr: "e".repeat(OUTPUT + 1),
        };
        let well = ended("vm", Ok(output(0))).unwrap();
        assert_eq!(well.data.unwrap().get("stdout"), Some(&json!("out")));
        let failure = ended("vm", Ok(output(3))).unwrap_err();
        let data = failure.result.unwrap().data.unwrap();
        assert_eq!(data.get("exitCode"), Some(&json!(3)));
        assert_eq!(data.text("stderr").map(str::len), Some(OUTPUT));
    }
}
