//! `simulate --report`: the page parses, stands alone, and says what the JSON says.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use scraper::{ElementRef, Html, Selector};
use serde_json::Value;

use crate::processes::{TWO_SERVERS, file, shortline};

/// A page with the JSON of the same run.
struct Reported {
    text: String,
    page: Html,
    json: Value,
}

fn simulate(folder: &tempfile::TempDir, fleet: &Path, arguments: &[&str]) -> Output {
    let mut command = shortline();
    command.arg("simulate").arg(fleet).args(["--json", "--report"]).arg(folder.path().join("report.html"));
    command.args(arguments).output().unwrap()
}

/// Runs it; the page has no fault that a parser of HTML sees.
fn reported(fleet: &str, arguments: &[&str]) -> Reported {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", fleet);
    let output = simulate(&folder, &fleet, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    let page = Html::parse_document(&text);
    assert_eq!(page.errors, Vec::<String>::new());
    Reported { text, page, json: serde_json::from_slice(&output.stdout).unwrap() }
}

impl Reported {
    fn all(&self, selector: &str) -> Vec<ElementRef<'_>> {
        self.page.select(&Selector::parse(selector).unwrap()).collect()
    }

    /// Cells of the first table whose caption contains `caption`, by rows.
    fn table(&self, caption: &str) -> Vec<Vec<ElementRef<'_>>> {
        let has_caption = |table: &&ElementRef<'_>| {
            let selector = Selector::parse("caption").unwrap();
            table.select(&selector).next().is_some_and(|found| words(found).contains(caption))
        };
        let table =
            self.all("table").into_iter().find(|table| has_caption(&table)).unwrap_or_else(|| panic!("{caption}"));
        let (rows, cells) = (Selector::parse("tr").unwrap(), Selector::parse("th, td").unwrap());
        table.select(&rows).map(|row| row.select(&cells).collect()).collect()
    }

    /// The cell in the row and the column of these names.
    fn cell(&self, caption: &str, row: &str, column: &str) -> ElementRef<'_> {
        let rows = self.table(caption);
        let column = rows[0].iter().position(|cell| words(*cell) == column).unwrap_or_else(|| panic!("{column}"));
        rows.iter().find(|cells| words(cells[0]).starts_with(row)).unwrap_or_else(|| panic!("{row}"))[column]
    }
}

fn words(element: ElementRef<'_>) -> String {
    element.text().collect::<String>().trim().to_owned()
}

/// The cell is the estimate, to the last digit, with its interval.
fn is_estimate(cell: ElementRef<'_>, estimate: &Value) {
    let data = cell.select(&Selector::parse("data").unwrap()).next().unwrap_or_else(|| panic!("{}", words(cell)));
    let number = |name: &str| data.attr(name).unwrap().parse::<f64>().unwrap().to_bits();
    let wanted = |value: &Value| value.as_f64().unwrap().to_bits();
    assert_eq!(number("value"), wanted(&estimate["mean"]));
    assert_eq!(number("data-low"), wanted(&estimate["ci95"][0]));
    assert_eq!(number("data-high"), wanted(&estimate["ci95"][1]));
}

fn is_value(cell: ElementRef<'_>, value: &Value) {
    let data = cell.select(&Selector::parse("data").unwrap()).next().unwrap_or_else(|| panic!("{}", words(cell)));
    assert_eq!(data.attr("value").unwrap().parse::<f64>().unwrap().to_bits(), value.as_f64().unwrap().to_bits());
}

/// Nothing on the page leads out of it, or runs.
fn stands_alone(reported: &Reported) {
    assert!(!reported.text.contains("http://") && !reported.text.contains("https://"), "an address");
    assert_eq!(
        reported.all("script, link, img, iframe, object, embed, base, form, image, use, foreignObject").len(),
        0
    );
    for element in reported.all("*") {
        for (name, value) in element.value().attrs() {
            let fetches = ["src", "href", "srcset", "data", "xlink:href", "action", "poster", "background"];
            assert!(!fetches.contains(&name) && !name.starts_with("on"), "{name}={value}");
            assert!(!value.contains("url("), "{name}={value}");
        }
    }
    assert!(!reported.text.contains("@import") && !reported.text.contains("url("));
    assert!(!reported.text.contains("NaN") && !reported.text.contains("inf<"));
}

