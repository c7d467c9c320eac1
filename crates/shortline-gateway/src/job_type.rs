//! The job type of a request: the first source that names one decides.
//!
//! The order is `[gateway] job_type_from`, by default:
//! 1. **header** `x-job-type`;
//! 2. **path**: the longest `path_prefix` of a `[[route]]` with which the path begins (the path passes unchanged);
//! 3. **model**: the top-level string member `model` of a JSON body. Which bodies are JSON is seen by their first
//!    byte, `{`, not by `content-type`, which `curl -d` for one gets wrong. Compressed bodies are not searched.
//! 4. **host**: the `host` of a `[[route]]`, without port.
//!
//! A source that names an unknown job type decides too: the answer is 404, not the next source. A body is read only
//! if no earlier source decides, and only up to `body_scan_limit` bytes; beyond them the answer is 413.

use std::time::Duration;

use http::header::{CONTENT_ENCODING, HOST, HeaderValue};
use http::request::Parts;
use http_body::Body;
use shortline_core::fleet::settings::{JobTypeSource, RouteMatch, Settings};
use shortline_core::{Fleet, JobTypeId};

use crate::errors::{NoModel, Refusal};
use crate::headers::X_JOB_TYPE;
use crate::request_body::RequestBody;

/// How job types are found in requests.
#[derive(Debug)]
pub(crate) struct Finder {
    order: Vec<JobTypeSource>,
    /// Longest first.
    prefixes: Vec<(String, JobTypeId)>,
    hosts: Vec<(String, JobTypeId)>,
    body_scan_limit: u64,
    idle: Duration,
}

/// A job type and who named it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub(crate) job_type: JobTypeId,
    pub(crate) by: JobTypeSource,
}

impl Finder {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (mut prefixes, mut hosts) = (Vec::new(), Vec::new());
        for route in &settings.routes {
            let job_type = JobTypeId::new(route.job_type);
            match &route.matches {
                RouteMatch::PathPrefix(prefix) => prefixes.push((prefix.clone(), job_type)),
                RouteMatch::Host(host) => hosts.push((host.clone(), job_type)),
            }
        }
        // Stable: of equal prefixes the file's first one counts.
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self {
            order: settings.gateway.job_type_from.clone(),
            prefixes,
            hosts,
            body_scan_limit: settings.gateway.body_scan_limit,
            idle: Duration::from_secs_f64(settings.timeouts.idle_s),
        }
    }

    /// The job type of a request.
    ///
    /// # Errors
    /// The refusal to answer with, if there is none.
    pub(crate) async fn find(&self, fleet: &Fleet, head: &Parts, body: &mut RequestBody) -> Result<Named, Refusal> {
        let mut no_model = None;
        for &by in &self.order {
            let job_type = match by {
                JobTypeSource::Header => match by_header(head)? {
                    Some(value) => Some(named(fleet, &String::from_utf8_lossy(value.as_bytes()))?),
                    None => None,
                },
                JobTypeSource::Path => self.by_path(head.uri.path()),
                JobTypeSource::Model => match self.model(head, body).await? {
                    Ok(model) => Some(named(fleet, &model)?),
                    Err(why) => {
                        no_model = Some(why);
                        None
                    }
                },
                JobTypeSource::Host => host(head).and_then(|host| self.by_host(host)),
            };
            if let Some(job_type) = job_type {
                return Ok(Named { job_type, by });
            }
        }
        Err(Refusal::MissingJobType(no_model))
    }

    /// Whether the header or a `[[route]]` of the path names a job type.
    pub(crate) fn is_named_in(&self, head: &Parts) -> bool {
        self.order.iter().any(|by| match by {
            JobTypeSource::Header => head.headers.contains_key(X_JOB_TYPE),
            JobTypeSource::Path => self.by_path(head.uri.path()).is_some(),
            JobTypeSource::Model | JobTypeSource::Host => false,
        })
    }

    async fn model(&self, head: &Parts, body: &mut RequestBody) -> Result<Result<String, NoModel>, Refusal> {
        let encoded =
            head.headers.get(CONTENT_ENCODING).is_some_and(|e| !e.as_bytes().eq_ignore_ascii_case(b"identity"));
        if encoded && !body.is_end_stream() {
            return Ok(Err(NoModel::Encoded));
        }
        body.model(self.body_scan_limit, self.idle).await
    }

    fn by_path(&self, path: &str) -> Option<JobTypeId> {
        self.prefixes.iter().find(|(prefix, _)| path.starts_with(prefix.as_str())).map(|&(_, job_type)| job_type)
    }

    fn by_host(&self, host: &str) -> Option<JobTypeId> {
        self.hosts.iter().find(|(known, _)| known.eq_ignore_ascii_case(host)).map(|&(_, job_type)| job_type)
    }
}

/// The header's value. A request that names two is refused: the server might read the other one.
fn by_header(head: &Parts) -> Result<Option<&HeaderValue>, Refusal> {
    let mut values = head.headers.get_all(X_JOB_TYPE).iter();
    let first = values.next();
    if values.any(|value| Some(value) != first) {
        return Err(Refusal::Malformed("the request has the header x-job-type with different values; send one"));
    }
    Ok(first)
}

fn named(fleet: &Fleet, name: &str) -> Result<JobTypeId, Refusal> {
    fleet.find_job_type(name).ok_or_else(|| Refusal::UnknownJobType(name.to_owned()))
}

/// The host a request is for, without port; an IPv6 address without brackets.
fn host(head: &Parts) -> Option<&str> {
    let authority = match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(HOST)?.to_str().ok()?,
    };
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?.0,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use shortline_core::fleet::settings::Route;

    fn finder(routes: &[(&str, usize)]) -> Finder {
        let route = |&(what, job_type): &(&str, usize)| Route {
            job_type,
            matches: match what.strip_prefix('/') {
                Some(_) => RouteMatch::PathPrefix(what.to_owned()),
                None => RouteMatch::Host(what.to_owned()),
            },
        };
        Finder::new(&Settings { routes: routes.iter().map(route).collect(), ..Settings::default() })
    }

    #[test]
    fn the_longest_prefix_wins() {
        let finder = finder(&[("/v1", 0), ("/v1/images", 1), ("/v1/i", 2)]);
        let path = |p| finder.by_path(p).map(JobTypeId::index);
        assert_eq!([path("/v1/images/x"), path("/v1/iq"), path("/v1"), path("/v2")], [Some(1), Some(2), Some(0), None]);
    }

    #[test]
    fn a_host_matches_without_port_and_case() {
        let finder = finder(&[("a.example", 0), ("::1", 1)]);
        let by = |uri: &str, header: Option<&str>| {
            let mut request = Request::builder().uri(uri);
            if let Some(header) = header {
                request = request.header("host", header);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            host(&head).and_then(|h| finder.by_host(h)).map(JobTypeId::index)
        };
        assert_eq!(by("/", Some("A.example:8080")), Some(0));
        assert_eq!(by("/", Some("[::1]:8080")), Some(1));
        assert_eq!(by("/", Some("[::1]")), Some(1));
        assert_eq!(by("http://a.example/", Some("b.example")), Some(0));
        assert_eq!(by("/", None), None);
        assert_eq!(by("/", Some(":80")), None);
    }
}
