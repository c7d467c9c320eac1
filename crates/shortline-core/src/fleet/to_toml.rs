//! A fleet's parts as the text of a fleet file: what is written is read again as the same parts.
//!
//! Numbers are written with as many digits as they need to come back to the bit. Sections that say what holds anyway are
//! left out. A graph that was generated is written out, server by server; the servers of one `count` stay together where
//! they hold the same job types.

use std::fmt::{Display, Write};
use std::ops::Range;

use super::settings::{
    Address, Arrivals, Checks, Discipline, Emulate, Failures, Gateway, Health, Information, JobTypeSource, Overflow,
    Protocol, Retry, RouteMatch, Service, SizeLaw, Timeouts, Tls,
};
use super::{ArrivalRates, FleetParts, NameIndex, Names, ServerParts, Settings, Speed};

impl FleetParts {
    /// The text of a TOML fleet file with these parts. O(servers + job types + edges).
    ///
    /// ```
    /// use shortline_core::fleet::{Source, read_parts};
    ///
    /// let text = r#"
    ///     server_type = [{ name = "A10", rate = 2.0 }]
    ///     server = [{ name = "gpu", count = 4, type = "A10", serves = ["M1"], buffer = 8 }]
    ///     job_type = [{ name = "M1", rate = 3.2 }, { name = "M2", rate = 0 }]
    /// "#;
    /// let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    /// let parts = read_parts(&Source { name: "fleet.toml", text }, &no_file)?.fleet;
    /// let written = parts.to_toml();
    /// assert_eq!(read_parts(&Source { name: "written.toml", text: &written }, &no_file)?.fleet, parts);
    /// # Ok::<(), shortline_core::fleet::FleetFaults>(())
    /// ```
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut file = Writer::default();
        let job_types = NameIndex::new(self.job_types.iter().map(|job_type| job_type.names.clone()).collect());
        let servers = NameIndex::new(self.servers.iter().map(|server| server.names.clone()).collect());
        self.write_defaults(&mut file);
        self.write_settings(&mut file, &servers, &job_types);
        for server_type in &self.server_types {
            file.section("[[server_type]]");
            file.key("name", quoted(&server_type.name));
            match server_type.speed {
                Speed::Rate(rate) => file.number("rate", rate),
                Speed::Rank(rank) => file.key("rank", rank),
            }
            file.key("slots", server_type.slots);
        }
        self.write_servers(&mut file, &servers, &job_types);
        for job_type in &self.job_types {
            file.section("[[job_type]]");
            file.names(&job_type.names);
            match job_type.arrivals {
                ArrivalRates::Unknown => {}
                ArrivalRates::Each(rate) => file.number("rate", rate),
                ArrivalRates::Split { total, exponent } => {
                    file.number("total_rate", total);
                    file.number("zipf", exponent);
                }
            }
            file.number("size", job_type.size);
        }
        for rate in &self.rates {
            file.section("[[rate]]");
            file.key("job_type", quoted(&job_types.name(rate.job_type)));
            file.key("server_type", quoted(&self.server_types[rate.server_type].name));
            file.number("rate", rate.rate);
        }
        file.text
    }

    fn write_defaults(&self, file: &mut Writer) {
        file.section("[fleet]");
        file.key("name", quoted(&self.name));
        if let Some(policy) = self.settings.policy {
            file.key("policy", quoted(&policy.to_string()));
        }
        if let Some(buffer) = self.settings.buffer {
            file.key("buffer", buffer);
        }
        if self.settings.overflow == Overflow::Wait {
            file.key("overflow", quoted("wait"));
        }
        if let Some(size) = self.settings.lines.size {
            file.key("queue_size", size);
        }
        if let Some(timeout_s) = self.settings.lines.timeout_s {
            file.number("queue_timeout_s", timeout_s);
        }
        if let Some(hold_s) = self.settings.lines.hold_s {
            file.number("hold_s", hold_s);
        }
    }

    fn write_settings(&self, file: &mut Writer, servers: &NameIndex, job_types: &NameIndex) {
        let Settings {
            policy: _,
            buffer: _,
            overflow: _,
            lines: _,
            service,
            arrivals,
            failures,
            information,
            timeouts,
            health,
            retry,
            emulate,
            gateway,
            tls,
            routes,
        } = &self.settings;
        file.service(service);
        file.arrivals(arrivals);
        if let Some(failures) = failures {
            file.failures(failures, servers);
        }
        file.information(information);
        file.timeouts(timeouts);
        file.health(health);
        file.retry(retry);
        file.emulate(emulate);
        file.gateway(gateway);
        file.tls(tls);
        for route in routes {
            file.section("[[route]]");
            match &route.matches {
                RouteMatch::PathPrefix(prefix) => file.key("path_prefix", quoted(prefix)),
                RouteMatch::Host(host) => file.key("host", quoted(host)),
            }
            file.key("job_type", quoted(&job_types.name(route.job_type)));
        }
    }

    fn write_servers(&self, file: &mut Writer, servers: &NameIndex, job_types: &NameIndex) {
        let held = self.held_by_servers(servers.len(), job_types.len());
        let of = |server: usize| held.as_ref().map(|held| held[server].as_slice());
        for (entry, parts) in self.servers.iter().enumerate() {
            let range = servers.range(entry);
            let serves = |server| match of(server) {
                Some(list) if list.len() < job_types.len() => {
                    listed(list.iter().map(|&l| quoted(&job_types.name(l as usize))))
                }
                _ => listed([quoted("*")]),
            };
            if range.clone().all(|server| of(server) == of(range.start)) {
                self.write_server(file, parts, &parts.names, 0..range.len(), &serves(range.start));
                continue;
            }
            for (i, server) in range.enumerate() {
                let names = Names { base: parts.names.get(i), count: None };
                self.write_server(file, parts, &names, i..i + 1, &serves(server));
            }
        }
    }

    fn write_server(&self, file: &mut Writer, parts: &ServerParts, names: &Names, which: Range<usize>, serves: &str) {
        file.section("[[server]]");
        file.names(names);
        file.key("type", quoted(&self.server_types[parts.server_type].name));
        if let Some(addresses) = parts.addresses.get(which) {
            file.addresses(addresses);
        }
        file.key("serves", serves);
        match parts.buffer {
            Some(buffer) => file.key("buffer", buffer),
            None => file.key("buffer", quoted("unbounded")),
        }
    }

    /// The job types of each server, in the file's order; `None`: all hold all.
    fn held_by_servers(&self, servers: usize, job_types: usize) -> Option<Vec<Vec<u32>>> {
        let mut held = vec![Vec::new(); servers];
        for (l, number) in (0..job_types).zip(0..) {
            self.edges.row(l)?.iter().for_each(|&server| held[server as usize].push(number));
        }
        Some(held)
    }
}

