//! What a rule is: a test that checks an effect of the functions that it covers, with the line of
//! the header or the measured fact that it comes from in the words above it.

use crate::api::{self, Turn};
use crate::call;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) source: &'static [&'static str],
    pub(crate) covers: &'static [&'static str],
}

/// Runs the rule's body, and holds it to what it says it covers.
pub(crate) fn run(rule: &Rule, body: fn(&Turn)) {
    let turn = api::turn();
    call::take_called();
    let result = catch_unwind(AssertUnwindSafe(|| body(&turn)));
    let called = call::take_called();
    // What a failed rule leaves behind must not fail the next one.
    let _ = call::invoke("cuDevicePrimaryCtxReset_v2", &[0]);
    if let Err(panic) = result {
        resume_unwind(panic);
    }
    for function in rule.covers {
        assert!(called.contains(*function), "{} covers {function} and does not call it", rule.name);
    }
}

macro_rules! rules {
    ($($(#[doc = $source:literal])+ fn $name:ident($turn:ident) covers [$($function:ident),* $(,)?] $body:block)*) => {
        /// The rules of this file.
        pub(crate) const RULES: &[$crate::rule::Rule] = &[
            $($crate::rule::Rule {
                name: stringify!($name),
                source: &[$($source),+],
                covers: &[$(stringify!($function)),*],
            },)*
        ];

        $(
            $(#[doc = $source])+
            #[test]
            fn $name() {
                fn body($turn: &$crate::api::Turn) $body
                let rule = RULES.iter().find(|rule| rule.name == stringify!($name));
                $crate::rule::run(rule.expect("a rule of this file"), body);
            }
        )*
    };
}

pub(crate) use rules;
