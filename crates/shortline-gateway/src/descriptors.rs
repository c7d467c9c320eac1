//! File descriptors: how many connections the gateway may have, so that it never runs out of them.
//!
//! The system gives a process so many (`ulimit -n`). What is free at the start, less [`SPARE`], is split into thirds:
//! connections of clients, connections to servers, and everything else (admin pages, name look-ups, and the far ends of
//! the connections to emulated servers). Clients beyond their third wait in the listener's backlog until another one
//! leaves. Beyond the servers' third idle connections are closed first; a request that still finds no room within
//! `connect_s` is refused as `out_of_sockets`, which is the gateway's fault and not the server's.

use std::io;

use rlimit::Resource;
use tokio::sync::Semaphore;

/// Kept out of the thirds: what the process still opens for itself.
const SPARE: u64 = 16;

/// Raises the number of file descriptors that this process may have as far as the system allows, and says how many
/// that is. For whoever owns the process, before it starts to serve.
///
/// # Errors
/// If the system does not say or does not allow what it said.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    rlimit::increase_nofile_limit(u64::MAX)
}

/// Connections of clients, and as many to servers, that this process has descriptors for; at least one.
pub(crate) fn share() -> usize {
    let soft = rlimit::getrlimit(Resource::NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    let open = std::fs::read_dir("/dev/fd").map_or(0, |open| open.count() as u64);
    let third = soft.saturating_sub(open + SPARE) / 3;
    usize::try_from(third).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

/// Whether a connection failed for want of descriptors or local ports: not the other end's fault.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    /// `ENFILE` and `EMFILE`, the same on all Unix systems.
    const NO_DESCRIPTORS: [i32; 2] = [23, 24];
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error().is_some_and(|code| NO_DESCRIPTORS.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_what_is_free_is_less_than_the_limit_and_not_nothing() {
        let (soft, _) = rlimit::getrlimit(Resource::NOFILE).unwrap();
        let share = share() as u64;
        assert!(share >= 1 && share <= soft / 3, "{share} of {soft}");
    }

    #[test]
    fn the_gateways_own_want_is_told_from_a_server_that_refuses() {
        assert!(is_exhausted(&io::Error::from_raw_os_error(24)));
        assert!(is_exhausted(&io::ErrorKind::AddrNotAvailable.into()));
        assert!(!is_exhausted(&io::ErrorKind::ConnectionRefused.into()));
    }
}
