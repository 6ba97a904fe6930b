//! What is asked of the agent in a guest.

use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sutler_provider::{Error, ErrorKind, GuestCommand, GuestOutput, Result};
use virt::domain::Domain;

use crate::{
    domain::Seen,
    fault::{Done, Fault},
    find,
    host::Libvirt,
};

/// Seconds that the agent may take for one answer.
const ANSWER: i32 = 10;
/// How long a guest may take to fill a disk that has grown.
const FILL: Duration = Duration::from_secs(60);
/// Bytes of output that are given back.
const OUTPUT: usize = 64 * 1024;

/// Runs a command in a guest and waits for its end.
pub(crate) async fn exec(host: &Libvirt, command: GuestCommand) -> Result<GuestOutput> {
    if command.command.is_empty() {
        return Err(Error::invalid("command", "a command has at least one word"));
    }
    host.0
        .link
        .long(move |connect| {
            let (domain, _) = find::proven(connect, &command.id, &command.proof)?;
            run(&domain, &command.command, command.timeout)
        })
        .await
}

fn run(domain: &Domain, command: &[String], within: Duration) -> Done<GuestOutput> {
    let end = Instant::now() + within;
    let (program, args) = command.split_first().unzip();
    let ask = json!({
        "execute": "guest-exec",
        "arguments": { "path": program, "arg": args, "capture-output": true },
    });
    // An agent that is busy was not asked yet, and can be asked again.
    let begun = patiently(end, is_busy, || put(domain, &ask)).map_err(in_wrong_state)?;
    let pid = begun["return"]["pid"]
        .as_i64()
        .ok_or_else(|| Error::internal("the agent told no process"))?;
    // It was begun: whatever is in the way of its end, it may go on.
    wait(domain, pid, end).map_err(|fault| match fault.connection {
        true => fault,
        false => {
            let why =
                format!("the command was begun, and its end was not seen within {within:?}: ");
            Error::indeterminate(why + fault.error.message()).into()
        }
    })
}

/// Asks again until `end` for as long as it `passes`.
fn patiently<T>(
    end: Instant,
    passes: fn(&Fault) -> bool,
    mut ask: impl FnMut() -> Done<T>,
) -> Done<T> {
    let mut pause = Duration::from_millis(20);
    loop {
        match ask() {
            Err(fault) if passes(&fault) && Instant::now() < end => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(500));
            }
            done => return done,
        }
    }
}

/// Lets the file systems on a disk that has grown fill it. That a guest has no agent, or something on the
/// disk that is not known here, is no error: the disk has grown, and the rest is for whoever set it up.
pub(crate) fn fill(domain: &Domain, seen: &Seen, serial: &str) {
    if !seen.agent {
        return;
    }
    let command = ["/bin/sh", "-c", include_str!("fill.sh"), "fill", serial].map(str::to_owned);
    let (machine, disk) = (&seen.uuid, serial);
    match run(domain, &command, FILL) {
        Ok(said) if said.exit_code == 0 => {
            tracing::info!(machine, disk, "the guest fills the disk: {}", said.stdout.trim());
        }
        Ok(said) => {
            let why = said.stderr.trim();
            tracing::info!(machine, disk, "the guest leaves its file systems as they are: {why}");
        }
        Err(fault) => tracing::info!(machine, disk, "the guest was not asked: {}", fault.error),
    }
}

/// Waits for the end of a command. That the agent is slow to tell of it is no news of the command.
fn wait(domain: &Domain, pid: i64, end: Instant) -> Done<GuestOutput> {
    let ask = json!({ "execute": "guest-exec-status", "arguments": { "pid": pid } });
    let slow = |fault: &Fault| is_busy(fault) || fault.error.kind() == ErrorKind::Indeterminate;
    patiently(end, slow, || {
        let status = put(domain, &ask)?;
        let status = &status["return"];
        if status["exited"].as_bool() != Some(true) {
            return Err(Error::indeterminate("it has not ended").into());
        }
        let code = status["exitcode"].as_i64();
        // A shell says 128 and the signal's number of a command that was ended by one.
        let code = code.or_else(|| status["signal"].as_i64().map(|signal| signal + 128));
        Ok(GuestOutput {
            exit_code: code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1),
            stdout: text(&status["out-data"]),
            stderr: text(&status["err-data"]),
        })
    })
}

fn text(value: &Value) -> String {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    let cut = &bytes[..bytes.len().min(OUTPUT)];
    String::from_utf8_lossy(cut).into_owned()
}

/// Brings the guest's files in order and stops it from writing.
pub(crate) fn freeze(domain: &Domain) -> Done {
    agent(domain, &json!({ "execute": "guest-fsfreeze-freeze" })).map(drop)
}

/// Lets the guest write again.
pub(crate) fn thaw(domain: &Domain) -> Done {
    agent(domain, &json!({ "execute": "guest-fsfreeze-thaw" })).map(drop)
}

/// Asks the agent once.
fn agent(domain: &Domain, ask: &Value) -> Done<Value> {
    put(domain, ask).map_err(in_wrong_state)
}

fn put(domain: &Domain, ask: &Value) -> Done<Value> {
    let answer = domain.qemu_agent_command(&ask.to_string(), ANSWER, 0)?;
    serde_json::from_str(&answer)
        .map_err(|error| Error::internal(format!("the agent's answer: {error}")).into())
}

/// Whether the agent is there and did not come to the question in time. By text: the same code says that
/// there is none.
fn is_busy(fault: &Fault) -> bool {
    !fault.connection
        && fault.error.kind() == ErrorKind::Unavailable
        && fault.error.message().contains("not available for now")
}

/// A guest that has no agent, or is not up, is in the wrong state for being asked.
fn in_wrong_state(fault: Fault) -> Fault {
    match fault.error.kind() {
        ErrorKind::Unavailable | ErrorKind::Conflict | ErrorKind::Unsupported
            if !fault.connection =>
        {
            let why = format!("the guest's agent does not answer: {}", fault.error.message());
            Error::conflict(why).into()
        }
        _ => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(why: &str) -> Fault {
        Error::unavailable(why.to_owned()).into()
    }

    /// Asks an agent that is as told for a while, and then answers; tells how often it was asked.
    fn asked(end: Instant, busy: usize, why: &str) -> (Done<usize>, usize) {
        let mut times = 0;
        let answer = patiently(end, is_busy, || {
            times += 1;
            if times > busy { Ok(times) } else { Err(unavailable(why)) }
        });
        (answer.map_err(in_wrong_state), times)
    }

    #[test]
    fn an_agent_that_is_busy_is_asked_again_and_one_that_is_not_there_is_not() {
        let later = Instant::now() + Duration::from_secs(60);
        let (answer, _) = asked(later, 2, "Guest agent not available for now");
        assert_eq!(answer.unwrap(), 3);
        let (answer, times) = asked(later, 2, "QEMU guest agent is not connected");
        assert_eq!((answer.unwrap_err().error.kind(), times), (ErrorKind::Conflict, 1));
    }

    #[test]
    fn an_agent_that_stays_busy_is_given_up() {
        let (answer, times) = asked(Instant::now(), 9, "Guest agent not available for now");
        assert_eq!((answer.unwrap_err().error.kind(), times), (ErrorKind::Conflict, 1));
    }
}
