//! The sections of a fleet file that describe service, traffic and operation, checked: each
//! command honours the ones it can and says so about the others.

pub use super::health::{Checks, Health, Retry};

/// `[fleet] overflow`: what happens to a job for which the policy finds no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overflow {
    /// It is blocked: lost, or refused.
    #[default]
    Reject,
    /// It waits in a line per job type, in front of the servers.
    Wait,
}

/// `[fleet]` `queue_size`, `queue_timeout_s` and `hold_s`: the lines in front, used with [`Overflow::Wait`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LineSettings {
    /// Longest line per job type; `None` = unbounded (the default).
    pub size: Option<u32>,
    /// Longest wait in line, in seconds; `None` = no limit (the default).
    pub timeout_s: Option<f64>,
    /// Longest wait in line, in seconds, for the first server of the job type to be up; `None` = such jobs do not wait (the
    /// default). For `serve` only.
    pub hold_s: Option<f64>,
}

/// `[service] distribution`: the law of job sizes, scaled to each job type's mean size.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum SizeLaw {
    /// Exponential (squared coefficient of variation `cv2 = 1`).
    #[default]
    Exponential,
    /// Constant (`cv2 = 0`).
    Deterministic,
    /// Sum of `k` exponentials (`cv2 = 1/k`).
    Erlang {
        /// Number of phases, at least 1.
        k: u32,
    },
    /// Two-phase hyperexponential with balanced means, `cv2 >= 1`.
    Hyperexponential {
        /// Squared coefficient of variation.
        cv2: f64,
    },
    /// Coxian: rate `mu1`, then with probability `p` a second phase of rate `mu2`; scaled to the mean size.
    Coxian2 {
        /// Rate of the first phase.
        mu1: f64,
        /// Probability of a second phase.
        p: f64,
        /// Rate of the second phase.
        mu2: f64,
    },
    /// Lognormal with this `cv2 > 0`.
    Lognormal {
        /// Squared coefficient of variation.
        cv2: f64,
    },
    /// Pareto (type I) with this tail exponent; the mean is finite for `shape > 1`.
    Pareto {
        /// Tail exponent, above 1.
        shape: f64,
    },
    /// Sizes come with the trace.
    Trace,
}

/// `[service] discipline`: how a server shares its slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discipline {
    /// First in, first out: each slot serves one job at a time.
    #[default]
    Fifo,
    /// Processor sharing: all jobs at the server share its slots equally, at most one slot a job.
    ProcessorSharing,
}

/// `[service]`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Service {
    /// Law of job sizes.
    pub law: SizeLaw,
    /// Order of service.
    pub discipline: Discipline,
}

/// `[arrivals] process`.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Arrivals {
    /// Independent Poisson processes, one per job type.
    #[default]
    Poisson,
    /// Renewal processes with this squared coefficient of variation of the gaps.
    Renewal {
        /// Squared coefficient of variation, above 0.
        cv2: f64,
    },
    /// All rates are multiplied by `peak` during exponential on-periods (mean `on_s`) and by the factor that keeps
    /// the mean rate during off-periods (mean `off_s`).
    OnOff {
        /// Factor on the mean rate while on, above 1 and at most `(on_s + off_s) / on_s`.
        peak: f64,
        /// Mean length of an on-period, seconds.
        on_s: f64,
        /// Mean length of an off-period, seconds.
        off_s: f64,
    },
    /// From each time on (seconds, ascending, the first 0), all rates are multiplied by the factor. The last factor lasts as
    /// long as the one before it; then the pattern begins anew.
    Piecewise(Vec<(f64, f64)>),
    /// Arrival times come with the trace.
    Trace,
}

