#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::byte_size::body(data));
