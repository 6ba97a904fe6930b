//! The checked-in code is what the protos say. `UPDATE_PROTO=1` writes it anew; no protoc is needed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use prost::Message as _;

const FILES: [&str; 2] = ["provider/v1/provider.proto", "sutler/provider/v1/extensions.proto"];

/// Messages that hold credentials, which nothing may print.
const SECRET: [&str; 5] = [
    ".provider.v1.ExportDiskRequest",
    ".provider.v1.ImportDiskRequest",
    ".sutler.provider.v1.ImagePrepareRequest",
    ".sutler.provider.v1.ExportDiskRequest",
    ".sutler.provider.v1.ImportDiskRequest",
];

fn root() -> PathBuf {
    std::env::current_dir().unwrap()
}

fn generate(into: &Path) {
    let mut set = protox::compile(FILES, [root().join("proto")]).unwrap();
    let mut config = prost_build::Config::new();
    config.btree_map(["."]).skip_debug(SECRET);
    tonic_prost_build::configure()
        .out_dir(into)
        .emit_rerun_if_changed(false)
        .compile_fds_with_config(set.clone(), config)
        .unwrap();
    for file in &mut set.file {
        // Reflection needs no comments.
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
        ("provider.v1.rs", "provider.v1.rs.in"),
        ("sutler.provider.v1.rs", "sutler.provider.v1.rs.in"),
        ("descriptors.bin", "descriptors.bin"),
    ] {
        let fresh = fs::read(made.path().join(from)).unwrap();
        let path = root().join("src/generated").join(to);
        if update {
            fs::write(&path, &fresh).unwrap();
        }
        assert!(
            fs::read(&path).unwrap() == fresh,
            "{to} is not what the protos say: UPDATE_PROTO=1 cargo test -p sutler-rpc generated"
        );
    }
}
