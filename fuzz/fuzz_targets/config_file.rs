#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::config_file::body(data));
