//! The laws of the core, held against random lives of random teams.
//!
//! `teams` draws a team, `script` decides what its actions return, `life` drives it through kills, stops, mail and
//! changes by the throw of `dice`; `view` is what is compared. Then a file for each family of laws, and `cases` for
//! single lives that are worth telling by themselves.

#[path = "laws/dice.rs"]
mod dice;
#[path = "laws/hand.rs"]
mod hand;
#[path = "laws/life.rs"]
mod life;
#[path = "laws/script.rs"]
mod script;
#[path = "laws/teams.rs"]
mod teams;
#[path = "laws/view.rs"]
mod view;

#[path = "laws/cases.rs"]
mod cases;
#[path = "laws/replay.rs"]
mod replay;
#[path = "laws/shapes.rs"]
mod shapes;

#[path = "laws/halting.rs"]
mod halting;
#[path = "laws/illegal.rs"]
mod illegal;
#[path = "laws/order.rs"]
mod order;
#[path = "laws/recovery.rs"]
mod recovery;
#[path = "laws/routing.rs"]
mod routing;
#[path = "laws/scopes.rs"]
mod scopes;
#[path = "laws/simulation.rs"]
mod simulation;
