//! The modifiers of one instruction, taken one after the other; what is left over at the end is not
//! understood.

use crate::ops::convert::INTEGRAL;
use crate::rounding::{Round, flag};
use crate::types::{Space, Ty};

pub(super) struct Modifiers<'a> {
    rest: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    pub(super) fn new(words: &[&'a str]) -> Self {
        Self { rest: words.to_vec() }
    }

    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.rest.iter().position(|&w| w == word);
        found.map(|at| self.rest.remove(at)).is_some()
    }

    /// The first of the modifiers for which `meaning` is known.
    pub(super) fn take_as<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, value) =
            self.rest.iter().enumerate().find_map(|(at, w)| Some((at, meaning(w)?)))?;
        self.rest.remove(at);
        Some(value)
    }

    /// The first modifier, whatever it is.
    pub(super) fn take_first(&mut self) -> Option<&'a str> {
        (!self.rest.is_empty()).then(|| self.rest.remove(0))
    }

    pub(super) fn take_type(&mut self) -> Option<Ty> {
        self.take_as(Ty::named)
    }

    pub(super) fn take_space(&mut self) -> Option<Space> {
        self.take_as(Space::named)
    }

    pub(super) fn drop_matching(&mut self, meant: impl Fn(&str) -> bool) {
        self.rest.retain(|word| !meant(word));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What arithmetic in `ty` may carry: integers saturate at most.
    pub(super) fn take_flags_of(&mut self, ty: Ty) -> u32 {
        if ty.is_float() || matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
            // Approximations are computed exactly, and halves keep subnormals by default.
            let _accepted = self.take("approx") || self.take("full") || self.take("noftz");
            return self.take_float_flags();
        }
        if self.take("sat") { flag::SATURATE } else { 0 }
    }

    /// Rounding, `.ftz`, `.sat` and `.relu` as `Alu::k` carries them.
    pub(super) fn take_float_flags(&mut self) -> u32 {
        let rounding = self.take_as(|word| {
            Some(match word {
                "rn" => Round::Nearest.code(),
                "rz" => Round::Zero.code(),
                "rm" => Round::Down.code(),
                "rp" => Round::Up.code(),
                "rna" => Round::NearestAway.code(),
                "rni" => Round::Nearest.code() | INTEGRAL,
                "rzi" => Round::Zero.code() | INTEGRAL,
                "rmi" => Round::Down.code() | INTEGRAL,
                "rpi" => Round::Up.code() | INTEGRAL,
                _ => return None,
            })
        });
        let mut k = rounding.unwrap_or(0);
        for (word, bit) in [("ftz", flag::FLUSH), ("sat", flag::SATURATE), ("relu", flag::RELU)] {
            if self.take(word) {
                k |= bit;
            }
        }
        k
    }
}