const ARGUMENTS: [&str; 6] = ["--policy", "jfsq,jsq(2)", "--events", "40000", "--seed", "7"];

#[test]
fn the_page_says_what_the_json_says() {
    let reported = reported(TWO_SERVERS, &ARGUMENTS);
    stands_alone(&reported);
    for policy in reported.json["policies"].as_array().unwrap() {
        let name = policy["policy"].as_str().unwrap();
        let columns = [
            ("mean response", "mean_response_s"),
            ("over the bound", "ratio_to_bound"),
            ("waiting", "mean_waiting_s"),
            ("service", "mean_service_s"),
            ("50 % below", "p50_response_s"),
            ("95 % below", "p95_response_s"),
            ("99 % below", "p99_response_s"),
            ("waits", "fraction_waiting"),
            ("blocked", "blocking_probability"),
            ("reneged", "reneged_probability"),
            ("jobs in the fleet", "mean_jobs"),
        ];
        for (i, (column, key)) in columns.into_iter().enumerate() {
            let caption = if i < 4 { "Means with" } else { "Percentiles" };
            is_estimate(reported.cell(caption, name, column), &policy[key]);
        }
        is_value(reported.cell("Means with", name, "bound"), &policy["bound"]["mean_response_s"]);
        let job_type = &policy["per_job_type"][0];
        is_estimate(reported.cell("Job types of", "m", &format!("{name}: response")), &job_type["mean_response_s"]);

        let law = reported.table(name);
        let points = policy["response_cdf"].as_array().unwrap();
        assert_eq!((law.len(), points.len()), (26, 25));
        for (cells, point) in law[1..].iter().zip(points) {
            is_value(cells[0], &point["time_s"]);
            is_estimate(cells[1], &point["share"]);
        }
        let shares: Vec<f64> = points.iter().map(|point| point["share"]["mean"].as_f64().unwrap()).collect();
        assert!(shares.is_sorted() && (shares[0] - 0.01).abs() < 1e-3 && shares[24] > 0.99, "{shares:?}");

        let occupancy = reported.table("Busy slots");
        let row = occupancy.iter().find(|cells| words(cells[0]) == "fast" && words(cells[1]) == name).unwrap();
        let fast = &policy["per_server_type"][0];
        is_estimate(row[2], &fast["utilisation"]);
        is_estimate(row[3], &fast["mean_jobs"]);
        is_value(row[5], &fast["occupancy"][0]);
    }
    let difference = reported.cell("the first one is faster", "jfsq / jsq(2)", "ratio of the mean response times");
    is_estimate(difference, &reported.json["differences"][0]["mean_response_ratio"]);
}

#[test]
fn the_page_has_its_origin_and_what_check_finds() {
    let reported = reported(TWO_SERVERS, &ARGUMENTS);
    let command = words(reported.all("pre")[0]);
    assert!(
        command.starts_with("shortline simulate ")
            && command.ends_with("--policy 'jfsq,jsq(2)' --events 40000 --seed 7")
    );
    let facts: Vec<String> = reported.all("dl div").into_iter().map(words).collect();
    for fact in ["Seed7", concat!("Versionshortline ", env!("CARGO_PKG_VERSION")), "Stableyes", "Bottleneck"] {
        assert!(facts.iter().any(|found| found.starts_with(fact)), "{fact} in {facts:?}");
    }
    for caption in ["Stability by policy", "Bounds:", "Connectivity:", "Guarantee:", "Server types"] {
        assert!(reported.table(caption).len() > 1, "{caption}");
    }
    // Two job types' worth of lines, and nothing that only eyes can read.
    assert_eq!(reported.all("svg line.edge").len(), 2);
    let title = Selector::parse("svg > title, svg > desc").unwrap();
    let drawings = reported.all("svg");
    assert!(drawings.len() >= 5);
    for drawing in drawings {
        assert_eq!(drawing.attr("role"), Some("img"));
        assert_eq!(drawing.select(&title).count(), 2);
    }
}

