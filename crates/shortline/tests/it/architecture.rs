//! The crates depend on each other as ARCHITECTURE.md draws it, and in no other way.

use std::collections::BTreeSet;
use std::process::Command;

/// Every edge that is allowed outside of tests: (from, to).
const EDGES: [(&str, &str); 11] = [
    ("shortline", "shortline-core"),
    ("shortline", "shortline-gateway"),
    ("shortline", "shortline-plan"),
    ("shortline", "shortline-sim"),
    ("shortline", "shortline-theory"),
    ("shortline-gateway", "shortline-core"),
    ("shortline-plan", "shortline-core"),
    ("shortline-plan", "shortline-sim"),
    ("shortline-plan", "shortline-theory"),
    ("shortline-sim", "shortline-core"),
    ("shortline-theory", "shortline-core"),
];

/// Edges that tests and benches may use besides.
const TEST_EDGES: [(&str, &str); 1] = [("shortline-sim", "shortline-theory")];

#[test]
fn crates_depend_on_each_other_only_as_drawn() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("metadata lists packages");
    let members: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();

    let mut edges = 0;
    for package in packages {
        let from = package["name"].as_str().expect("a package has a name");
        for dependency in package["dependencies"].as_array().expect("a package lists dependencies") {
            let to = dependency["name"].as_str().expect("a dependency has a name");
            if !members.contains(to) {
                continue;
            }
            edges += 1;
            let is_test = dependency["kind"] == "dev";
            let allowed = EDGES.contains(&(from, to)) || (is_test && TEST_EDGES.contains(&(from, to)));
            assert!(allowed, "{from} may not depend on {to}; ARCHITECTURE.md says which edges there are");
        }
    }
    assert!(edges >= 3, "the workspace has edges to check, found {edges}");
}
