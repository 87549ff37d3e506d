//! Versions of frames and pages. Another major is refused with both named; a newer minor may send
//! frames and fields that the older side ignores.

/// A protocol version, `major.minor`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
}

/// What this build speaks.
pub const CURRENT: Version = Version { major: 1, minor: 1 };

impl Version {
    /// Whether this build can talk to one that speaks `theirs`.
    #[must_use]
    pub const fn accepts(self, theirs: Self) -> bool {
        self.major == theirs.major
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
