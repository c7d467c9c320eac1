//! What each section means, in TOML and in JSON alike.

use shortline_core::fleet::settings::{
    Arrivals, Checks, Discipline, Emulate, FailureEvent, Failures, Gateway, Health, Information, JobTypeSource,
    LineSettings, Overflow, Protocol, Retry, Route, RouteMatch, Service, Settings, SizeLaw, Timeouts, Tls,
};
use shortline_core::fleet::{
    ArrivalRates, JobTypeParts, Names, RateOverride, ServerTypeParts, Source, Speed, read, read_parts,
};

use super::{SMALL, faults, files, parse, parts, warnings};

/// [`SMALL`] with more sections.
fn with(sections: &str) -> String {
    format!("{SMALL}\n{sections}\n")
}

fn settings(sections: &str) -> Settings {
    parts(&with(sections)).fleet.settings
}

#[test]
fn servers_job_types_and_rates_come_in_the_files_order() {
    let fleet = parts(&with("[[rate]]\njob_type = \"M2\"\nserver_type = \"slow\"\nrate = 0.8")).fleet;
    assert_eq!(fleet.name, "small");
    let server_type =
        |name: &str, rate, slots| ServerTypeParts { name: name.to_owned(), speed: Speed::Rate(rate), slots };
    assert_eq!(fleet.server_types, [server_type("fast", 10.0, 1), server_type("slow", 1.0, 2)]);
    let names = |base: &str, count| Names { base: base.to_owned(), count };
    assert_eq!(
        fleet.servers.iter().map(|s| s.names.clone()).collect::<Vec<_>>(),
        [names("a", None), names("b", Some(2))]
    );
    assert_eq!(fleet.servers.iter().map(|s| s.server_type).collect::<Vec<_>>(), [0, 1]);
    let job_type =
        |base, rate, size| JobTypeParts { names: names(base, None), arrivals: ArrivalRates::Each(rate), size };
    assert_eq!(fleet.job_types, [job_type("M1", 3.2, 1.0), job_type("M2", 0.5, 2.0)]);
    assert_eq!(fleet.rates, [RateOverride { job_type: 1, server_type: 1, rate: 0.8 }]);
}

#[test]
fn what_is_not_written_has_its_default() {
    let fleet = parts(&SMALL.replace("name = \"small\"", "")).fleet;
    assert_eq!(fleet.name, "fleet", "the name of the file");
    assert_eq!(fleet.settings, Settings::default());
    assert!(fleet.servers.iter().all(|server| server.buffer.is_none() && server.addresses.is_empty()));
}

#[test]
fn a_server_has_its_own_buffer_or_the_fleets() {
    let text =
        SMALL.replace("name = \"small\"", "buffer = 5").replace("name = \"a\"", "name = \"a\"\nbuffer = \"unbounded\"");
    assert_eq!(parts(&text).fleet.servers.iter().map(|server| server.buffer).collect::<Vec<_>>(), [None, Some(5)]);
    let own = SMALL.replace("name = \"small\"", "buffer = 1").replace("name = \"b\"", "name = \"b\"\nbuffer = 2");
    assert_eq!(
        parts(&own).fleet.servers[1].buffer,
        Some(2),
        "the default is too small for servers that do not have it"
    );
    let small = SMALL.replace("name = \"small\"", "buffer = 1");
    assert!(faults(&small).contains("`buffer` is 1, but servers of type `slow` have 2 slots"));
}

#[test]
fn a_total_rate_is_split_by_popularity() {
    let text = SMALL.replace("name = \"M2\"\nrate = 0.5", "name = \"M2\"\ncount = 3\ntotal_rate = 11\nzipf = 1");
    assert_eq!(parts(&text).fleet.job_types[1].arrivals, ArrivalRates::Split { total: 11.0, exponent: 1.0 });
    let fleet = read(&Source { name: "fleet.toml", text: &text }, &files(&[])).unwrap().fleet;
    let rates: Vec<f64> = fleet.job_types().map(|l| fleet.arrival_rate(l).unwrap()).collect();
    for (rate, expected) in rates.iter().zip([3.2, 6.0, 3.0, 2.0]) {
        assert!((rate - expected).abs() < 1e-12, "{rates:?}");
    }
    assert_eq!(rates, parts(&text).fleet.arrival_rates().unwrap());
}

