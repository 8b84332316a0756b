//! What is said about a listener when it can be used.

use crate::listener::Listener;

/// A listener, as it is announced when everything behind it is ready.
pub(super) struct Door {
    name: String,
    /// Whether anybody from anywhere may use it.
    exposed: bool,
}

impl Door {
    pub(super) fn of(listener: &Listener, is_open: bool) -> Self {
        let exposed = is_open && listener.is_exposed();
        Self { name: listener.name().to_owned(), exposed }
    }

    pub(super) fn announce(&self) {
        tracing::info!(address = self.name, "listening");
        if self.exposed {
            tracing::warn!(
                address = self.name,
                "nobody has to log in: everybody who reaches this address can read and change \
                 everything"
            );
        }
    }
}
