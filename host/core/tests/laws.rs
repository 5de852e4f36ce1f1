//! The laws of the core, held against random lives of random teams.
//!
//! `teams` draws a team, `script` decides what its actions return, `life` drives it through kills,
//! stops, mail and changes (`mending`) by the throw of `dice`; `view` is what is compared; `hand`
//! moves a life by hand. Then a file for each family of laws: what is recorded (`replay`,
//! `illegal`), order and privacy (`order`), who receives what (`routing`), what deciding that may
//! cost (`conditions`), what waits for what (`joins`), shared state (`scopes`), who waits for a
//! person (`people`), the end (`halting`), what survives (`recovery`), going back (`lineages`), all
//! at once (`simulation`); and single lives worth telling by themselves: `stories` of each mode,
//! `fan_in` with joins, `cases` that once went wrong, `shapes` and keys.

#[path = "laws/dice.rs"]
mod dice;
#[path = "laws/forgery.rs"]
mod forgery;
#[path = "laws/hand.rs"]
mod hand;
#[path = "laws/life.rs"]
mod life;
#[path = "laws/mending.rs"]
mod mending;
#[path = "laws/script.rs"]
mod script;
#[path = "laws/teams.rs"]
mod teams;
#[path = "laws/view.rs"]
mod view;

#[path = "laws/cases.rs"]
mod cases;
#[path = "laws/conditions.rs"]
mod conditions;
#[path = "laws/doubts.rs"]
mod doubts;
#[path = "laws/fan_in.rs"]
mod fan_in;
#[path = "laws/files.rs"]
mod files;
#[path = "laws/halting.rs"]
mod halting;
#[path = "laws/illegal.rs"]
mod illegal;
#[path = "laws/joins.rs"]
mod joins;
#[path = "laws/lineages.rs"]
mod lineages;
#[path = "laws/order.rs"]
mod order;
#[path = "laws/people.rs"]
mod people;
#[path = "laws/purses.rs"]
mod purses;
#[path = "laws/recovery.rs"]
mod recovery;
#[path = "laws/replay.rs"]
mod replay;
#[path = "laws/routing.rs"]
mod routing;
#[path = "laws/scopes.rs"]
mod scopes;
#[path = "laws/shapes.rs"]
mod shapes;
#[path = "laws/simulation.rs"]
mod simulation;
#[path = "laws/stories.rs"]
mod stories;
#[path = "laws/tries.rs"]
mod tries;