#[test]
fn each_server_of_a_run_has_its_address() {
    let text = SMALL
        .replace("name = \"a\"", "name = \"a\"\naddress = \"https://gpu.example\"")
        .replace("name = \"b\"", "name = \"b\"\naddress = \"[::1]:8000-8001\"");
    let fleet = read(&Source { name: "fleet.toml", text: &text }, &files(&[])).unwrap().fleet;
    let address = |name: &str| fleet.address(fleet.find_server(name).unwrap()).unwrap().to_string();
    assert_eq!([address("a"), address("b-0"), address("b-1")], ["https://gpu.example:443", "[::1]:8000", "[::1]:8001"]);
    let list = text.replace("\"[::1]:8000-8001\"", "[\"10.0.0.7:80\", \"http://10.0.0.8\"]");
    assert_eq!(parts(&list).fleet.servers[1].addresses[1].to_string(), "10.0.0.8:80");
}

#[test]
fn ranks_are_enough_where_no_rate_is_needed() {
    let ranked = SMALL
        .replace("rate = 10", "rank = 1")
        .replace("rate = 1.0", "rank = 2")
        .replace("name = \"small\"", "policy = \"jfsq\"");
    assert_eq!(parts(&ranked).fleet.server_types[1].speed, Speed::Rank(2));
    for policy in ["sed", "nq", "split"] {
        assert!(faults(&ranked.replace("jfsq", policy)).contains("needs the servers' speeds"));
    }
    let rate = "[[rate]]\njob_type = \"M1\"\nserver_type = \"fast\"\nrate = 2";
    assert!(faults(&format!("{ranked}\n{rate}")).contains("only ranked"));
}

#[test]
fn the_fleet_section_sets_policy_and_lines() {
    let text = SMALL.replace(
        "name = \"small\"",
        "policy = \"jsq-2-2\"\noverflow = \"wait\"\nqueue_size = 1000\nqueue_timeout_s = 30\nhold_s = 60\n\
         buffer = 9",
    );
    let settings = parts(&text).fleet.settings;
    assert_eq!(settings.policy.unwrap().to_string(), "jsq(2,2)");
    assert_eq!((settings.overflow, settings.buffer), (Overflow::Wait, Some(9)));
    let written = parts(&parts(&text).fleet.to_toml()).fleet.settings;
    assert_eq!((written.buffer, parts(SMALL).fleet.settings.buffer), (Some(9), None));
    assert_eq!(settings.lines, LineSettings { size: Some(1000), timeout_s: Some(30.0), hold_s: Some(60.0) });
    let rejecting = text.replace("\"wait\"", "\"reject\"");
    assert!(warnings(&rejecting).contains("`queue_size` has no effect"), "{}", warnings(&rejecting));
    let central = rejecting.replace("jsq-2-2", "central");
    assert_eq!(warnings(&central), "", "central always waits in front");
}

#[test]
fn size_laws_take_their_parameters_in_parentheses_or_as_keys() {
    for (call, keys, law) in [
        ("exponential", "", SizeLaw::Exponential),
        ("deterministic", "", SizeLaw::Deterministic),
        ("erlang(3)", "erlang|k = 3", SizeLaw::Erlang { k: 3 }),
        ("hyperexponential(4)", "hyperexponential|cv2 = 4", SizeLaw::Hyperexponential { cv2: 4.0 }),
        ("coxian2(1, 0.5, 2)", "coxian2|mu1 = 1\np = 0.5\nmu2 = 2", SizeLaw::Coxian2 { mu1: 1.0, p: 0.5, mu2: 2.0 }),
        ("lognormal(0.5)", "lognormal|cv2 = 0.5", SizeLaw::Lognormal { cv2: 0.5 }),
        ("pareto(2.5)", "pareto|shape = 2.5", SizeLaw::Pareto { shape: 2.5 }),
        ("trace", "", SizeLaw::Trace),
    ] {
        let service = Service { law, discipline: Discipline::ProcessorSharing };
        let section = format!("[service]\ndiscipline = \"ps\"\ndistribution = \"{call}\"");
        assert_eq!(settings(&section).service, service);
        if let Some((name, keys)) = keys.split_once('|') {
            let section = format!("[service]\ndiscipline = \"ps\"\ndistribution = \"{name}\"\n{keys}");
            assert_eq!(settings(&section).service, service);
        }
    }
}

