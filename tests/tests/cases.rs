//! The C programs of `tests/cases/c`, one test each, twice: under the entitlement that the program's
//! head names, where each must pass, and natively, where each must end as its head says. A program
//! that passes natively proves that Halfwarp does no harm; one that fails there proves that the
//! check can fail.

use std::time::Duration;

use halfwarp_tests::{Ended, Machine, expect, guest, on_a_device};

/// As the programs' own description says: later is a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// A program, its source, and what its head says.
struct Case {
    name: &'static str,
    source: &'static str,
}

impl Case {
    /// The options between `halfwarp run` and `--` in its head. `--swap` is left out while a broker
    /// refuses it: the rules of these programs hold with and without.
    fn options(&self) -> Vec<&'static str> {
        let (_, rest) = self.source.split_once("halfwarp run ").expect("the head has the command");
        let (options, _) = rest.split_once(" -- ").expect("the command names a program");
        options.split_whitespace().filter(|o| !["--sim", "--swap"].contains(o)).collect()
    }

    fn passes_natively(&self) -> bool {
        let (_, said) = self.source.split_once("(without Halfwarp: ").expect("the head says it");
        said.starts_with("PASS")
    }

    /// `MEM-07` of `mem_07`.
    fn id(&self) -> String {
        self.name.to_uppercase().replace('_', "-")
    }

    fn judge(&self, ended: &Ended, passes: bool) -> Result<(), String> {
        let said = |word: &str| ended.stdout.starts_with(&format!("{word} {}", self.id()));
        // A driver that is missing, whole or in part, fails everything and shows nothing.
        let asked_a_driver =
            !ended.stdout.contains("no driver") && !ended.stdout.contains("has no cu");
        let as_wanted = if passes {
            ended.status.success() && said("PASS")
        } else {
            ended.status.code() == Some(1) && said("FAIL") && asked_a_driver
        };
        if as_wanted { Ok(()) } else { Err(ended.all()) }
    }

    fn run_as_a_tenant(&self, test: &str) {
        let machine = Machine::new();
        let tenancy = machine.tenant(&self.options()).program([guest(self.name)]);
        let ended = tenancy.finish(DEADLINE);
        expect(test, self.judge(&ended, true));
    }

    fn run_natively(&self, test: &str) {
        // A card has whatever size it has; the numbers of the heads are the simulated one's.
        if on_a_device() && !self.passes_natively() {
            return;
        }
        let machine = Machine::new();
        let ended = halfwarp_tests::finish(&mut machine.natively(guest(self.name)), DEADLINE);
        expect(test, self.judge(&ended, self.passes_natively()));
    }
}

macro_rules! cases {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                let source = include_str!(concat!("../cases/c/", $name, ".c"));
                Case { name: $name, source }.run_as_a_tenant(stringify!($test));
            }
        )*

        /// On the driver alone, each ends as its head says.
        mod natively {
            use super::Case;
            $(
                #[test]
                fn $test() {
                    let source = include_str!(concat!("../cases/c/", $name, ".c"));
                    let test = concat!("natively::", stringify!($test));
                    Case { name: $name, source }.run_natively(test);
                }
            )*
        }
    };
}

cases! {
    hook_01_every_pointer_that_a_runtime_looks_up_leads_to_the_limit "hook_01"
    hook_02_the_version_asked_for_decides_which_form_is_answered "hook_02"
    hook_03_the_limit_holds_on_every_road_to_the_driver "hook_03"
    hook_04_the_next_search_is_answered_as_often_as_it_is_asked "hook_04"
    hook_09_nothing_of_ours_lands_in_a_capture "hook_09"
    hook_10_calls_without_a_context_get_the_drivers_own_answers "hook_10"
    hook_11_a_guest_changes_nothing_of_its_process "hook_11"
    life_01_bytes_are_free_however_a_process_ends "life_01"
    life_02_a_forked_child_takes_nothing_from_its_parent "life_02"
    life_05_children_forked_amid_allocations_live_and_end "life_05"
    mem_01_as_many_blocks_as_the_free_figure_says "mem_01"
    mem_02_every_way_of_getting_memory_counts "mem_02"
    mem_03_arrays_count "mem_03"
    mem_04_a_pool_is_no_way_round_the_limit "mem_04"
    mem_06_memory_on_the_host_costs_the_tenant_nothing "mem_06"
    mem_07_memory_released_twice_is_subtracted_once "mem_07"
    mem_08_memory_may_be_released_by_the_other_call "mem_08"
    mem_12_two_processes_read_one_figure "mem_12"
    mem_13_four_workers_together_get_what_the_limit_allows "mem_13"
    mem_14_threads_that_ask_together_pass_together_only_as_far_as_it_fits "mem_14"
    mem_17_all_that_is_free_can_be_had_at_once "mem_17"
    mem_19_base_and_size_are_those_asked_for "mem_19"
}
