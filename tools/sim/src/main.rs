//! Says what a disk may do; replays runs once there are any.
#![forbid(unsafe_code)]

use disk_sim::fault::Kind;

fn main() {
    for kind in Kind::ALL {
        println!("{kind:?}");
    }
}
