//! The parity suite: every subject on every server, compared with the real one.

use sutler_parity::{cases, peer, suite};

#[test]
fn the_real_server_accepts_our_crds() {
    let Some(peer) = peer::shared() else { return };
    assert!(peer.refused.is_empty(), "{}", peer.refused.join("\n"));
}

/// A case that is not the same twice on the real server is a bad case.
#[test]
fn real_is_deterministic() {
    let Some(peer) = peer::shared() else { return };
    let mut reports = Vec::new();
    let mut count = 0;
    for subject in cases::SUBJECTS {
        let begun = std::time::Instant::now();
        let truth = suite::truth(subject);
        let again = suite::run(&peer.target(), subject, "b");
        println!("{}: {} cases, twice in {:?}", subject.name, again.len(), begun.elapsed());
        count += again.len();
        reports.extend(suite::report(&again, truth));
    }
    println!("{count} cases");
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}
