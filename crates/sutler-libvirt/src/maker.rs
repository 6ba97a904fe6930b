//! Who is making a machine: told apart from those who died while they did.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use jiff::Timestamp;

use crate::mark::Making;

/// After this long nobody is making a machine any more, whoever it was.
const FOREVER: Duration = Duration::from_secs(2 * 3600);

/// Makers that there were in this process.
static MAKERS: AtomicU32 = AtomicU32::new(0);

/// One that makes machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Maker {
    /// Where it runs: no other host, boot or container has this.
    place: String,
    pid: u32,
    /// When it began, in the kernel's count: a number is given to another process at times.
    began: String,
    /// Which of the makers in that process.
    number: u32,
}

impl Maker {
    /// A new one in this process.
    pub(crate) fn new() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let boot = read("/proc/sys/kernel/random/boot_id");
        let space = std::fs::read_link("/proc/self/ns/pid")
            .map(|link| link.display().to_string())
            .unwrap_or_default();
        let pid = std::process::id();
        let place = format!("{boot}{space}").replace(' ', "");
        let number = MAKERS.fetch_add(1, Ordering::Relaxed);
        Self { place, pid, began: began(pid).unwrap_or_default(), number }
    }

    /// As it is noted in a machine.
    pub(crate) fn write(&self) -> String {
        format!("{} {} {} {}", self.place, self.pid, self.began, self.number)
    }

    /// Whether a machine that is being made has nobody who makes it. Of a process elsewhere only time
    /// tells.
    pub(crate) fn is_gone(&self, making: &Making, now: Timestamp) -> bool {
        let parts: Vec<&str> = making.by.split(' ').collect();
        let [place, pid, start, _] = parts[..] else { return true };
        let age = now.duration_since(making.since);
        if place != self.place {
            return age.unsigned_abs() > FOREVER;
        }
        pid.parse().ok().and_then(began).is_none_or(|now| now != start)
    }
}

/// When a process of this host began, if it is there.
fn began(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field can hold anything, and ends with the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // A process that has died and is not yet buried does nothing more.
    (fields.first()? != &"Z").then(|| fields.get(19).map(|began| (*began).to_owned()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_told_from_the_dead() {
        let maker = Maker::new();
        let now = Timestamp::now();
        let making = |by: String| Making { by, since: now };
        assert!(!maker.is_gone(&making(maker.write()), now));
        let later = Maker { began: "1".to_owned(), ..maker.clone() };
        assert!(maker.is_gone(&making(later.write()), now), "the number was given again");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = Maker { pid: child.id(), began: "1".to_owned(), ..maker.clone() };
        child.wait().unwrap();
        assert!(maker.is_gone(&making(dead.write()), now));
        let elsewhere = Maker { place: "there".to_owned(), ..maker.clone() };
        assert!(!maker.is_gone(&making(elsewhere.write()), now));
        let old = Making { by: elsewhere.write(), since: now - FOREVER - FOREVER };
        assert!(maker.is_gone(&old, now));
        assert!(maker.is_gone(&making("nonsense".to_owned()), now));
    }
}
