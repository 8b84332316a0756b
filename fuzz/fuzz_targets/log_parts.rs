#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::log_parts::body(data));
