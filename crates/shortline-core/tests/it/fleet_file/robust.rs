//! Arbitrary text: never a panic, always places that exist.

use miette::{GraphicalReportHandler, GraphicalTheme};
use proptest::prelude::*;
use shortline_core::fleet::{Fleet, Source, read_parts};

use super::{SMALL, files};

/// Every section once, so that mutations reach all readers.
const FULL: &str = r#"
[fleet]
name = "all"
buffer = 5
policy = "jfsq(2)"
overflow = "wait"
queue_size = 10
[[server_type]]
name = "A10"
rate = 2.0
slots = 2
[[server]]
name = "gpu"
count = 4
type = "A10"
address = "10.0.0.7:8000-8003"
[[job_type]]
name = "M"
count = 6
total_rate = 3.0
zipf = 0.9
[[rate]]
job_type = "M-0"
server_type = "A10"
rate = 0.8
[graph]
kind = "file"
path = "edges.csv"
[service]
distribution = "erlang(3)"
[arrivals]
piecewise = [[0, 1.0], [10, 2.0]]
[failures]
events = [[5, "gpu-1", "down"]]
[information]
delay_s = 0.5
[timeouts]
idle_s = 3
[health]
path = "/h"
model_lost_status = [404]
[retry]
body_limit = "1 MiB"
[emulate]
time_scale = 0.1
[gateway]
body_scan_limit = "1 MiB"
[[route]]
path_prefix = "/m"
job_type = "M-1"
"#;

const EDGES: &str = "job_type,server\nM-0,gpu-0\nM-1,gpu-1\n";

/// Whether a number in the text could make a fleet or graph too large for a test.
fn describes_something_huge(text: &str) -> bool {
    let digits = text.replace('_', "");
    let longest = digits.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
    longest > Some(4) || ["0x", "0o", "0b"].iter().any(|prefix| text.contains(prefix))
}

/// Reads, renders what is wrong, and checks every place.
fn examine(name: &str, text: &str, edges: &str) -> Result<(), TestCaseError> {
    let parts = match read_parts(&Source { name, text }, &files(&[("edges.csv", edges)])) {
        Ok(parts) => parts,
        Err(faults) => {
            prop_assert!(!faults.faults().is_empty());
            for fault in faults.faults() {
                let file = if fault.file() == name { text } else { edges };
                let file = file.strip_prefix('\u{feff}').unwrap_or(file);
                let shown = file.get(fault.span());
                prop_assert!(shown.is_some(), "{:?} is no place of {file:?}", fault.span());
                let lines = file[..fault.span().start].matches('\n').count() + 1;
                prop_assert_eq!(fault.line(), lines);
                prop_assert!(!fault.plain().to_string().contains('\n'), "{}", fault.plain());
            }
            let mut shown = String::new();
            let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(100);
            prop_assert!(handler.render_report(&mut shown, &faults).is_ok());
            prop_assert!(!shown.contains("Failed to read contents"), "{shown}");
            return Ok(());
        }
    };
    let fleet = Fleet::new(parts.fleet);
    prop_assert!(fleet.is_ok(), "a file without faults is a fleet: {:?}", fleet.err());
    Ok(())
}

/// A piece of `text` replaced by something that occurs in such files.
fn mutated(text: &'static str) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::new()),
        proptest::sample::select(vec![
            "\"",
            "[",
            "]",
            "[[",
            "{",
            "}",
            "=",
            ",",
            "\n",
            "-1",
            "0",
            "1e999",
            "nan",
            "true",
            "\"*\"",
            "[]",
            "é",
            "\t",
            "name = \"gpu-1\"\n",
            "serves = [\"*\"]\n",
            "count = 3\n",
            "rank = 1\n",
            "[graph]\nkind = \"complete\"\n",
            "9999",
            "\u{0}",
            "\r",
            "\u{feff}",
            "'''",
            "#",
            "1979-05-27",
            "(",
            "M-0",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ];
    (0..text.len(), 0_usize..40, piece).prop_map(|(at, length, piece)| {
        let start = text.floor_char_boundary(at);
        let end = text.floor_char_boundary((at + length).min(text.len()));
        format!("{}{piece}{}", &text[..start], &text[end..])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn arbitrary_text_is_read_or_refused(text in "\\PC*", json in any::<bool>()) {
        let name = if json { "fleet.json" } else { "fleet.toml" };
        examine(name, &text, EDGES)?;
    }

    #[test]
    fn a_damaged_file_is_read_or_refused(text in mutated(FULL)) {
        prop_assume!(!describes_something_huge(&text));
        examine("fleet.toml", &text, EDGES)?;
    }

    #[test]
    fn a_damaged_small_file_is_read_or_refused(text in mutated(SMALL)) {
        prop_assume!(!describes_something_huge(&text));
        examine("fleet.toml", &text, EDGES)?;
    }

    #[test]
    fn a_damaged_json_file_is_read_or_refused(text in mutated(JSON)) {
        prop_assume!(!describes_something_huge(&text));
        examine("fleet.json", &text, EDGES)?;
    }

    #[test]
    fn a_damaged_edge_file_is_read_or_refused(edges in mutated(EDGES)) {
        examine("fleet.toml", FULL, &edges)?;
    }
}

const JSON: &str = r#"{
  "fleet": {"policy": "jsq", "buffer": 5},
  "server_type": [{"name": "A10", "rate": 2}, {"name": "L4", "rate": 1.5, "slots": 3}],
  "server": [{"name": "gpu", "count": 2, "type": "A10"}, {"name": "cpu", "type": "L4", "buffer": "unbounded"}],
  "job_type": [{"name": "M", "count": 4, "total_rate": 10, "zipf": 0.8}, {"name": "é", "rate": 3.0}],
  "graph": {"kind": "bernoulli", "degree": 1.5, "seed": 7},
  "service": {"distribution": "coxian2", "mu1": 1, "p": 0.5, "mu2": 2}
}"#;

#[test]
fn the_undamaged_files_are_right() {
    for (name, text) in [("fleet.toml", FULL), ("fleet.json", JSON)] {
        let parts = read_parts(&Source { name, text }, &files(&[("edges.csv", EDGES)]));
        assert!(parts.is_ok(), "{}", parts.unwrap_err().plain());
    }
}

#[test]
fn odd_texts_that_once_could_have_hurt() {
    for text in [
        "",
        "\u{feff}",
        "{",
        "{}",
        "[]",
        "{\"server\": []}",
        "{\"a\":1}{",
        "\"",
        "[[server]]",
        "[fleet]\n[fleet]\n",
        "a.b.c = 1",
        "[server_type.x]\nname = 1",
        "x = [[[[[[1]]]]]]",
        "\r\r\n",
        "fleet = { name = \"a\", name = \"b\" }",
        "{\"graph\": {\"kind\": \"port-degree\", \"degree\": 1e300}}",
        "[fleet]\npolicy = \"jsq(\\n)\"",
        "graph = 3",
        "[[graph]]\n[[graph]]",
    ] {
        for name in ["fleet.toml", "fleet.json"] {
            examine(name, text, EDGES).unwrap();
        }
    }
    examine("fleet.json", &"[".repeat(100_000), EDGES).unwrap();
    examine("fleet.toml", &format!("a = {}", "[".repeat(100_000)), EDGES).unwrap();
    examine("fleet.json", &format!("{{\"a\": {}", "{\"a\":".repeat(100_000)), EDGES).unwrap();
}