/// The file as it grows.
#[derive(Default)]
struct Writer {
    text: String,
}

impl Writer {
    fn section(&mut self, header: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(header);
        self.text.push('\n');
    }

    fn key(&mut self, key: &str, value: impl Display) {
        writeln!(self.text, "{key} = {value}").expect("a string takes all that is written");
    }

    fn number(&mut self, key: &str, value: f64) {
        self.key(key, digits(value));
    }

    fn names(&mut self, names: &Names) {
        self.key("name", quoted(&names.base));
        if let Some(count) = names.count {
            self.key("count", count);
        }
    }

    /// They differ in host and port only, as those of one entry do.
    fn addresses(&mut self, addresses: &[Address]) {
        let Some(first) = addresses.first() else { return };
        match addresses {
            [one] => self.key("address", quoted(&one.to_string())),
            several => self.key("address", listed(several.iter().map(|address| quoted(&address.to_string())))),
        }
        match first.protocol {
            Protocol::Auto => {}
            Protocol::Http1 => self.key("protocol", quoted("http1")),
            Protocol::Http2 => self.key("protocol", quoted("h2")),
        }
        if let Some(name) = &first.tls_name {
            self.key("tls_name", quoted(name));
        }
    }

    fn service(&mut self, service: &Service) {
        if *service == Service::default() {
            return;
        }
        let Service { law, discipline } = *service;
        let law = match law {
            SizeLaw::Exponential => "exponential".to_owned(),
            SizeLaw::Deterministic => "deterministic".to_owned(),
            SizeLaw::Erlang { k } => format!("erlang({k})"),
            SizeLaw::Hyperexponential { cv2 } => format!("hyperexponential({cv2})"),
            SizeLaw::Coxian2 { mu1, p, mu2 } => format!("coxian2({mu1},{p},{mu2})"),
            SizeLaw::Lognormal { cv2 } => format!("lognormal({cv2})"),
            SizeLaw::Pareto { shape } => format!("pareto({shape})"),
            SizeLaw::Trace => "trace".to_owned(),
        };
        self.section("[service]");
        self.key("distribution", quoted(&law));
        if discipline == Discipline::ProcessorSharing {
            self.key("discipline", quoted("ps"));
        }
    }

    fn arrivals(&mut self, arrivals: &Arrivals) {
        let process = match arrivals {
            Arrivals::Poisson => return,
            Arrivals::Renewal { cv2 } => format!("renewal({cv2})"),
            Arrivals::OnOff { peak, on_s, off_s } => format!("on-off({peak},{on_s},{off_s})"),
            Arrivals::Piecewise(_) => "piecewise".to_owned(),
            Arrivals::Trace => "trace".to_owned(),
        };
        self.section("[arrivals]");
        self.key("process", quoted(&process));
        if let Arrivals::Piecewise(steps) = arrivals {
            let step = |&(at_s, factor): &(f64, f64)| listed([digits(at_s), digits(factor)]);
            self.key("piecewise", listed(steps.iter().map(step)));
        }
    }

