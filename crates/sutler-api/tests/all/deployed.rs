//! `deploy/crds` holds exactly what the crate defines.

use std::{collections::BTreeMap, fs, path};

const HINT: &str = "run `UPDATE_CRDS=1 cargo test -p sutler-api deployed` and commit deploy/crds";

#[test]
fn deployed_files_are_what_the_crate_defines() {
    let folder = path::absolute("../../deploy/crds").unwrap();
    let wanted: BTreeMap<String, String> = sutler_api::crds()
        .iter()
        .map(|crd| (sutler_api::crd::file_name(crd), sutler_api::crd::to_yaml(crd)))
        .collect();
    if std::env::var_os("UPDATE_CRDS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                fs::remove_file(path).unwrap();
            }
        }
        for (name, yaml) in &wanted {
            fs::write(folder.join(name), yaml).unwrap();
        }
    }
    let found: BTreeMap<String, String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    let names: Vec<_> = found.keys().collect();
    assert_eq!(names, wanted.keys().collect::<Vec<_>>(), "{HINT}");
    for (name, yaml) in &wanted {
        assert!(found[name] == *yaml, "deploy/crds/{name} is out of date: {HINT}");
    }
}
