//! Whose a machine is, where the wire carries no token.
//!
//! Callers of `provider.v1` name their record at best (`owner`), and older ones nobody. Each gets a
//! token all the same, so that a second create finds the first one's machine: made from the record's
//! UID, or from the machine's name where there is no record. All of them live in one installation of
//! their own, so that none of them can touch what was made through the Extensions.

use sha2::{Digest as _, Sha256};
use sutler_provider::{Error, Machine, Owner, Proof, Token};

use crate::{BASE_INSTALLATION, pb::base as pb};

/// The identity that goes with every request of ours.
pub(crate) fn identity(owner: &Owner) -> pb::ObjectIdentity {
    pb::ObjectIdentity {
        uid: owner.token.uid.clone(),
        namespace: owner.namespace.clone(),
        name: owner.name.clone(),
    }
}

/// The owner of a machine that is to be made.
pub(crate) fn owner(identity: Option<&pb::ObjectIdentity>, machine: &str) -> Owner {
    let known = identity.filter(|identity| !identity.uid.is_empty());
    Owner {
        token: known
            .map_or_else(|| of_name(machine), |identity| Token::new(identity.uid.as_str(), 1)),
        installation: BASE_INSTALLATION.to_owned(),
        namespace: known.map(|identity| identity.namespace.clone()).unwrap_or_default(),
        name: known.map_or_else(|| machine.to_owned(), |identity| identity.name.clone()),
    }
}

/// The proof for a change of this machine.
///
/// Where it carries a token, that must be of this installation, and the caller's own where the caller
/// has a name; one made from the machine's name is from before callers had one. Where it carries
/// none, there is nothing to compare, and the caller's word for the ID is taken as it always was.
pub(crate) fn proof(
    identity: Option<&pb::ObjectIdentity>,
    machine: &Machine,
) -> Result<Proof, Error> {
    let mut by = owner(identity, &machine.name);
    let Some(token) = &machine.token else {
        return Ok(Proof { owner: by, name: Some(machine.name.clone()) });
    };
    let here = machine.installation.as_deref() == Some(BASE_INSTALLATION);
    let anonymous = identity.is_none_or(|identity| identity.uid.is_empty());
    if !here || !(anonymous || *token == by.token || *token == of_name(&machine.name)) {
        return Err(Error::conflict(format!(
            "machine {} is somebody else's: it carries the token {token}",
            machine.id
        )));
    }
    by.token = token.clone();
    Ok(Proof { owner: by, name: Some(machine.name.clone()) })
}

fn of_name(machine: &str) -> Token {
    let digest = Sha256::digest(format!("provider.v1/{machine}").as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Token::new(hex, 1)
}

#[cfg(test)]
mod tests {
    use sutler_provider::Power;

    use super::*;

    fn machine(token: Option<Token>, installation: &str) -> Machine {
        let mut machine = Machine::new("vm-1", "web", Power::On);
        machine.installation = token.is_some().then(|| installation.to_owned());
        machine.token = token;
        machine
    }

    #[test]
    fn only_what_was_made_this_way_is_touched() {
        let me = pb::ObjectIdentity { uid: "u1".into(), namespace: "n".into(), name: "web".into() };
        let mine = Token::new("u1", 1);
        let other = Token::new("u2", 1);
        for (token, installation, identity, allowed) in [
            (None, "", None, true),
            (None, "", Some(&me), true),
            (Some(mine.clone()), BASE_INSTALLATION, Some(&me), true),
            (Some(mine.clone()), BASE_INSTALLATION, None, true),
            (Some(other.clone()), BASE_INSTALLATION, Some(&me), false),
            (Some(of_name("web")), BASE_INSTALLATION, Some(&me), true),
            (Some(of_name("db")), BASE_INSTALLATION, Some(&me), false),
            (Some(mine), "elsewhere", Some(&me), false),
            (Some(other), "elsewhere", None, false),
        ] {
            let machine = machine(token.clone(), installation);
            let proof = proof(identity, &machine);
            assert_eq!(proof.is_ok(), allowed, "{machine:?} {identity:?}");
            if let (Ok(proof), Some(token)) = (proof, token) {
                assert_eq!(proof.owner.token, token);
            }
        }
    }
}
