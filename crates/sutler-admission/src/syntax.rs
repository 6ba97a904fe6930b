//! Forms of text that Kubernetes asks for.

/// What is wrong with the key of a label or a taint: `name` or `prefix/name`.
pub(crate) fn key(text: &str) -> Result<(), &'static str> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if prefix.is_some_and(|prefix| !is_name(prefix)) {
        return Err("has a prefix that is no DNS name in lower case");
    }
    match is_word(name) {
        true => Ok(()),
        false => {
            Err("must be 1 to 63 letters, digits, -, _ and ., with a letter or digit at both \
             ends, after an optional prefix and /")
        }
    }
}

/// What is wrong with the value of a label or a taint.
pub(crate) fn value(text: &str) -> Result<(), &'static str> {
    match text.is_empty() || is_word(text) {
        true => Ok(()),
        false => Err("must be empty, or at most 63 letters, digits, -, _ and ., with a letter or \
             digit at both ends"),
    }
}

/// Whether a text can be part of a DNS name.
pub(crate) fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
        && text.bytes().next().is_some_and(plain)
        && text.bytes().last().is_some_and(plain)
}

/// Whether a text is `v` and a semantic version.
pub(crate) fn is_version(text: &str) -> bool {
    let Some(text) = text.strip_prefix('v') else { return false };
    let (rest, build) = match text.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (text, None),
    };
    let (core, pre) = match rest.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (rest, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = |part: &str| digits(part) && (part == "0" || !part.starts_with('0'));
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| {
            pre.split('.').all(|part| word(part) && (!digits(part) || number(part)))
        })
        && build.is_none_or(|build| build.split('.').all(word))
}

/// Whether a text can be the name of most objects: a DNS name in lower case.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && text.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values() {
        for good in ["a", "A.b_c-d", "example.com/a", "a.b-c/D", &"x".repeat(63)] {
            assert_eq!(key(good), Ok(()), "{good}");
        }
        for bad in
            ["", "/", "a/", "/a", "-a", "a-", "a/b/c", "Ex.com/a", "a b", "ä", &"x".repeat(64)]
        {
            assert!(key(bad).is_err(), "{bad}");
        }
        for good in ["", "a", "1.2_3-x"] {
            assert_eq!(value(good), Ok(()), "{good}");
        }
        for bad in ["-", "a/b", " a", "x.", &"x".repeat(64)] {
            assert!(value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn versions() {
        for good in ["v1.34.1", "v0.0.0", "v1.34.1-rc.1", "v1.34.1+k3s1", "v1.2.3-a-b.0+c.d"] {
            assert!(is_version(good), "{good}");
        }
        for bad in [
            "",
            "1.34.1",
            "v1.34",
            "v1.34.1.2",
            "v01.2.3",
            "v1.2.x",
            "v1.2.3-",
            "v1.2.3+",
            "v1.2.3-01",
        ] {
            assert!(!is_version(bad), "{bad}");
        }
    }
}
