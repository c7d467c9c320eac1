//! How requests end: one word each, in metrics, logs and error codes alike.

macro_rules! outcomes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// How a request ended.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Outcome { $($(#[$doc])* $variant,)* }

        impl Outcome {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its word.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

outcomes! {
    /// The server's answer was passed on whole, status 1xx to 3xx.
    Ok = "ok",
    /// The server's answer was passed on whole, status 4xx.
    Server4xx = "server_4xx",
    /// The server's answer was passed on whole, status 5xx.
    Server5xx = "server_5xx",
    /// The gateway has listed its models.
    Models = "models",
    /// The client went away before the answer was complete.
    ClientAbort = "client_abort",
    /// The gateway ended before the request did.
    CutOff = "cut_off",
    /// The server broke off in the middle of its answer, and so did the gateway.
    UpstreamAbort = "upstream_abort",
    /// Refused: no job type named.
    MissingJobType = "missing_job_type",
    /// Refused: job type not in the fleet.
    UnknownJobType = "unknown_job_type",
    /// Refused: `model` not found within the limit.
    BodyTooLarge = "body_too_large",
    /// Refused: no place.
    NoCapacity = "no_capacity",
    /// Refused: no compatible server up.
    NoServerUp = "no_server_up",
    /// Refused: waited too long in line.
    QueueTimeout = "queue_timeout",
    /// Refused: the gateway has no descriptor or local port for a connection to the server.
    OutOfSockets = "out_of_sockets",
    /// The server could not be reached.
    UpstreamConnect = "upstream_connect",
    /// The server was silent for too long, before or within its answer.
    UpstreamTimeout = "upstream_timeout",
    /// The server failed before its answer began.
    UpstreamError = "upstream_error",
    /// The client stopped sending.
    ClientTimeout = "client_timeout",
    /// The request was broken, its head or its body.
    BadRequest = "bad_request",
    /// The request's head was too large.
    HeaderTooLarge = "header_too_large",
    /// A protocol that is not spoken.
    Unsupported = "unsupported",
}

impl Outcome {
    /// How a server's answer with this status counts once it is passed on whole.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            400..500 => Self::Server4xx,
            500.. => Self::Server5xx,
            _ => Self::Ok,
        }
    }

    /// Whether the client got all of the server's answer.
    pub(crate) fn is_answered(self) -> bool {
        matches!(self, Self::Ok | Self::Server4xx | Self::Server5xx)
    }
}
