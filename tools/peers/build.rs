//! Builds the stores of `engines/` that were asked for as features, and links what they are
//! wrapped around.

/// A feature, and the library that it needs; the feature's name is that of its source, too.
const STORES: [(&str, &str); 4] =
    [("leveldb", "leveldb"), ("rocksdb", "rocksdb"), ("lmdb", "lmdb"), ("kyoto", "kyotocabinet")];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(native)");
    println!("cargo::rerun-if-changed=engines");
    let is_asked =
        |name: &str| std::env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase())).is_some();
    let stores: Vec<_> = STORES.into_iter().filter(|(name, _)| is_asked(name)).collect();
    if stores.is_empty() {
        return;
    }
    println!("cargo::rustc-cfg=native");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").file("engines/boundary.cc");
    for (name, _) in &stores {
        build.file(format!("engines/{name}.cc"));
        build.define(&format!("PEERS_{}", name.to_uppercase()), None);
    }
    build.compile("peers_engines");
    for (_, library) in &stores {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}
