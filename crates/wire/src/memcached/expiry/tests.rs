use super::*;

#[test]
fn the_kinds_of_time_meet_at_their_bounds() {
    assert_eq!(Expiry::from_seconds(0), Expiry::Never);
    assert_eq!(Expiry::from_seconds(-1), Expiry::Past);
    assert_eq!(Expiry::from_seconds(i32::MIN), Expiry::Past);
    assert_eq!(Expiry::from_seconds(1), Expiry::After { seconds: 1 });
    assert_eq!(Expiry::from_seconds(2_592_000), Expiry::After { seconds: 2_592_000 });
    assert_eq!(Expiry::from_seconds(2_592_001), Expiry::At { unix_s: 2_592_001 });
    assert_eq!(Expiry::from_seconds(i32::MAX), Expiry::At { unix_s: 2_147_483_647 });
}

#[test]
fn an_unsigned_time_never_lies_below_zero() {
    assert_eq!(Expiry::from_unsigned_seconds(0), Expiry::Never);
    assert_eq!(Expiry::from_unsigned_seconds(1), Expiry::After { seconds: 1 });
    assert_eq!(Expiry::from_unsigned_seconds(2_592_000), Expiry::After { seconds: 2_592_000 });
    assert_eq!(Expiry::from_unsigned_seconds(2_592_001), Expiry::At { unix_s: 2_592_001 });
    assert_eq!(Expiry::from_unsigned_seconds(u32::MAX), Expiry::At { unix_s: u32::MAX });
}
