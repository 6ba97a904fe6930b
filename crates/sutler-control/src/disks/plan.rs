//! What is done next for a disk that outlives its machines, as a pure function of its record and of
//! the machines' records that have to do with it.
//!
//! A disk is given to one machine's record at a time, in a write over exactly the version that was
//! looked at, and machines are made with no disk that was not given to them. So nobody can ask for a
//! disk any more once its record is going and nobody has it.

use sutler_api::sutler::{DiskPhase, DiskUser};

/// A machine's record that names a disk, or that the disk was given to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// Which record.
    pub(crate) id: DiskUser,
    /// Whether it names the disk, and is on its Provider.
    pub(crate) names: bool,
    /// Whether it is going.
    pub(crate) leaving: bool,
    /// The size that its machine shows the disk with.
    pub(crate) shows: Option<i32>,
    /// Whether its machine is known to be as its spec has it.
    pub(crate) settled: bool,
    /// Whether a person has to do something before its machine can come.
    pub(crate) stalled: bool,
}

/// Whom a disk was given to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    /// To nobody.
    Nobody,
    /// To this record.
    There(User),
    /// To a record that is off the books, and whose machine is gone with it.
    Gone,
}

/// What a look at the platform showed after a disk was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Nobody has looked.
    NotYet,
    /// It is not there.
    Absent,
    /// It is there, and of this size.
    There(i32),
}

/// What is known of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Its size, once it was made.
    pub(crate) made: Option<i32>,
    /// Whether its record is going.
    pub(crate) deleting: bool,
    /// Whether its record waits for us before it goes.
    pub(crate) finalizer: bool,
    /// Whom it was given to.
    pub(crate) holder: Holder,
    /// Machines' records that name it, the eldest first.
    pub(crate) users: Vec<User>,
    /// What a look showed since nobody has it, or since its machine waits for a person.
    pub(crate) looked: Looked,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Rest,
    /// The record is held until the disk is gone.
    Hold,
    /// The disk is given to this record.
    Give(DiskUser),
    /// It is looked for on its platform: a machine that nobody ever saw may have left it there.
    Look,
    /// It is taken from the one that has let go of it.
    Take,
    /// It is removed from its platform.
    Remove,
}

/// What is done next, and how things stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) phase: DiskPhase,
    pub(crate) size: Option<i32>,
    pub(crate) message: String,
}

/// What is done next for a disk.
pub(crate) fn plan(disk: &Disk) -> Plan {
    let shown = match &disk.holder {
        Holder::There(user) => user.shows,
        Holder::Nobody | Holder::Gone => None,
    };
    let found = match disk.looked {
        Looked::There(size) => Some(size),
        Looked::NotYet | Looked::Absent => None,
    };
    let size = shown.or(disk.made).or(found);
    let resting = if size.is_some() { DiskPhase::Detached } else { DiskPhase::Pending };
    let (step, phase, message) = match &disk.holder {
        Holder::There(user) if has(user) => held(disk, user, resting),
        Holder::There(_) | Holder::Gone => {
            let unknown = size.is_none() && disk.looked == Looked::NotYet && !disk.deleting;
            let step = if unknown { Step::Look } else { Step::Take };
            (step, resting, "no machine has it any more".to_owned())
        }
        Holder::Nobody => free(disk, resting),
    };
    let phase = if disk.deleting { DiskPhase::Deleting } else { phase };
    Plan { step, phase, size, message }
}

/// Whether the disk is still the record's. One whose machine may be on its way keeps it, whatever its
/// spec says by now: the disk may have been asked for already.
fn has(user: &User) -> bool {
    user.names || user.shows.is_some() || user.leaving || !user.settled
}

fn held(disk: &Disk, user: &User, resting: DiskPhase) -> (Step, DiskPhase, String) {
    let name = &user.id.name;
    match (disk.deleting, user.shows) {
        (true, _) => {
            let message = format!(
                "VirtualMachine {name} has it: it is removed when that one is gone or names it no more"
            );
            (Step::Rest, DiskPhase::Deleting, message)
        }
        (false, Some(_)) => {
            (Step::Rest, DiskPhase::Attached, format!("VirtualMachine {name} has it"))
        }
        (false, None) => {
            // A machine that failed half made may have left it there.
            let unknown = user.stalled && disk.made.is_none() && disk.looked == Looked::NotYet;
            let step = if unknown { Step::Look } else { Step::Rest };
            (step, resting, format!("it waits for the machine of VirtualMachine {name}"))
        }
    }
}

