use super::*;

#[test]
fn strict_numbers_are_digits_that_fit() {
    assert_eq!(u32_of(b"0"), Some(0));
    assert_eq!(u32_of(b"4294967295"), Some(u32::MAX));
    assert_eq!(u32_of(b"4294967296"), None);
    assert_eq!(u32_of(b"00000000007"), Some(7), "eleven characters");
    assert_eq!(u32_of(b"000000000007"), None, "twelve characters");
    for wrong in [&b"-1"[..], b"+1", b"1x", b"x1", b" 1", b"1\0", b"\xb1", b"1.0"] {
        assert_eq!(u32_of(wrong), None, "{wrong:?}");
        assert_eq!(u64_of(wrong), None, "{wrong:?}");
    }
    assert_eq!(u64_of(b"999999999999999999"), Some(999_999_999_999_999_999), "18 digits");
    assert_eq!(u64_of(b"9999999999999999999"), Some(9_999_999_999_999_999_999), "19 digits");
    assert_eq!(u64_of(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(u64_of(b"18446744073709551616"), None);
    assert_eq!(u64_of(b"0000000000000000000007"), Some(7), "22 characters");
    assert_eq!(u64_of(b"00000000000000000000007"), None, "23 characters");
}

#[test]
fn strict_signed_numbers_may_be_negative() {
    assert_eq!(i32_of(b"2147483647"), Some(i32::MAX));
    assert_eq!(i32_of(b"2147483648"), None);
    assert_eq!(i32_of(b"-2147483648"), Some(i32::MIN));
    assert_eq!(i32_of(b"-2147483649"), None);
    assert_eq!(i32_of(b"-"), Some(0));
    assert_eq!(i32_of(b"-0"), Some(0));
    assert_eq!(i32_of(b"-0000000012"), Some(-12), "eleven characters");
    assert_eq!(i32_of(b"-00000000012"), None, "twelve characters");
    for wrong in [&b"--1"[..], b"+1", b"1-", b"1x"] {
        assert_eq!(i32_of(wrong), None, "{wrong:?}");
    }
}

#[test]
fn plain_numbers_end_at_one_space_or_the_end() {
    assert_eq!(plain(b"0"), Some((0, &b""[..])));
    assert_eq!(plain(b"12 34"), Some((12, &b"34"[..])));
    assert_eq!(plain(b"12 "), Some((12, &b""[..])));
    assert_eq!(plain(b"12  34"), Some((12, &b" 34"[..])));
    assert_eq!(plain(b"999999999"), Some((999_999_999, &b""[..])));
    assert_eq!(plain(b"999999999 x"), Some((999_999_999, &b"x"[..])));
    for other in [&b""[..], b" 1", b"-1", b"1x", b"x", b"1000000000", b"1000000000 "] {
        assert_eq!(plain(other), None, "{other:?}");
    }
}

#[test]
fn client_flags_are_read_as_strtoul_does() {
    assert_eq!(loose_u32(b"5"), Some(5));
    assert_eq!(loose_u32(b"5 0 1"), Some(5));
    assert_eq!(loose_u32(b"+5 0"), Some(5));
    assert_eq!(loose_u32(b"\t5\t0"), Some(5));
    assert_eq!(loose_u32(b"\t 7 1"), Some(7), "a blank word is skipped");
    assert_eq!(loose_u32(b"5\0junk"), Some(5));
    assert_eq!(loose_u32(b"4294967297"), Some(1), "bits above 32 are lost");
    assert_eq!(loose_u32(b"18446744073709551615"), Some(u32::MAX));
    assert_eq!(loose_u32(b"18446744073709551616"), None);
    assert_eq!(loose_u32(b"-1"), None);
    assert_eq!(loose_u32(b"-0"), Some(0));
    assert_eq!(loose_u32(b"-18446744073709551615"), Some(1), "wraps to a small number");
    for wrong in [&b""[..], b"x", b"-", b"5x", b"0x10", b"1.5", b"\0", b"\t"] {
        assert_eq!(loose_u32(wrong), None, "{wrong:?}");
        assert_eq!(loose_i32(wrong), None, "{wrong:?}");
    }
}

#[test]
fn expiration_times_are_read_as_strtol_does() {
    assert_eq!(loose_i32(b"-1 2"), Some(-1));
    assert_eq!(loose_i32(b"+100"), Some(100));
    assert_eq!(loose_i32(b"4294967296"), Some(0), "bits above 32 are lost");
    assert_eq!(loose_i32(b"2147483648"), Some(i32::MIN));
    assert_eq!(loose_i32(b"9223372036854775807"), Some(-1));
    assert_eq!(loose_i32(b"9223372036854775808"), None);
    assert_eq!(loose_i32(b"-9223372036854775808"), Some(0));
    assert_eq!(loose_i32(b"-9223372036854775809"), None);
}