#[test]
fn parameters_of_laws_are_checked() {
    for (law, what) in [
        ("erlang(2.5)", "`k` is 2.5, must be a whole number from 1 up"),
        ("erlang(0)", "`k` is 0, must be a whole number from 1 up"),
        ("erlang", "erlang needs `k`; write \"erlang(k)\", or add `k = ...`"),
        ("hyperexponential(0.5)", "`cv2` is 0.5, must be 1 or more"),
        ("pareto(1)", "`shape` is 1, must be above 1"),
        ("coxian2(1,1.5,2)", "`p` is 1.5, must be from 0 to 1"),
        ("lognormal(1e300)", "`cv2` is 1e300, must be a number between"),
        ("lognormal(x)", "`cv2` is `x`, must be a number"),
        ("exponential(1)", "exponential takes 0 parameters; write \"exponential\""),
        ("lognormal(inf)", "`cv2` is inf, must be a number between 1e-100 and 1e100, and above 0"),
    ] {
        let found = faults(&with(&format!("[service]\ndistribution = \"{law}\"")));
        assert!(found.contains(what), "{law}: {found}");
    }
    let both = faults(&with("[service]\ndistribution = \"erlang(3)\"\nk = 3"));
    assert!(both.contains("`k` is given in parentheses and as a key"), "{both}");
}

#[test]
fn arrival_processes_take_theirs_the_same_way() {
    for (section, arrivals) in [
        ("process = \"poisson\"", Arrivals::Poisson),
        ("process = \"renewal(2)\"", Arrivals::Renewal { cv2: 2.0 }),
        ("process = \"renewal\"\ncv2 = 2", Arrivals::Renewal { cv2: 2.0 }),
        ("process = \"on-off(3,10,20)\"", Arrivals::OnOff { peak: 3.0, on_s: 10.0, off_s: 20.0 }),
        (
            "process = \"on-off\"\npeak = 3\non_s = 10\noff_s = 20",
            Arrivals::OnOff { peak: 3.0, on_s: 10.0, off_s: 20.0 },
        ),
        ("piecewise = [[0, 1], [3600, 2.5]]", Arrivals::Piecewise(vec![(0.0, 1.0), (3600.0, 2.5)])),
        ("process = \"piecewise\"\npiecewise = [[0, 1]]", Arrivals::Piecewise(vec![(0.0, 1.0)])),
        ("process = \"trace\"", Arrivals::Trace),
    ] {
        assert_eq!(settings(&format!("[arrivals]\n{section}")).arrivals, arrivals);
    }
}

#[test]
fn arrival_processes_are_checked() {
    for (section, what) in [
        ("process = \"on-off(4,10,20)\"", "`peak` is 4, but these periods allow 3 at most"),
        ("process = \"piecewise\"", "[arrivals] has no `piecewise`"),
        ("process = \"poisson\"\npiecewise = [[0, 1]]", "`piecewise` beside another `process`"),
        ("piecewise = [[1, 1]]", "`piecewise` has to begin at time 0"),
        ("piecewise = []", "`piecewise` has to begin at time 0"),
        ("piecewise = [[0, 1], [5, 2], [5, 3]]", "time 5 does not come after time 5"),
        ("piecewise = [[0, 0]]", "all factors of `piecewise` are 0"),
        ("piecewise = [[0, 1, 2]]", "a step of `piecewise` is a pair"),
        ("piecewise = [[0, -1]]", "`factor` is -1, must be 0 or more"),
        ("process = \"poison\"", "did you mean `poisson`?"),
    ] {
        let found = faults(&with(&format!("[arrivals]\n{section}")));
        assert!(found.contains(what), "{section}: {found}");
    }
}

