//! The checked-in code is what the proto says. `UPDATE_PROTO=1` writes it anew; no protoc is needed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use prost::Message as _;

fn root() -> PathBuf {
    std::env::current_dir().unwrap()
}

fn generate(into: &Path) {
    let mut set = protox::compile(["externalgrpc.proto"], [root().join("proto")]).unwrap();
    let mut config = prost_build::Config::new();
    config.btree_map(["."]);
    tonic_prost_build::configure()
        .out_dir(into)
        .emit_rerun_if_changed(false)
        .compile_fds_with_config(set.clone(), config)
        .unwrap();
    // The types of Google's own files come from a crate.
    set.file.retain(|file| !file.package().starts_with("google."));
    for file in &mut set.file {
        file.source_code_info = None;
    }
    fs::write(into.join("descriptors.bin"), set.encode_to_vec()).unwrap();
}

#[test]
fn generated_code_is_fresh() {
    let made = tempfile::tempdir().unwrap();
    generate(made.path());
    let update = std::env::var_os("UPDATE_PROTO").is_some();
    for (from, to) in [
        ("clusterautoscaler.cloudprovider.v1.externalgrpc.rs", "externalgrpc.rs.in"),
        ("descriptors.bin", "descriptors.bin"),
    ] {
        let fresh = fs::read(made.path().join(from)).unwrap();
        let path = root().join("src/generated").join(to);
        if update {
            fs::write(&path, &fresh).unwrap();
        }
        assert!(
            fs::read(&path).unwrap() == fresh,
            "{to} is not what the proto says: UPDATE_PROTO=1 cargo test -p sutler-externalgrpc generated"
        );
    }
}
