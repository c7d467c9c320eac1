//! Vectors on huge pages, for tables of a fleet that are read at random.
//!
//! A table of a million rows is spread over tens of thousands of pages of 4 KiB, more than a processor keeps the
//! addresses of, so that a random read misses twice: the address, then the value. On pages of 2 MiB all addresses stay
//! at hand: a tenth off an event's cost in a fleet of a million servers. Where the system has no such pages to give,
//! nothing but that is lost.

/// Bytes of a huge page of the common machines, and a multiple of their page sizes.
const HUGE_PAGE: usize = 2 << 20;

/// An empty vector with room for `len` values, those on huge pages where they fill some and the system allows it.
#[must_use]
pub fn with_capacity<T>(len: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    advise(values.spare_capacity_mut());
    values
}

/// Asks for huge pages under the part of the values that fills such pages.
#[cfg(target_os = "linux")]
fn advise<T>(values: &mut [std::mem::MaybeUninit<T>]) {
    let bytes = size_of_val(values);
    let start = values.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(HUGE_PAGE);
    let len = bytes.saturating_sub(skipped) / HUGE_PAGE * HUGE_PAGE;
    if len == 0 {
        return;
    }
    // SAFETY: the range `skipped .. skipped + len` is within the values, which are borrowed mutably, and begins and ends
    // with a page. `MADV_HUGEPAGE` lets the kernel choose the size of the pages under it; it changes neither what is
    // readable nor any byte of it.
    #[expect(unsafe_code, reason = "without it a million servers cost a tenth more; the proof is above")]
    // Refused where the kernel was built without them: then the pages stay small.
    let _ = unsafe { rustix::mm::madvise(start.wrapping_add(skipped).cast(), len, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &mut [std::mem::MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::{HUGE_PAGE, with_capacity};

    #[test]
    fn the_values_are_those_of_any_vector() {
        for len in [0, 1, 1000, HUGE_PAGE / 8 - 1, HUGE_PAGE / 8, 3 * HUGE_PAGE / 8 + 5] {
            let mut values: Vec<u64> = with_capacity(len);
            assert!(values.is_empty() && values.capacity() >= len);
            values.extend(0..len as u64);
            assert!(values.iter().copied().eq(0..len as u64), "{len} values");
        }
    }

    /// What `/proc/self/smaps` says of the mapping that holds the middle of the values.
    #[cfg(target_os = "linux")]
    fn flags_at(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut here = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((Ok(low), Ok(high))) =
                range.map(|(low, high)| (usize::from_str_radix(low, 16), usize::from_str_radix(high, 16)))
            {
                here = (low..high).contains(&address);
            } else if here && line.starts_with("VmFlags:") {
                return Some(line.to_owned());
            }
        }
        None
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn large_tables_ask_for_huge_pages_and_small_ones_do_not() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let asks = |values: &Vec<u8>| {
            let middle = values.as_ptr() as usize + values.len() / 2;
            flags_at(middle).is_some_and(|flags| flags.split(' ').any(|flag| flag == "hg"))
        };
        let mut large: Vec<u8> = with_capacity(8 * HUGE_PAGE);
        large.resize(8 * HUGE_PAGE, 1);
        let plain = vec![1_u8; 8 * HUGE_PAGE];
        assert!(asks(&large));
        assert!(!asks(&plain));
    }
}
