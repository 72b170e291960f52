// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Links libhmreg, and the library of each feature, as pkg-config says.

use std::env;
use std::process::Command;

fn link(module: &str) {
    let output = Command::new("pkg-config")
        .args(["--libs", module])
        .output()
        .expect("hmreg-sys needs pkg-config");
    if !output.status.success() {
        panic!("{}", String::from_utf8_lossy(&output.stderr));
    }
    for word in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", folder);
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={}", library);
        }
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    link("hmreg");
    for feature in ["loopback", "ofi", "verbs", "affinity"] {
        if env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some() {
            link(&format!("hmreg-{}", feature));
        }
    }
}