/// The bars of the figure are those of the table.
#[test]
fn bars_are_as_long_as_their_numbers() {
    let reported = reported(TWO_SERVERS, &ARGUMENTS);
    let bars = &reported.all("svg.bars")[0];
    let width = |class: &str| -> Vec<f64> {
        let bars = bars.select(&Selector::parse(&format!("g rect.{class}")).unwrap()).collect::<Vec<_>>();
        bars.iter().map(|bar| bar.attr("width").unwrap().parse().unwrap()).collect()
    };
    let mean = |i: usize, key: &str| reported.json["policies"][i][key]["mean"].as_f64().unwrap();
    let scale = width("solid")[0] / mean(0, "mean_service_s");
    for i in 0..2 {
        assert!((width("solid")[i] - scale * mean(i, "mean_service_s")).abs() < 1.0);
        assert!((width("hollow")[i] - scale * mean(i, "mean_waiting_s")).abs() < 1.0);
    }
}

#[test]
fn names_stay_text() {
    let name = "<script>alert('1')</script>&amp;\\\"><img src=x onerror=alert(1)>";
    let fleet = TWO_SERVERS.replace("\"m\"", &format!("\"{name}\"")).replace("two servers", "<b>two</b> servers");
    let fleet = fleet.replace("\"fast\"", "\"<i>fast\"").replace("name = \"a\"", "name = \"</svg>a\"");
    let reported = reported(&fleet, &ARGUMENTS);
    stands_alone(&reported);
    assert_eq!(reported.all("script, b, i, img").len(), 0);
    assert_eq!(words(reported.all("h1")[0]), "<b>two</b> servers");
    let shown = words(reported.table("Job types of <b>two</b>")[1][0]);
    assert_eq!(shown, name.replace("\\\"", "\""));
    assert_eq!(words(reported.table("Server types")[1][0]), "<i>fast");
}

#[test]
fn policies_without_means_or_certainty_are_shown_as_such() {
    let unstable = reported(TWO_SERVERS, &["--policy", "jfsq,random", "--load", "0.9", "--relative-error", "0.05"]);
    assert_eq!(unstable.json["policies"][1]["unstable"], true, "half of the jobs are too many for the slow server");
    let row = |reported: &Reported, name: &str| words(reported.cell("Means with", name, "policy"));
    assert!(row(&unstable, "random").contains("(unstable: +"), "{}", row(&unstable, "random"));
    assert_eq!(row(&unstable, "jfsq"), "jfsq");
    let drawn: Vec<String> =
        unstable.all("svg.bars")[0].select(&Selector::parse("g > text").unwrap()).map(words).collect();
    assert!(drawn.iter().any(|text| text.starts_with("unstable: +")), "{drawn:?}");
    let notes: Vec<String> = unstable.all("li").into_iter().map(words).collect();
    assert!(notes.iter().any(|note| note.starts_with("random, no means:") && note.contains("pile up")), "{notes:?}");
    assert!(words(unstable.cell("Stability by policy", "random", "stable")) == "no");

    let uncertain = reported(TWO_SERVERS, &["--policy", "jfsq", "--events", "1000"]);
    assert_eq!(row(&uncertain, "jfsq"), "jfsq (not converged)");
    let nothing = reported(TWO_SERVERS, &["--policy", "jfsq", "--events", "1"]);
    assert_eq!(row(&nothing, "jfsq"), "jfsq (no means)");
    stands_alone(&nothing);
}

