#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::restart_file::body(data));
