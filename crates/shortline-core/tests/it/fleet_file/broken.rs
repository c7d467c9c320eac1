//! Broken files and what the command line shows for them.

use miette::{GraphicalReportHandler, GraphicalTheme};
use shortline_core::fleet::{Source, read};

use super::{SMALL, files};

/// As the command line renders it, without colour, 100 columns wide.
#[track_caller]
fn rendered_as(name: &str, text: &str, beside: &[(&str, &str)]) -> String {
    let faults = read(&Source { name, text }, &files(beside)).expect_err("the file should be refused");
    let mut shown = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(100);
    handler.render_report(&mut shown, &faults).expect("a string can be written to");
    shown
}

#[track_caller]
fn rendered(text: &str) -> String {
    rendered_as("fleet.toml", text, &[])
}

/// [`SMALL`] with one piece replaced, which has to be there.
#[track_caller]
fn changed(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from} is not in the file");
    SMALL.replacen(from, to, 1)
}

#[test]
fn misspelt_keys_sections_and_words_are_suggested() {
    insta::assert_snapshot!(rendered(
        r#"
[flet]
name = "x"

[fleet]
polcy = "jsq"
policy = "jfqs"
overflow = "wiat"

[[server_type]]
name = "A10"
rat = 2.0

[[server]]
name = "gpu"
type = "A1O"
serves = ["M0002", "M0O01"]

[[job_type]]
name = "M0001"
rate = 1
[[job_type]]
name = "M0002"
rate = 1

[service]
distribution = "exponental"
"#
    ));
}

#[test]
fn values_of_the_wrong_type_say_which_is_right() {
    insta::assert_snapshot!(rendered(
        r#"
fleet = "x"

[[server_type]]
name = 10
rate = "fast"

[server]
name = "gpu"

[[job_type]]
name = "M1"
rate = 1979-05-27

[timeouts]
connect_s = true
"#
    ));
}

#[test]
fn numbers_out_of_range_say_the_range() {
    insta::assert_snapshot!(rendered(
        r#"
[fleet]
buffer = 2
policy = "jsq(0)"

[[server_type]]
name = "A10"
rate = -2.0
slots = 0

[[server_type]]
name = "L4"
rate = inf
slots = 4

[[server]]
name = "gpu"
count = 0
type = "A10"
serves = ["*"]

[[server]]
name = "one"
type = "L4"
buffer = 3
serves = ["*"]

[[job_type]]
name = "M1"
rate = 1.0
size = 0

[gateway]
no_capacity_status = 404
body_scan_limit = "8 megs"
"#
    ));
}

#[test]
fn names_given_twice_show_both_places() {
    insta::assert_snapshot!(rendered(
        r#"
[[server_type]]
name = "A10"
rate = 2
[[server_type]]
name = "A10"
rate = 3

[[server]]
name = "gpu-2"
type = "A10"
serves = ["M1", "M2", "M1"]
address = "10.0.0.7:8001"

[[server]]
name = "gpu"
count = 3
type = "A10"
serves = ["*"]
address = "10.0.0.7:8000-8002"

[[job_type]]
name = "M1"
rate = 1
[[job_type]]
name = "M2"
rate = 1

[[rate]]
job_type = "M1"
server_type = "A10"
rate = 1
[[rate]]
job_type = "M1"
server_type = "A10"
rate = 2
"#
    ));
}