#[test]
fn a_sweep_has_curves_a_table_and_its_points() {
    let arguments = ["--policy", "jfsq,random", "--sweep", "load=0.3,0.6,0.9", "--relative-error", "0.05"];
    let reported = reported(TWO_SERVERS, &arguments);
    stands_alone(&reported);
    let titles: Vec<String> = reported.all("figcaption strong").into_iter().map(words).collect();
    for title in ["Mean response time.", "Mean response time over the bound.", "Mean waiting time."] {
        assert!(titles.iter().any(|found| found == title), "{title} in {titles:?}");
    }
    assert!(!titles.iter().any(|title| title == "Blocked jobs."), "there are none");
    let rows = reported.table("Each policy at each point");
    assert_eq!(rows.len(), 7);
    for (i, row) in rows[1..].iter().enumerate() {
        let point = &reported.json[i / 2];
        let policy = &point["policies"][i % 2];
        assert_eq!(words(row[0]), format!("load {}", point["load"]));
        is_value(row[2], &point["offered_load"]);
        match policy["unstable"].as_bool() {
            Some(false) => is_estimate(row[3], &policy["mean_response_s"]),
            _ => assert!(words(row[1]).contains("unstable") && words(row[3]) == "–"),
        }
    }
    assert!(reported.json[2]["policies"][1]["unstable"] == true);
    let notes: Vec<String> = reported.all("li").into_iter().map(words).collect();
    assert!(
        notes.iter().any(|note| note.starts_with("random unstable: +") && note.ends_with("at load 0.9")),
        "{notes:?}"
    );
    let points: Vec<String> = reported.all("details > summary").into_iter().map(words).collect();
    assert!(["load 0.3", "load 0.6", "load 0.9"].iter().all(|point| points.iter().any(|found| found == point)));
}

/// A million servers, each job type on all of one kind or on all: what is drawn and listed does not grow.
#[test]
fn the_page_of_a_million_servers_is_small() {
    let large = "
        [fleet]
        name = \"a million\"
        buffer = 4
        [[server_type]]
        name = \"fast\"
        rate = 2.0
        [[server_type]]
        name = \"slow\"
        rate = 1.0
        [[server]]
        name = \"f\"
        count = 400000
        type = \"fast\"
        serves = [\"*\"]
        [[server]]
        name = \"s\"
        count = 600000
        type = \"slow\"
        serves = [\"*\"]
        [[job_type]]
        name = \"j\"
        count = 100000
        total_rate = 900000.0
        zipf = 0.5
        ";
    let start = Instant::now();
    let reported = reported(large, &["--events", "2000", "--time", "1", "--per-type", "all"]);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(reported.text.len() < 500_000, "{} bytes", reported.text.len());
    assert!(reported.text.contains("400,000 servers") && reported.text.contains("100,000 job types"));
    stands_alone(&reported);
}

#[test]
fn a_page_needs_means_to_speak_of_and_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let output = simulate(&folder, &fleet, &["--trajectory", "5"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let mut nowhere = shortline();
    nowhere.arg("simulate").arg(&fleet).args(["--events", "20000", "--report", "/nowhere/at/all.html"]);
    let output = nowhere.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write `/nowhere/at/all.html`"));
}

#[test]
fn the_page_of_a_trace_says_that_it_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..64).map(|i| format!("{i},m,8\n")).collect();
    let trace = file(&folder, "requests <1>.csv", &format!("arrival_s,job_type,service_s\n{lines}"));
    let trace = trace.to_str().unwrap();
    let page = |arguments: &[&str]| reported(TWO_SERVERS, &[&["--trace", trace], arguments].concat());
    let reported = page(&["--requests", "0..40", "--load", "0.5"]);
    stands_alone(&reported);
    let text = words(reported.page.root_element());
    assert!(
        text.contains("requests <1>.csv; requests 0..40 (40 jobs), with arrival times compressed to load 0.5"),
        "{text}"
    );
    assert!(
        text.contains("once, from an empty fleet")
            && !text.contains("95 % interval of each mean response time is at most")
    );
    assert!(text.contains("Arrival rates are those of the trace"));
    // 0.5 of the capacity 11 in jobs of size 8; the file has 4/s.
    assert!(text.contains("0.6875 jobs/s") || text.contains("0.6875/s") || text.contains("0.6875"), "{text}");
    assert!(words(page(&[]).page.root_element()).contains("all 64 jobs, at the times recorded"));
    let few = page(&["--requests", "0..9"]);
    stands_alone(&few);
    assert!(words(few.page.root_element()).contains("9 jobs are too few"));
}