#[test]
fn failures_are_random_or_listed() {
    let random = settings("[failures]\nmean_up_s = 1000\nmean_down_s = 10").failures;
    assert_eq!(random, Some(Failures::Random { mean_up_s: 1000.0, mean_down_s: 10.0 }));
    let listed = settings("[failures]\nevents = [[20, \"b-1\", \"up\"], [10.5, \"b-1\", \"down\"]]").failures;
    let event = |at_s, up| FailureEvent { at_s, server: 2, up };
    assert_eq!(listed, Some(Failures::Events(vec![event(10.5, false), event(20.0, true)])), "in the order of time");
    assert!(faults(&with("[failures]")).contains("[failures] says nothing"));
    assert!(faults(&with("[failures]\nmean_up_s = 5")).contains("[failures] has no `mean_down_s`"));
    assert!(faults(&with("[failures]\nmean_up_s = 5\nevents = []")).contains("both `mean_up_s` and `events`"));
}

#[test]
fn the_remaining_sections_are_read() {
    let read = settings(
        r#"
[information]
delay_s = 0.5
gateways = 3
[timeouts]
connect_s = 1
first_byte_s = 20.5
header_s = 0.5
[emulate]
time_scale = 0.01
[gateway]
job_type_from = ["host", "header"]
body_scan_limit = "2 MiB"
no_capacity_status = 429
served_by = false
models = false
max_header_bytes = 2000
max_headers = 20
connections_per_client = 7
[[route]]
host = "M1.Example"
job_type = "M1"
"#,
    );
    assert_eq!(read.information, Information { delay_s: 0.5, gateways: 3 });
    assert_eq!(read.timeouts, Timeouts { connect_s: 1.0, first_byte_s: 20.5, idle_s: 60.0, header_s: 0.5 });
    assert_eq!(read.emulate, Emulate { time_scale: 0.01 });
    let gateway = Gateway {
        job_type_from: vec![JobTypeSource::Host, JobTypeSource::Header],
        body_scan_limit: 2 << 20,
        no_capacity_status: 429,
        served_by: false,
        models: false,
        max_header_bytes: 2000,
        max_headers: 20,
        connections_per_client: Some(7),
    };
    assert_eq!(read.gateway, gateway);
    assert_eq!(read.routes, [Route { matches: RouteMatch::Host("m1.example".to_owned()), job_type: 0 }]);
}

#[test]
fn what_is_said_of_health_and_retries_is_read_and_checked() {
    assert_eq!((settings("").health, settings("").retry), (Health::default(), Retry::default()));
    let read = settings(
        r#"
[health]
path = "/health"
interval_s = 1
healthy_after = 1
trip_after = 0
open_s = 90
slow_start_s = 0
trip_status = []
obey_retry_after = false
model_lost_status = []
[retry]
attempts = 1
budget = 0
floor_per_s = 2.5
body_limit = "1 MiB"
"#,
    );
    let checks = Checks { interval_s: 1.0, healthy_after: 1, ..Checks::of("/health") };
    let health = Health {
        checks: Some(checks),
        trip_after: 0,
        open_s: 90.0,
        longest_open_s: 90.0,
        slow_start_s: 0.0,
        trip_status: vec![],
        obey_retry_after: false,
        model_lost_status: vec![],
        ..Health::default()
    };
    assert_eq!(read.health, health);
    assert_eq!(read.retry, Retry { attempts: 1, budget: 0.0, floor_per_s: 2.5, body_limit: 1 << 20 });
    for (section, what) in [
        ("[health]\npath = \"health\"", "`health` is no path of a request"),
        ("[health]\nopen_s = 9\nlongest_open_s = 3", "`longest_open_s` is 3, less than `open_s` = 9"),
        ("[health]\nmodel_lost_status = [200]", "`model_lost_status` is 200"),
        ("[health]\ntrip_status = [404, 99]", "`trip_status` is 99"),
        ("[health]\nslow_start_s = -1", "`slow_start_s` is -1"),
        ("[retry]\nattempts = 0", "`attempts` is 0"),
        ("[retry]\nbody_limit = \"much\"", "`much` is no size"),
        ("[retry]\nretries = 3", "unknown key `retries`"),
    ] {
        let faults = faults(&with(section));
        assert!(faults.contains(what), "{section}: {faults}");
    }
    let idle = warnings(&with("[health]\ninterval_s = 3"));
    assert!(idle.contains("`interval_s` does nothing: without `path` no server is checked"), "{idle}");
}

