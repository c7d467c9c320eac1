//! The docs say what is so: every fleet file in them is one, and the reference names every key that the reader knows.
//!
//! A code block whose language is `toml` or `json` is a whole fleet file; `toml,partial` and `json,partial` are not. The
//! edge file of an example is the first `csv` block behind it on its page.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use shortline_core::fleet::{Source, read};

use crate::processes::shortline;

/// A fenced code block of a page.
struct Block<'a> {
    /// Language and marks, as written behind the fence.
    info: &'a str,
    text: String,
    line: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README and all pages of the book, with their names: the path within the book.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), std::fs::read_to_string(root().join("README.md")).unwrap())];
    let experiments = std::fs::read_dir(root().join("docs/src/reproduce")).unwrap().map(|entry| entry.unwrap());
    let experiments = experiments.filter(|entry| entry.path().is_dir());
    let experiments = experiments.map(|entry| format!("reproduce/{}/", entry.file_name().to_string_lossy()));
    for folder in ["", "reproduce/", "theory/"].map(str::to_owned).into_iter().chain(experiments) {
        let entries = std::fs::read_dir(root().join("docs/src").join(&folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        for path in paths.filter(|path| path.extension().is_some_and(|e| e == "md")) {
            let name = format!("{folder}{}", path.file_name().unwrap().to_string_lossy());
            pages.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
    pages.sort();
    pages
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block<'_>>);
    for (i, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some(Block { info, text: String::new(), line: i + 2 }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a code block is not closed");
    blocks
}

#[test]
fn every_fleet_file_in_the_docs_can_be_read() {
    let mut read_from = BTreeSet::new();
    for (page, text) in pages() {
        let blocks = blocks(&text);
        for (i, block) in blocks.iter().enumerate().filter(|(_, block)| ["toml", "json"].contains(&block.info)) {
            let edges = blocks[i..].iter().find(|block| block.info == "csv").map(|block| block.text.clone());
            let edge_file = |_: &str| edges.clone().ok_or(io::ErrorKind::NotFound.into());
            let name = format!("{page}.{}", block.info);
            if let Err(faults) = read(&Source { name: &name, text: &block.text }, &edge_file) {
                panic!("the fleet file at {page}:{}: {}", block.line, faults.plain());
            }
            read_from.insert(page.clone());
        }
    }
    assert!(read_from.contains("README.md") && read_from.contains("fleet-file.md"), "read: {read_from:?}");
}

/// Parts of fleet files are read as far as that goes: what they lack is no fault of theirs.
#[test]
fn parts_of_fleet_files_in_the_docs_have_no_unknown_keys_and_no_wrong_values() {
    let mut parts = 0;
    for (page, text) in pages() {
        for block in blocks(&text).iter().filter(|block| block.info == "toml,partial") {
            parts += 1;
            for fault in faults_of(&block.text) {
                let is_lack =
                    ["no server", "no job type", "there is no server"].iter().any(|lack| fault.0.contains(lack));
                assert!(is_lack, "{page}:{}: {} ({:?})", block.line, fault.0, fault.1);
            }
        }
    }
    assert!(parts > 0);
}

/// Message and remedy of each fault.
fn faults_of(text: &str) -> Vec<(String, Option<String>)> {
    let no_file = |_: &str| Err(io::ErrorKind::NotFound.into());
    let Err(faults) = read(&Source { name: "part.toml", text }, &no_file) else { return Vec::new() };
    let said = faults.faults().iter();
    said.map(|fault| (fault.message().to_owned(), fault.remedy().map(str::to_owned))).collect()
}

/// Each section is given a key that it does not have; the reader answers with those that it has.
#[test]
fn the_reference_names_every_key_that_the_reader_knows() {
    let page = std::fs::read_to_string(root().join("docs/src/fleet-file.md")).unwrap();
    let lists = ["server_type", "server", "job_type", "rate", "route"].map(|list| format!("[[{list}]]"));
    let tables =
        ["fleet", "failures", "information", "timeouts", "emulate", "gateway"].map(|table| format!("[{table}]"));
    let graphs =
        ["complete", "port-degree", "server-degree", "bernoulli", "well-connected", "proportionally-sparse", "file"]
            .map(|kind| format!("[graph]\nkind = \"{kind}\""));
    let laws = ["erlang", "hyperexponential", "coxian2", "lognormal", "pareto"]
        .map(|law| format!("[service]\ndistribution = \"{law}\""));
    let processes = ["renewal", "on-off"].map(|process| format!("[arrivals]\nprocess = \"{process}\""));

    let mut known = BTreeSet::new();
    for section in lists.iter().chain(&tables).chain(&graphs).chain(&laws).chain(&processes) {
        let faults = faults_of(&format!("{section}\nqqqqqqqqqqqq = 1\n"));
        let help =
            faults.iter().find_map(|(message, remedy)| message.contains("unknown key").then_some(remedy.clone()?));
        let help = help.unwrap_or_else(|| panic!("{section}: no list of keys in {faults:?}"));
        assert!(!help.contains("more"), "{section}: the list of keys is cut: {help}");
        known.extend(help.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    assert!(
        known.contains("queue_timeout_s") && known.contains("servers_left_out") && known.contains("peak"),
        "{known:?}"
    );
    // Parameters of laws stand in the call form only.
    let is_named = |key: &&String| {
        page.contains(&format!("`{key}`")) || page.contains(&format!("({key}")) || page.contains(&format!(",{key}"))
    };
    let missing: Vec<&String> = known.iter().filter(|key| !is_named(key)).collect();
    assert!(missing.is_empty(), "docs/src/fleet-file.md does not name {missing:?}");
}

#[test]
fn links_within_the_book_lead_somewhere() {
    let pages = pages();
    let has_page = |name: &str| pages.iter().any(|(page, _)| page == name);
    let mut links = 0;
    for (page, text) in pages.iter().filter(|(page, _)| page != "README.md") {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if target.starts_with("http") {
                continue;
            }
            let file = &if file.is_empty() { page.clone() } else { within_the_book(page, file) };
            if !file.ends_with(".md") {
                assert!(root().join("docs/src").join(file).is_file(), "{page}: no file {file}");
                continue;
            }
            assert!(has_page(file), "{page}: no page {file}");
            let headings = &pages.iter().find(|(page, _)| page == file).unwrap().1;
            let found = anchor.is_empty() || headings.lines().filter_map(heading).any(|heading| heading == anchor);
            assert!(found, "{page}: {file} has no heading #{anchor}");
            links += 1;
        }
    }
    assert!(links > 10);
}

/// Goal: the book has the results of every experiment in full, and leads to them.
#[test]
fn the_book_has_the_full_run_of_every_experiment() {
    let summary = std::fs::read_to_string(root().join("docs/src/SUMMARY.md")).unwrap();
    let list = shortline().args(["reproduce", "--json"]).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    for name in list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()) {
        let page = format!("reproduce/{name}/README.md");
        let text = std::fs::read_to_string(root().join("docs/src").join(&page)).unwrap_or_default();
        assert!(text.contains(&format!("    shortline reproduce {name}\n")), "{page} is not of a full run");
        assert!(summary.contains(&page), "SUMMARY.md does not lead to {page}");
    }
}

/// The path within the book of a link from a page.
fn within_the_book(page: &str, link: &str) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    match link.strip_prefix("../") {
        Some(above) => above.to_owned(),
        None if folder.is_empty() => link.to_owned(),
        None => format!("{folder}/{link}"),
    }
}

/// The anchor of a heading: lower case, blanks to dashes, other signs dropped.
fn heading(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}
