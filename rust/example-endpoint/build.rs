// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Compiles endpoint.c, and the endpoint of the examples in C.

use std::env;
use std::process::Command;

const COMMON: &str = "../../examples/common/endpoint.c";

fn run(program: &str, args: &[String]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {}", program, error));
    if !output.status.success() {
        panic!("{} {:?}: {}", program, args, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn main() {
    println!("cargo:rerun-if-changed=endpoint.c");
    println!("cargo:rerun-if-changed={}", COMMON);
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let cc = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let flags = run("pkg-config", &words("--cflags hmreg-ofi libfabric"));
    let mut archive = words(&format!("rcs {}/libexample_endpoint.a", out));
    for source in ["endpoint.c", COMMON] {
        let object = format!("{}/{}.o", out, archive.len());
        let mut args = words(&format!("-D_GNU_SOURCE -O2 -fPIC -c {} -o", source));
        args.push(object.clone());
        args.extend(words(&flags));
        run(&cc, &args);
        archive.push(object);
    }
    run("ar", &archive);
    println!("cargo:rustc-link-search=native={}", out);
    println!("cargo:rustc-link-lib=static=example_endpoint");
    println!("cargo:rustc-link-lib=dylib=fabric");
}