#[test]
fn what_servers_are_spoken_to_in_and_whom_to_trust_is_read_and_checked() {
    let tls = "[tls]\nca_file = \"ca.pem\"\ncertificate_file = \"own.pem\"\nkey_file = \"own.key\"";
    let identity = Some(("own.pem".to_owned(), "own.key".to_owned()));
    assert_eq!(settings(tls).tls, Tls { ca_file: Some("ca.pem".into()), identity, verify: true });
    assert_eq!(settings("").tls, Tls::default());
    let unsafe_ = warnings(&with("[tls]\nverify = false"));
    assert!(unsafe_.contains("servers are not asked to prove who they are"), "{unsafe_}");
    for (section, what) in [
        ("[tls]\ncertificate_file = \"a\"", "[tls] has no `key_file`"),
        ("[tls]\nkey_file = \"a\"", "[tls] has no `certificate_file`"),
        ("[tls]\nca = \"a\"", "unknown key `ca`"),
        ("[gateway]\nmax_header_bytes = 100", "`max_header_bytes` is 100"),
        ("[gateway]\nmax_headers = 100000", "`max_headers` is 100000"),
        ("[gateway]\nconnections_per_client = 0", "`connections_per_client` is 0"),
        ("[timeouts]\nheader_s = 0", "`header_s` is 0"),
    ] {
        let faults = faults(&with(section));
        assert!(faults.contains(what), "{section}: {faults}");
    }
    let server = |keys: &str| {
        format!(
            "server_type = [{{ name = \"A\", rate = 1.0 }}]\njob_type = [{{ name = \"m\", rate = 1.0 }}]\n\
             [[server]]\nname = \"s\"\ncount = 2\ntype = \"A\"\nserves = [\"m\"]\naddress = \"https://h:1-2\"\n{keys}\n"
        )
    };
    let fleet = parts(&server("protocol = \"h2\"\ntls_name = \"gpu.internal\"")).fleet;
    for (address, port) in fleet.servers[0].addresses.iter().zip(1..) {
        assert_eq!((address.protocol, address.tls_name.as_deref()), (Protocol::Http2, Some("gpu.internal")));
        assert_eq!((address.https, address.port), (true, port));
    }
    assert!(faults(&server("protocol = \"h3\"")).contains("`protocol` cannot be `h3`"));
    assert!(faults(&server("tls_name = \"a:1\"")).contains("`tls_name` is `a:1`, which is no host name"));
}

#[test]
fn routes_are_checked() {
    for (section, what) in [
        ("path_prefix = \"v1\"\njob_type = \"M1\"", "`v1` is no path prefix"),
        ("host = \"a:80\"\njob_type = \"M1\"", "`a:80` is no host name"),
        ("host = \"a\"\npath_prefix = \"/a\"\njob_type = \"M1\"", "[[route]] has both `path_prefix` and `host`"),
        ("job_type = \"M1\"", "[[route]] has neither `path_prefix` nor `host`"),
        ("path_prefix = \"/a\"\njob_type = \"M11\"", "did you mean `M1`?"),
        ("host = \"a\"\njob_type = \"M1\"\n[[route]]\nhost = \"A\"\njob_type = \"M2\"", "two routes match `a`"),
    ] {
        let found = faults(&with(&format!("[[route]]\n{section}")));
        assert!(found.contains(what), "{section}: {found}");
    }
    let unheard = "[gateway]\njob_type_from = [\"header\"]\n[[route]]\npath_prefix = \"/a\"\njob_type = \"M1\"";
    assert!(warnings(&with(unheard)).contains("this route never matches"));
}