#[test]
fn a_file_with_syntax_faults_shows_them_and_what_else_is_wrong() {
    insta::assert_snapshot!(rendered(
        r#"
[fleet]
name = "x
buffer = 5

[[server_type]]
name = "A10"
rate = 2,0

[[server]]
nam = "gpu"
serves = ["*"
"#
    ));
}

#[test]
fn an_empty_file_says_what_is_missing() {
    insta::assert_snapshot!(rendered(""));
}

#[test]
fn rates_and_ranks_do_not_mix() {
    let text = changed("rate = 1.0", "rank = 2").replace("name = \"small\"", "policy = \"sed\"");
    insta::assert_snapshot!(rendered(&text));
}

#[test]
fn a_graph_and_serves_lists_exclude_each_other() {
    insta::assert_snapshot!(rendered(&format!("{SMALL}\n[graph]\nkind = \"port-degree\"\ndegree = 2\n")));
}

#[test]
fn a_graph_has_the_keys_of_its_kind() {
    let bare = SMALL.replace("serves = [\"*\"]\n", "").replace("serves = [\"M1\"]\n", "");
    let graph = "[graph]\nkind = \"bernoulli\"\nprobability = 1.5\ndegree = 2\ndelta = 0.1\nseed = -1\n";
    insta::assert_snapshot!(rendered(&format!("{bare}\n{graph}")));
}

#[test]
fn a_graph_that_cannot_exist_points_at_the_number_to_change() {
    let bare = SMALL.replace("serves = [\"*\"]\n", "").replace("serves = [\"M1\"]\n", "");
    insta::assert_snapshot!(rendered(&format!("{bare}\n[graph]\nkind = \"port-degree\"\ndegree = 16\n")));
}

#[test]
fn servers_without_serves_and_without_a_graph_hold_nothing() {
    let bare = SMALL.replace("serves = [\"*\"]\n", "").replace("serves = [\"M1\"]\n", "");
    insta::assert_snapshot!(rendered(&bare));
}

#[test]
fn addresses_are_checked_and_counted() {
    insta::assert_snapshot!(rendered(
        r#"
[[server_type]]
name = "A10"
rate = 2

[[server]]
name = "gpu"
count = 4
type = "A10"
serves = ["*"]
address = "10.0.0.7:8000-8004"

[[server]]
name = "b"
count = 2
type = "A10"
serves = ["*"]
address = ["10.0.0.300:80", "10.0.0.8"]

[[job_type]]
name = "M1"
rate = 1
"#
    ));
}

#[test]
fn laws_say_their_parameters() {
    insta::assert_snapshot!(rendered(&format!(
        r#"{SMALL}
[service]
distribution = "coxian2(1,2)"
k = 3

[arrivals]
process = "on-off"
peak = 3
on_s = 10
off_s = 10

[failures]
events = [[10, "b-2", "down"], [-1, "a", "dwon"], [3]]
"#
    )));
}

#[test]
fn faults_of_an_edge_file_are_shown_in_that_file() {
    let bare = SMALL.replace("serves = [\"*\"]\n", "").replace("serves = [\"M1\"]\n", "");
    let text = format!("{bare}\n[graph]\nkind = \"file\"\npath = \"edges.csv\"\n");
    let edges = "job_type,server\nM1,a\n\nM3,a\nM1,\"b-7\"\nM1,a\nM2\n";
    insta::assert_snapshot!(rendered_as("fleet.toml", &text, &[("edges.csv", edges)]));
}

#[test]
fn an_edge_file_that_cannot_be_read_is_a_fault_of_its_path() {
    let bare = SMALL.replace("serves = [\"*\"]\n", "").replace("serves = [\"M1\"]\n", "");
    insta::assert_snapshot!(rendered(&format!("{bare}\n[graph]\nkind = \"file\"\npath = \"edges.csv\"\n")));
}

#[test]
fn json_is_strict_and_shows_its_places_too() {
    let text = r#"{
  "server_type": [{ "name": "A10", "rate": 2.0 }],
  "server": [{ "name": "gpu", "type": "A10", "serves": ["*"], "name": "gpu2" }],
  "job_type": [{ "name": "M1", "rate": null, "sise": 1 }]
}"#;
    insta::assert_snapshot!("json_faults", rendered_as("fleet.json", text, &[]));
    let comment = "{\n  // servers\n  \"server\": []\n}";
    insta::assert_snapshot!("json_comment", rendered_as("fleet.json", comment, &[]));
}

#[test]
fn what_json_does_not_allow_is_refused_in_json() {
    for (from, to, what) in [
        ("]}", ",]}", "trailing commas are not allowed"),
        ("1}", "+1}", "unary plus on numbers is not allowed"),
        ("\"rate\"", "rate", "expected string for object property"),
        ("\"t\"", "'t'", "single-quoted strings are not allowed"),
        (",\"rate\"", " \"rate\"", "expected comma"),
    ] {
        let text = r#"{"server_type":[{"name":"t","rate":1}]}"#.replacen(from, to, 1);
        let faults = read(&Source { name: "fleet.json", text: &text }, &files(&[])).unwrap_err();
        assert_eq!(faults.count(), 1, "{text}");
        assert!(faults.plain().to_string().contains(what), "{text}: {}", faults.plain());
    }
}

#[test]
fn of_a_file_on_one_long_line_only_the_surroundings_are_shown() {
    let filler: String = (0..500).map(|i| format!("{{\"name\":\"M{i}\",\"rate\":1}},")).collect();
    let text = format!(
        "{{\"job_type\":[{filler}{{\"name\":\"M7\",\"rte\":1}}],\
         \"server_type\":[{{\"name\":\"A10\",\"rate\":1}}],\
         \"server\":[{{\"name\":\"gpu\",\"type\":\"A10\",\"serves\":[\"*\"]}}]}}"
    );
    insta::assert_snapshot!(rendered_as("fleet.json", &text, &[]));
}

#[test]
fn of_many_faults_the_first_are_shown_and_the_rest_counted() {
    let many: String =
        (0..250).map(|i| format!("[[server]]\nname = \"s{i}\"\ntype = \"slo\"\nserves = [\"*\"]\n")).collect();
    let faults = super::parse(&format!("{SMALL}{many}")).unwrap_err();
    assert_eq!((faults.faults().len(), faults.omitted(), faults.count()), (100, 150, 250));
    assert_eq!(faults.to_string(), "fleet.toml is not a usable fleet file: 250 faults, 150 of them not shown");
    assert!(faults.plain().to_string().ends_with("fleet.toml: 150 more faults\n"));
}

#[test]
fn a_fault_prints_as_one_line_with_its_place() {
    let faults = super::faults(&changed("slots = 2", "solts = 2"));
    assert_eq!(faults, "fleet.toml:12:1: unknown key `solts` in [[server_type]]; did you mean `slots`?\n");
}
