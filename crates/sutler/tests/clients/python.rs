//! The Python client; the scripts are in `python/` and fail by themselves.

use crate::support::{Place, Run};

fn script(namespace: &'static str, file: &str) {
    let Some(place) = Place::new(namespace) else { return };
    let Some(mut command) = place.python(file) else { return };
    let run = Run::from(command.output().expect("it runs"));
    assert_eq!(run.code, 0, "{file}\n{}{}", run.out, run.err);
    assert_eq!(run.out, "done\n", "{file} ended early\n{}", run.err);
}

#[test]
fn core_objects() {
    script("python-core", "core.py");
}

#[test]
fn custom_objects() {
    script("python-custom", "custom.py");
}

#[test]
fn dynamic_client() {
    script("python-dynamic", "dynamic_client.py");
}

#[test]
fn watches_and_pages() {
    script("python-watch", "watching.py");
}
