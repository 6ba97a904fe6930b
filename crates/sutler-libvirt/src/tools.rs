//! The agent in guests, and what a class says about it.

use sutler_provider::{Error, Result};

const FIELD: &str = "spec.guestToolsPolicy";

/// What is done about the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// It is installed where the guest has none.
    Install,
    /// The newest is installed.
    Upgrade,
    /// The guest is left as it is.
    Skip,
}

impl Policy {
    /// Reads what a class says.
    pub(crate) fn read(text: &str) -> Result<Self> {
        match text {
            "install" => Ok(Self::Install),
            "upgrade" => Ok(Self::Upgrade),
            "skip" => Ok(Self::Skip),
            other => {
                let why = format!("{other:?}: nothing is taken out of guests here");
                Err(Error::unsupported(why).at(FIELD))
            }
        }
    }

    /// What a guest runs on its first boot, by cloud-init, beside what its user gives it: a script is not
    /// replaced by the user's own lists of packages and commands.
    pub(crate) fn script(self) -> Option<String> {
        let wanted = match self {
            Self::Skip => return None,
            Self::Install => "command -v qemu-ga >/dev/null 2>&1 || ",
            Self::Upgrade => "",
        };
        Some(SCRIPT.replace("WANTED", wanted))
    }
}

/// A guest without a network, or of a distribution that is not known here, goes on without the agent.
const SCRIPT: &str = "#!/bin/sh
# The agent by which a machine tells its addresses and is asked for what else only its guest can do.
get() {
    if command -v apt-get; then
        apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy install qemu-guest-agent
    elif command -v dnf; then dnf -qy install qemu-guest-agent
    elif command -v yum; then yum -qy install qemu-guest-agent
    elif command -v zypper; then zypper -qn install qemu-guest-agent
    elif command -v apk; then apk add -qu qemu-guest-agent
    else echo 'no package manager that is known here'
    fi
}
WANTEDget
systemctl start qemu-guest-agent || service qemu-guest-agent start
exit 0
";

#[cfg(test)]
mod tests {
    use std::{io::Write as _, process::Stdio};

    use super::*;

    #[test]
    fn policies_are_carried_out_or_refused() {
        for (text, policy) in
            [("install", Policy::Install), ("upgrade", Policy::Upgrade), ("skip", Policy::Skip)]
        {
            assert_eq!(Policy::read(text).unwrap(), policy);
        }
        assert_eq!(Policy::read("uninstall").unwrap_err().field(), Some(FIELD));
        assert_eq!(Policy::Skip.script(), None);
    }

    /// Runs a script among programs that say what they are asked for.
    fn run(policy: Policy, programs: &[&str]) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        for name in programs {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\necho {name} \"$@\"\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut shell = std::process::Command::new("/bin/sh");
        let shell = shell.env("PATH", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.stderr(Stdio::null()).spawn().unwrap();
        let script = policy.script().unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn the_agent_is_installed_where_it_lacks_and_started() {
        let bare = run(Policy::Install, &["apt-get", "systemctl"]);
        assert!(bare.contains("apt-get -qy install qemu-guest-agent\n"), "{bare}");
        assert!(bare.ends_with("systemctl start qemu-guest-agent\n"), "{bare}");
        let there = ["qemu-ga", "dnf", "systemctl"];
        assert_eq!(run(Policy::Install, &there), "systemctl start qemu-guest-agent\n");
        assert!(run(Policy::Upgrade, &there).contains("dnf -qy install qemu-guest-agent\n"));
        // What is not known does not stop a boot.
        run(Policy::Install, &[]);
    }
}
