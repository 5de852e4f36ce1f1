//! Laws of the file, checked on states that runs of a small team lead to.

use proptest::collection::vec;
use proptest::prelude::*;

use strata_core::stepper::Stepper;

use super::{export, import, is_finished, saved_definition};
use crate::store::script::{Run, definition, normal, team};

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back_exactly(turns in vec(any::<u8>(), 0..400), stride in 5..20usize) {
        let team = team();
        let mut run = Run::new(&turns);
        while run.events.len() < 300 && run.advance() {
            if !run.events.len().is_multiple_of(stride) {
                continue;
            }
            let env = run.stepper.env();
            let text = export(&team, env, &definition());
            let read = import(&team, text.as_bytes()).unwrap();
            prop_assert_eq!(normal(&read), normal(env));
            prop_assert_eq!(export(&team, &read, &definition()), text.clone());
            let on = Stepper::new(team.clone(), read);
            prop_assert_eq!(on.next(), run.stepper.next());
            prop_assert_eq!(saved_definition(text.as_bytes()).unwrap(), Some(definition()));
            prop_assert_eq!(is_finished(text.as_bytes()).unwrap(), env.is_finished());
        }
    }
}
