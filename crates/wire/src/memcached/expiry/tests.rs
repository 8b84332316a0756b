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
fn a_clock_gives_them_a_meaning() {
    let now = 1_700_000_000_250;
    assert_eq!(Expiry::Never.deadline_unix_ms(now), None);
    assert_eq!(Expiry::Past.deadline_unix_ms(now), Some(0));
    let soon = Expiry::After { seconds: 2 };
    assert_eq!(soon.deadline_unix_ms(now), Some(1_700_000_002_250));
    let then = Expiry::At { unix_s: 2_592_001 };
    assert_eq!(then.deadline_unix_ms(now), Some(2_592_001_000));
}
