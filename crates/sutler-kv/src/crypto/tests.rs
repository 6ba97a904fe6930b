use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;

use super::*;

fn text(keyring: &Keyring) -> String {
    let entry = |(id, key): (&KeyId, &Zeroizing<[u8; 32]>)| {
        format!("{id}:{}", STANDARD.encode(key.as_slice()))
    };
    keyring.keys.iter().map(entry).collect::<Vec<_>>().join(",")
}

#[test]
fn a_sealed_value_opens_only_in_its_place() {
    let keyring = Keyring::generate();
    let sealed = keyring.seal(&bound("secrets/a/b", 7, false), b"value");
    let open = |keyring: &Keyring, id, bound: &[u8]| keyring.open(id, bound, &sealed);
    assert_eq!(open(&keyring, 1, &bound("secrets/a/b", 7, false)).unwrap(), b"value");
    for other in [
        bound("secrets/a/c", 7, false),
        bound("secrets/a/b", 8, false),
        bound("secrets/a/b", 7, true),
        vec![PROOF],
    ] {
        assert!(matches!(open(&keyring, 1, &other), Err(KeyError::Wrong { id: 1 })));
    }
    let place = bound("secrets/a/b", 7, false);
    assert!(matches!(open(&Keyring::generate(), 1, &place), Err(KeyError::Wrong { id: 1 })));
    assert!(matches!(open(&keyring, 2, &place), Err(KeyError::Missing { id: 2 })));
}

#[test]
fn a_new_key_seals_and_the_old_one_still_opens() {
    let old = Keyring::generate();
    let sealed = old.seal(b"x", b"value");
    let both = old.with_new_key();
    assert_eq!(both.ids().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(both.open(1, b"x", &sealed).unwrap(), b"value");
    let resealed = both.seal(b"x", b"value");
    assert_eq!(both.newest_only().open(2, b"x", &resealed).unwrap(), b"value");
    assert_eq!(both.newest_only().ids().collect::<Vec<_>>(), [2]);
}

#[test]
fn keys_are_never_printed() {
    let keyring = Keyring::generate().with_new_key();
    let printed = format!("{keyring:?}");
    assert_eq!(printed, "Keyring([1, 2])");
}

#[test]
fn keys_are_read_from_text() {
    let keyring = Keyring::generate().with_new_key();
    let given = text(&keyring);
    assert_eq!(text(&Keyring::parse(&given).unwrap()), given);
    let lines = format!("# a comment\n{}\n\n", given.replace(',', "\n"));
    assert_eq!(text(&Keyring::parse(&lines).unwrap()), given);
    let lone = text(&Keyring::generate()).split_off(2);
    assert_eq!(Keyring::parse(&lone).unwrap().newest(), 1);

    let message = |text: &str| Keyring::parse(text).unwrap_err().to_string();
    assert_eq!(message(""), "no key is given");
    assert!(message("1:c2hvcnQ=").starts_with("entry 1 of the keys"));
    assert!(message(&format!("{lone},{lone}")).starts_with("entry 1 of the keys"));
    assert!(message(&format!("1:{lone},x:{lone}")).starts_with("entry 2 of the keys"));
    assert_eq!(message(&format!("1:{lone},1:{lone}")), "key 1 is given twice");
    for bad in ["1:c2hvcnQ=", &format!("x:{lone}")] {
        let shown = format!("{:?}", Keyring::parse(bad).unwrap_err());
        assert!(!shown.contains(bad.split_at(2).1), "an error must not show a key: {shown}");
    }
}

#[test]
fn a_key_file_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    assert!(matches!(Keyring::load(&path), Err(KeyError::Read { .. })));
    let made = Keyring::load_or_create(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(text(&Keyring::load_or_create(&path).unwrap()), text(&made));
    made.with_new_key().save(&path).unwrap();
    assert_eq!(Keyring::load(&path).unwrap().newest(), 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    for mode in [0o640, 0o604, 0o610] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let message = Keyring::load(&path).unwrap_err().to_string();
        assert!(message.contains(&format!("{mode:04o}")) && message.contains("chmod 600"));
    }
}

proptest! {
    #[test]
    fn a_changed_ciphertext_never_opens(
        value in proptest::collection::vec(any::<u8>(), 0..64),
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        let keyring = Keyring::generate();
        let mut sealed = keyring.seal(b"x", &value);
        prop_assert_eq!(keyring.open(1, b"x", &sealed).unwrap(), value);
        let at = at.index(sealed.len());
        sealed[at] ^= flip;
        prop_assert!(keyring.open(1, b"x", &sealed).is_err());
        prop_assert!(keyring.open(1, b"x", &sealed[..at]).is_err());
    }
}