    fn failures(&mut self, failures: &Failures, servers: &NameIndex) {
        self.section("[failures]");
        match failures {
            Failures::Random { mean_up_s, mean_down_s } => {
                self.number("mean_up_s", *mean_up_s);
                self.number("mean_down_s", *mean_down_s);
            }
            Failures::Events(events) => {
                let change = |up| quoted(if up { "up" } else { "down" });
                let event = events
                    .iter()
                    .map(|event| listed([digits(event.at_s), quoted(&servers.name(event.server)), change(event.up)]));
                self.key("events", listed(event));
            }
        }
    }

    fn information(&mut self, information: &Information) {
        if *information != Information::default() {
            let Information { delay_s, gateways } = *information;
            self.section("[information]");
            self.number("delay_s", delay_s);
            self.key("gateways", gateways);
        }
    }

    fn timeouts(&mut self, timeouts: &Timeouts) {
        if *timeouts != Timeouts::default() {
            let Timeouts { connect_s, first_byte_s, idle_s, header_s } = *timeouts;
            self.section("[timeouts]");
            self.number("connect_s", connect_s);
            self.number("first_byte_s", first_byte_s);
            self.number("idle_s", idle_s);
            self.number("header_s", header_s);
        }
    }

    fn health(&mut self, health: &Health) {
        if *health == Health::default() {
            return;
        }
        let Health {
            checks,
            trip_after,
            trip_status,
            open_s,
            longest_open_s,
            slow_start_s,
            obey_retry_after,
            model_lost_status,
            model_lost_s,
        } = health;
        self.section("[health]");
        if let Some(Checks { path, interval_s, timeout_s, unhealthy_after, healthy_after }) = checks {
            self.key("path", quoted(path));
            self.number("interval_s", *interval_s);
            self.number("timeout_s", *timeout_s);
            self.key("unhealthy_after", unhealthy_after);
            self.key("healthy_after", healthy_after);
        }
        self.key("trip_after", trip_after);
        self.key("trip_status", listed(trip_status));
        self.number("open_s", *open_s);
        self.number("longest_open_s", *longest_open_s);
        self.number("slow_start_s", *slow_start_s);
        self.key("obey_retry_after", obey_retry_after);
        self.key("model_lost_status", listed(model_lost_status));
        self.number("model_lost_s", *model_lost_s);
    }

    fn retry(&mut self, retry: &Retry) {
        if *retry != Retry::default() {
            let Retry { attempts, budget, floor_per_s, body_limit } = *retry;
            self.section("[retry]");
            self.key("attempts", attempts);
            self.number("budget", budget);
            self.number("floor_per_s", floor_per_s);
            self.key("body_limit", body_limit);
        }
    }

    fn emulate(&mut self, emulate: &Emulate) {
        if *emulate != Emulate::default() {
            let Emulate { time_scale } = *emulate;
            self.section("[emulate]");
            self.number("time_scale", time_scale);
        }
    }

    fn gateway(&mut self, gateway: &Gateway) {
        if *gateway == Gateway::default() {
            return;
        }
        let Gateway {
            job_type_from,
            body_scan_limit,
            no_capacity_status,
            served_by,
            models,
            max_header_bytes,
            max_headers,
            connections_per_client,
        } = gateway;
        let source = |source: &JobTypeSource| {
            quoted(match source {
                JobTypeSource::Header => "header",
                JobTypeSource::Path => "path",
                JobTypeSource::Model => "model",
                JobTypeSource::Host => "host",
            })
        };
        self.section("[gateway]");
        self.key("job_type_from", listed(job_type_from.iter().map(source)));
        self.key("body_scan_limit", body_scan_limit);
        self.key("no_capacity_status", no_capacity_status);
        self.key("served_by", served_by);
        self.key("models", models);
        self.key("max_header_bytes", max_header_bytes);
        self.key("max_headers", max_headers);
        if let Some(connections) = connections_per_client {
            self.key("connections_per_client", connections);
        }
    }

    fn tls(&mut self, tls: &Tls) {
        if *tls == Tls::default() {
            return;
        }
        let Tls { ca_file, identity, verify } = tls;
        self.section("[tls]");
        if let Some(file) = ca_file {
            self.key("ca_file", quoted(file));
        }
        if let Some((certificate, key)) = identity {
            self.key("certificate_file", quoted(certificate));
            self.key("key_file", quoted(key));
        }
        self.key("verify", verify);
    }
}

/// A number as TOML has it, to the bit: with a point or an exponent.
fn digits(value: f64) -> String {
    format!("{value:?}")
}

fn listed(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                write!(quoted, "\\u{:04X}", u32::from(character)).expect("a string takes all that is written");
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
