//! The tag of a container image's name, which decides how images are pulled.

/// The tag, `latest` if the name has neither tag nor digest. Empty for names that are not valid.
pub(crate) fn tag(image: &str) -> &str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to the registry's port.
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let path = name.strip_suffix(tag.unwrap_or_default()).unwrap_or(name).trim_end_matches(':');
    let registry = path.split_once('/').map_or("", |(first, _)| first);
    let is_registry = registry.contains(['.', ':']) || registry == "localhost";
    let rest = if is_registry { &path[registry.len()..] } else { path };
    if path.is_empty() || rest.contains(|c: char| c.is_ascii_uppercase() || c.is_whitespace()) {
        return "";
    }
    match (tag, digest) {
        (Some(tag), _) => tag,
        (None, Some(_)) => "",
        (None, None) => "latest",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        let cases = [
            ("nginx", "latest"),
            ("nginx:1.27", "1.27"),
            ("registry:5000/nginx", "latest"),
            ("registry:5000/team/nginx:latest", "latest"),
            ("nginx@sha256:0000", ""),
            ("nginx:latest@sha256:0000", "latest"),
            ("Registry.example/nginx", "latest"),
            ("team/Nginx", ""),
            ("", ""),
        ];
        for (image, expected) in cases {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