impl Arrivals {
    /// Mean length in seconds of what repeats: the pattern of [`Piecewise`](Self::Piecewise), an on- and an off-period; 0
    /// where nothing does.
    ///
    /// ```
    /// use shortline_core::fleet::settings::Arrivals;
    ///
    /// let day_and_night = Arrivals::Piecewise(vec![(0.0, 0.5), (43200.0, 2.0)]);
    /// assert_eq!(day_and_night.period_s(), 86400.0);
    /// assert_eq!(day_and_night.mean_factor(), 1.25);
    /// ```
    #[must_use]
    pub fn period_s(&self) -> f64 {
        match self {
            Self::OnOff { on_s, off_s, .. } => on_s + off_s,
            Self::Piecewise(pattern) => match pattern.as_slice() {
                [.., (before_s, _), (last_s, _)] => 2.0 * last_s - before_s,
                _ => 0.0,
            },
            Self::Poisson | Self::Renewal { .. } | Self::Trace => 0.0,
        }
    }

    /// The long-run mean of the factor on the rates: 1 but for [`Piecewise`](Self::Piecewise).
    #[must_use]
    pub fn mean_factor(&self) -> f64 {
        match self {
            Self::Piecewise(pattern) if pattern.len() > 1 => {
                let ends = pattern.iter().skip(1).map(|&(at_s, _)| at_s).chain([self.period_s()]);
                pattern.iter().zip(ends).map(|(&(at_s, factor), end_s)| factor * (end_s - at_s)).sum::<f64>()
                    / self.period_s()
            }
            Self::Piecewise(pattern) => pattern.first().map_or(1.0, |&(_, factor)| factor),
            Self::Poisson | Self::Renewal { .. } | Self::OnOff { .. } | Self::Trace => 1.0,
        }
    }
}

/// `[failures]`.
#[derive(Clone, PartialEq, Debug)]
pub enum Failures {
    /// Each server alternates between exponential up and down times of these means, in seconds.
    Random {
        /// Mean time up.
        mean_up_s: f64,
        /// Mean time down.
        mean_down_s: f64,
    },
    /// What happens when, to which server (index in the file's order).
    Events(Vec<FailureEvent>),
}

/// One entry of `[failures] events`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FailureEvent {
    /// When, in seconds from the start.
    pub at_s: f64,
    /// Which server, as its index in the file's order.
    pub server: usize,
    /// Whether it comes up or goes down.
    pub up: bool,
}

/// `[information]`: what a dispatcher knows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Information {
    /// Age of the counts a decision sees, in seconds.
    pub delay_s: f64,
    /// Number of gateways, each of which sees its own jobs only.
    pub gateways: u32,
}

impl Default for Information {
    fn default() -> Self {
        Self { delay_s: 0.0, gateways: 1 }
    }
}

/// `[timeouts]`, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timeouts {
    /// To connect to a server.
    pub connect_s: f64,
    /// From the end of the request to the first byte of the answer.
    pub first_byte_s: f64,
    /// Between two chunks of a body, either way.
    pub idle_s: f64,
    /// For the head of a request, from its first byte to its last.
    pub header_s: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_s: 2.0, first_byte_s: 600.0, idle_s: 60.0, header_s: 10.0 }
    }
}

/// `[emulate]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Emulate {
    /// An emulated second lasts this many real seconds; 0.01 runs 100 times faster than written.
    pub time_scale: f64,
}

impl Default for Emulate {
    fn default() -> Self {
        Self { time_scale: 1.0 }
    }
}

/// Where the gateway looks for a request's job type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobTypeSource {
    /// The header `x-job-type`.
    Header,
    /// The longest `path_prefix` of a `[[route]]`.
    Path,
    /// The top-level `model` member of a JSON body.
    Model,
    /// The `host` of a `[[route]]`.
    Host,
}

/// `[gateway]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Gateway {
    /// Where to look for the job type; the first that is present decides.
    pub job_type_from: Vec<JobTypeSource>,
    /// Most bytes of a body that are held while looking for its `model` member.
    pub body_scan_limit: u64,
    /// Status of a refusal for lack of room: 503, 429 or 529.
    pub no_capacity_status: u16,
    /// Whether answers name the server in `x-served-by`.
    pub served_by: bool,
    /// Whether `/v1/models` lists the job types that have a server up.
    pub models: bool,
    /// Most bytes of a request's head.
    pub max_header_bytes: u32,
    /// Most header lines of a request.
    pub max_headers: u32,
    /// Most connections from one client address; `None` = no limit (the default).
    pub connections_per_client: Option<u32>,
}

