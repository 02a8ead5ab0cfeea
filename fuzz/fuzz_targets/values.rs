//! Single values of objects: names, paths, hosts, durations, addresses, certificates.
#![no_main]

use holdfast_check::{address, certificate, duration, header, host, path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = certificate::check_ca_bundle(bytes);
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let _ = certificate::check_pair(one, other);
    let _ = certificate::check_pair(bytes, bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let faults = [
        header::name(text).err().map(|fault| fault.to_string()),
        header::modifiable_name(text).err().map(|fault| fault.to_string()),
        header::value(text).err().map(|fault| fault.to_string()),
        header::query_name(text).err().map(|fault| fault.to_string()),
        header::method(text).err().map(|fault| fault.to_string()),
        path::matched(text).err().map(|fault| fault.to_string()),
        path::full_replacement(text).err().map(|fault| fault.to_string()),
        host::hostname(text).err().map(|fault| fault.to_string()),
        host::origin(text).err().map(|fault| fault.to_string()),
        duration::duration(text).err().map(|fault| fault.to_string()),
        address::parse(text, false).err().map(|fault| fault.to_string()),
    ];
    // Faults are written to terminals and statuses: one line, no control characters, of limited length.
    for fault in faults.into_iter().flatten() {
        assert!(fault.len() < 4096 && !fault.chars().any(|character| character.is_control()), "{fault:?}");
    }
});