fn free(disk: &Disk, resting: DiskPhase) -> (Step, DiskPhase, String) {
    if disk.deleting {
        let step = match disk.finalizer {
            false => Step::Rest,
            true => Step::Remove,
        };
        return (step, resting, "it is being removed".to_owned());
    }
    if !disk.finalizer {
        return (Step::Hold, resting, "it is taken on record".to_owned());
    }
    match disk.users.iter().find(|user| user.names && !user.leaving) {
        Some(user) => {
            let message = format!("it is given to VirtualMachine {}", user.id.name);
            (Step::Give(user.id.clone()), resting, message)
        }
        None if disk.made.is_some() => (Step::Rest, resting, "no machine has it".to_owned()),
        None => {
            let message = "it is made with the first machine that names it in disks[].diskRef";
            (Step::Rest, resting, message.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User {
            id: DiskUser { name: name.to_owned(), uid: format!("{name}-uid") },
            names: true,
            leaving: false,
            shows: None,
            settled: false,
            stalled: false,
        }
    }

    fn disk(holder: Holder) -> Disk {
        let (users, looked) = (Vec::new(), Looked::NotYet);
        Disk { made: None, deleting: false, finalizer: true, holder, users, looked }
    }

    #[test]
    fn it_is_held_before_it_is_given() {
        let users = vec![user("a")];
        let fresh = Disk { finalizer: false, users, ..disk(Holder::Nobody) };
        assert_eq!(plan(&fresh).step, Step::Hold);
        let held = Disk { finalizer: true, ..fresh };
        assert_eq!(plan(&held).step, Step::Give(user("a").id));
    }

    #[test]
    fn it_is_given_to_the_eldest_that_stays() {
        let going = User { leaving: true, ..user("a") };
        let elsewhere = User { names: false, ..user("b") };
        let users = vec![going, elsewhere, user("c"), user("d")];
        assert_eq!(plan(&Disk { users, ..disk(Holder::Nobody) }).step, Step::Give(user("c").id));
    }

    #[test]
    fn nobody_gets_it_while_another_has_it() {
        for held in [
            user("a"),
            User { shows: Some(4), ..user("a") },
            User { leaving: true, ..user("a") },
            User { names: false, leaving: true, settled: true, ..user("a") },
            // It was asked for with the machine, which nobody has seen yet.
            User { names: false, settled: false, ..user("a") },
            // It is named no more, and the machine has it still.
            User { names: false, settled: true, shows: Some(4), ..user("a") },
        ] {
            let disk = Disk { users: vec![user("b")], ..disk(Holder::There(held)) };
            assert_eq!(plan(&disk).step, Step::Rest, "{disk:?}");
        }
    }

    #[test]
    fn it_is_looked_for_while_its_machine_waits_for_a_person() {
        let stuck = || Holder::There(User { stalled: true, ..user("a") });
        assert_eq!(plan(&disk(stuck())).step, Step::Look);
        let absent = plan(&Disk { looked: Looked::Absent, ..disk(stuck()) });
        assert_eq!((absent.step, absent.phase), (Step::Rest, DiskPhase::Pending));
        let there = plan(&Disk { looked: Looked::There(4), ..disk(stuck()) });
        assert_eq!(
            (there.step, there.phase, there.size),
            (Step::Rest, DiskPhase::Detached, Some(4))
        );
    }

    #[test]
    fn it_is_taken_from_those_who_have_let_go() {
        let done = User { names: false, settled: true, ..user("a") };
        for holder in [Holder::There(done), Holder::Gone] {
            let made = Disk { made: Some(4), ..disk(holder) };
            assert_eq!(plan(&made).step, Step::Take);
            // One that was never seen may be there all the same.
            let unseen = Disk { made: None, ..made };
            assert_eq!(plan(&unseen).step, Step::Look);
            let absent = Disk { looked: Looked::Absent, ..unseen.clone() };
            assert_eq!((plan(&absent).step, plan(&absent).phase), (Step::Take, DiskPhase::Pending));
            let there = Disk { looked: Looked::There(4), ..unseen };
            assert_eq!((plan(&there).step, plan(&there).size), (Step::Take, Some(4)));
            assert_eq!(plan(&there).phase, DiskPhase::Detached);
        }
    }

    #[test]
    fn it_is_removed_when_nobody_has_it() {
        let going = |holder| Disk { deleting: true, ..disk(holder) };
        assert_eq!(plan(&going(Holder::Nobody)).step, Step::Remove);
        assert_eq!(plan(&going(Holder::Gone)).step, Step::Take);
        let held = plan(&going(Holder::There(user("a"))));
        assert_eq!((held.step, held.phase), (Step::Rest, DiskPhase::Deleting));
        assert!(held.message.contains("VirtualMachine a"), "{}", held.message);
        // One that somebody names now is not given to them.
        let wanted = Disk { users: vec![user("b")], ..going(Holder::Nobody) };
        assert_eq!(plan(&wanted).step, Step::Remove);
        let done = Disk { finalizer: false, ..going(Holder::Nobody) };
        assert_eq!(plan(&done).step, Step::Rest);
    }

    #[test]
    fn what_was_made_stays_made() {
        let made = Disk { made: Some(4), ..disk(Holder::Gone) };
        assert_eq!((plan(&made).phase, plan(&made).size), (DiskPhase::Detached, Some(4)));
        let grown = User { shows: Some(8), ..user("a") };
        let grown = Disk { holder: Holder::There(grown), ..made };
        assert_eq!((plan(&grown).phase, plan(&grown).size), (DiskPhase::Attached, Some(8)));
        assert_eq!(plan(&disk(Holder::Nobody)).phase, DiskPhase::Pending);
    }
}
