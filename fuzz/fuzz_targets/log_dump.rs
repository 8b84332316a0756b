#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::log_dump::body(data));
