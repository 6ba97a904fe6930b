//! Whose a machine is.

use sutler_provider::{Error, Machine, Owner, Proof, Result, Token};

use super::raw;

/// The notes of a machine that we make, for people and for ourselves.
pub(super) fn notes(owner: &Owner) -> String {
    let Owner { token, installation, namespace, name } = owner;
    format!("sutler {installation} {token} {namespace}/{name}")
}

/// Refuses unless the machine is the owner's, as far as VPSie can hold that: by its name, and by our notes
/// on it, if they are still there.
pub(super) fn check(machine: &Machine, proof: &Proof) -> Result<()> {
    // One that was adopted has the name and the notes of its former life.
    let Some(name) = &proof.name else { return Ok(()) };
    let named = |found: &str| is_name_of(name, found);
    if !named(&machine.name) && !machine.hostname.as_deref().is_some_and(named) {
        return Err(Error::conflict(format!(
            "machine {} is called {:?}, and what was to be changed is called {name:?}",
            machine.id, machine.name
        )));
    }
    let noted = machine.raw.get(raw::NOTES).and_then(|notes| read(notes));
    match noted {
        Some((installation, token))
            if installation != proof.owner.installation || token != proof.owner.token =>
        {
            Err(Error::conflict(format!(
                "by its notes machine {} was made for another record: {token} of {installation}",
                machine.id
            )))
        }
        _ => Ok(()),
    }
}

/// The installation and token in notes of ours.
fn read(notes: &str) -> Option<(String, Token)> {
    let mut words = notes.split_whitespace();
    (words.next() == Some("sutler")).then_some(())?;
    let installation = words.next()?.to_owned();
    Some((installation, words.next()?.parse().ok()?))
}

/// Whether a machine of this name can be the one that was given `name`: VPSie may put something behind it.
fn is_name_of(name: &str, found: &str) -> bool {
    let (found, name) = (found.to_lowercase(), name.to_lowercase());
    found.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
}

#[cfg(test)]
mod tests {
    use sutler_provider::{ErrorKind, Power};

    use super::*;

    fn proof(uid: &str, name: Option<&str>) -> Proof {
        let owner = Owner {
            token: Token::new(uid, 1),
            installation: "here".to_owned(),
            namespace: "default".to_owned(),
            name: "web".to_owned(),
        };
        Proof { owner, name: name.map(str::to_owned) }
    }

    fn machine(name: &str, notes: Option<String>) -> Machine {
        let mut machine = Machine::new("1", name, Power::On);
        machine.raw.extend(notes.map(|notes| (raw::NOTES.to_owned(), notes)));
        machine
    }

    #[test]
    fn names_and_notes_prove_it() {
        let ours = notes(&proof("u", None).owner);
        assert!(check(&machine("web-a", None), &proof("u", Some("web-a"))).is_ok());
        assert!(check(&machine("Web-a-k8s-worker", None), &proof("u", Some("web-a"))).is_ok());
        assert!(check(&machine("web-a", Some(ours.clone())), &proof("u", Some("web-a"))).is_ok());
        assert!(check(&machine("other", Some(ours.clone())), &proof("v", None)).is_ok());
        for (machine, proof) in [
            (machine("web-b", None), proof("u", Some("web-a"))),
            (machine("web-10", None), proof("u", Some("web-1"))),
            (machine("web-a", Some(ours)), proof("v", Some("web-a"))),
        ] {
            assert_eq!(check(&machine, &proof).unwrap_err().kind(), ErrorKind::Conflict);
        }
    }
}