impl Default for Gateway {
    fn default() -> Self {
        use JobTypeSource::{Header, Host, Model, Path};
        Self {
            job_type_from: vec![Header, Path, Model, Host],
            body_scan_limit: 8 << 20,
            no_capacity_status: 503,
            served_by: true,
            models: true,
            max_header_bytes: 64 << 10,
            max_headers: 100,
            connections_per_client: None,
        }
    }
}

/// One `[[route]]`: requests it matches are of this job type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// What it matches.
    pub matches: RouteMatch,
    /// The job type, as its index in the file's order.
    pub job_type: usize,
}

/// What a [`Route`] matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteMatch {
    /// Requests whose path starts with this.
    PathPrefix(String),
    /// Requests to this host (without port, lower case).
    Host(String),
}

/// `[[server]] protocol`: which HTTP a server is spoken to in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Protocol {
    /// What the server chooses in the TLS handshake (ALPN); without TLS HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS by prior knowledge.
    Http2,
}

/// `[tls]`: how servers at `https://` addresses are spoken to. Paths are relative to the fleet file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// PEM file with the certificate authorities that are trusted; `None` = the system's.
    pub ca_file: Option<String>,
    /// PEM files with the gateway's own certificate chain and its key, for servers that ask for one.
    pub identity: Option<(String, String)>,
    /// Whether servers have to prove who they are.
    pub verify: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self { ca_file: None, identity: None, verify: true }
    }
}

/// How to reach a server: its `http://` or `https://` address, and what to speak there.
///
/// ```
/// use shortline_core::fleet::settings::Address;
///
/// assert_eq!(Address::new(true, "gpu.example", 443).to_string(), "https://gpu.example:443");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// Whether to speak TLS.
    pub https: bool,
    /// Host name or IP address, as written (IPv6 without brackets).
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Which HTTP.
    pub protocol: Protocol,
    /// Name to ask for in TLS (SNI), and the one that its certificate has to bear; `None` = `host`.
    pub tls_name: Option<String>,
}

impl Address {
    /// An address without special wishes.
    #[must_use]
    pub fn new(https: bool, host: impl Into<String>, port: u16) -> Self {
        Self { https, host: host.into(), port, protocol: Protocol::Auto, tls_name: None }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.https { "https://" } else { "" };
        if self.host.contains(':') {
            write!(f, "{scheme}[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}{}:{}", self.host, self.port)
        }
    }
}

/// All sections that are not servers, job types or graph.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Settings {
    /// `[fleet] policy`, if given.
    pub policy: Option<crate::policy::PolicySpec>,
    /// `[fleet] buffer`: that of servers which name none; `None` = unbounded. Those of this fleet have it already.
    pub buffer: Option<u32>,
    /// `[fleet] overflow`.
    pub overflow: Overflow,
    /// `[fleet] queue_size`, `queue_timeout_s`.
    pub lines: LineSettings,
    /// `[service]`.
    pub service: Service,
    /// `[arrivals]`.
    pub arrivals: Arrivals,
    /// `[failures]`, if given.
    pub failures: Option<Failures>,
    /// `[information]`.
    pub information: Information,
    /// `[timeouts]`.
    pub timeouts: Timeouts,
    /// `[health]`.
    pub health: Health,
    /// `[retry]`.
    pub retry: Retry,
    /// `[emulate]`.
    pub emulate: Emulate,
    /// `[gateway]`.
    pub gateway: Gateway,
    /// `[tls]`.
    pub tls: Tls,
    /// `[[route]]` entries in the file's order.
    pub routes: Vec<Route>,
}