#[test]
fn what_is_unused_or_unknown_is_a_warning() {
    let text = SMALL.replace("rate = 3.2", "") + "[[server_type]]\nname = \"spare\"\nrate = 1\n";
    assert_eq!(
        warnings(&text),
        "fleet.toml:26:8: warning: the job type `M1` has no `rate`; serve measures it, a trace brings it; check and simulate need it\n\
         fleet.toml:34:8: warning: no server is of the type `spare`; remove it, or add a [[server]] of this type\n"
    );
}

#[test]
fn references_to_what_could_not_be_read_are_not_faults() {
    let found = faults(&SMALL.replace("name = \"fast\"", "nam = \"fast\""));
    assert_eq!(found.lines().count(), 2, "{found}");
    let found = faults(&SMALL.replace("[[server_type]]\nname = \"fast\"", "[[server_type]]\nname = 3"));
    assert_eq!(found.lines().count(), 1, "{found}");
}

#[test]
fn toml_and_json_describe_the_same_fleets() {
    let toml = r#"
[fleet]
name = "both"
buffer = 5
[[server_type]]
name = "A10"
rate = 2.0
[[server]]
name = "gpu"
count = 2
type = "A10"
address = ["a:1", "b:2"]
serves = ["M-1", "é\"\u00e9"]
[[server]]
name = "cpu"
type = "A10"
buffer = "unbounded"
serves = ["*"]
[[job_type]]
name = "M"
count = 2
total_rate = 1e1
zipf = 0.8
[[job_type]]
name = "é\"é"
rate = 3
[[rate]]
job_type = "M-0"
server_type = "A10"
rate = 0.8
[arrivals]
piecewise = [[0, 1], [60, 2]]
[failures]
events = [[10, "gpu-1", "down"]]
[gateway]
served_by = false
"#;
    let json = r#"{
  "gateway": {"served_by": false},
  "fleet": {"name": "both", "buffer": 5},
  "server_type": [{"name": "A10", "rate": 2}],
  "server": [
    {"name": "gpu", "count": 2, "type": "A10", "address": ["a:1", "b:2"], "serves": ["M-1", "\u00e9\"é"]},
    {"name": "cpu", "type": "A10", "buffer": "unbounded", "serves": ["*"]}
  ],
  "job_type": [{"name": "M", "count": 2, "total_rate": 10, "zipf": 8e-1}, {"name": "é\"é", "rate": 3.0}],
  "rate": [{"job_type": "M-0", "server_type": "A10", "rate": 0.8}],
  "arrivals": {"piecewise": [[0, 1], [60, 2]]},
  "failures": {"events": [[10, "gpu-1", "down"]]}
}"#;
    let read_as = |name, text| read_parts(&Source { name, text }, &files(&[])).unwrap().fleet;
    let from_toml = read_as("both.toml", toml);
    assert_eq!(from_toml, read_as("both.json", json));
    assert_eq!(from_toml, read_as("both", json), "a leading brace makes it JSON");
    assert_eq!(from_toml, read_as("both.toml", &format!("\u{feff}{}", toml.replace('\n', "\r\n"))), "BOM and CRLF");
}

#[test]
fn seeds_may_use_all_64_bits_in_json() {
    let bare = r#"{"server_type":[{"name":"t","rate":1}],"server":[{"name":"s","type":"t"}],"job_type":[{"name":"m","rate":1}],
        "graph":{"kind":"port-degree","degree":1,"seed":18446744073709551615}}"#;
    let parts = parse(bare).unwrap();
    assert!(format!("{:?}", parts.graph).contains("seed: 18446744073709551615"));
}
